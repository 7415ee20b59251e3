"""Listed: ask a server what it offers, page by page. Loaded when a connection is opened."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from time import time
from typing import TYPE_CHECKING, Any

import mcp_types as types
from mcp import MCPError

from surehand.providers.mcp.manifest import Manifest
from surehand.providers.mcp.transports.connection_errors import failure_of

if TYPE_CHECKING:
    from mcp import Client

PAGES = 100
MOST = 10_000
"""Tools of one server, and prompts."""
SIZE = 32 << 20
"""Bytes of all its definitions."""
PROMPTS = 10.0
"""Seconds that a server has to list its prompts, without which it can be used."""


async def listed(client: Client, log: logging.Logger) -> Manifest:
    """All that the server offers now."""
    return Manifest(
        tools=tuple(await _tools(client, log)),
        prompts=tuple(await _prompts(client, log)),
        instructions=client.instructions or "",
        server=_dumped(client.server_info) if client.server_info else {},
        protocol=client.protocol_version,
        listed_at=time(),
    )


async def _tools(client: Client, log: logging.Logger) -> list[Mapping[str, Any]]:
    if client.server_capabilities.tools is None and client.protocol_version < "2026":
        return []
    try:
        return await _pages("tools", client.session.list_tools, log)
    except MCPError as error:
        if error.code != types.METHOD_NOT_FOUND:
            raise
        return []


async def _prompts(client: Client, log: logging.Logger) -> list[Mapping[str, Any]]:
    """Prompts are told of, not run; a server that fails to list them still has its tools."""
    if client.server_capabilities.prompts is None:
        return []
    try:
        async with asyncio.timeout(PROMPTS):
            return await _pages("prompts", client.session.list_prompts, log)
    except TimeoutError:
        log.warning("No prompts: they were not listed within %g s.", PROMPTS)
        return []
    except Exception as error:  # noqa: BLE001
        log.debug("No prompts: %s", failure_of(error).message)
        return []


async def _pages(what: str, ask: Callable[..., Awaitable[Any]], log: logging.Logger) -> list[Mapping[str, Any]]:
    """Page after page, as far as a server may go on."""
    found: list[Mapping[str, Any]] = []
    cursor, size = None, 0
    for _ in range(PAGES):
        page = await ask(params=types.PaginatedRequestParams(cursor=cursor))
        size += len(page.model_dump_json())
        found += [_dumped(each) for each in getattr(page, what)]
        cursor = page.next_cursor
        if cursor is None:
            return found[:MOST]
        if len(found) >= MOST or size > SIZE:
            break
    log.warning("More than %s %s, %s pages or %s bytes of them; the rest is left out.", MOST, what, PAGES, SIZE)
    return found[:MOST]


def _dumped(model: Any) -> dict[str, Any]:
    dumped: dict[str, Any] = model.model_dump(mode="json", by_alias=True, exclude_unset=True)
    return dumped
