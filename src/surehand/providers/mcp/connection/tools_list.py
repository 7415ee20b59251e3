"""Listed: ask a server what it offers, page by page. Loaded when a connection is opened."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from time import time
from typing import TYPE_CHECKING, Any

import mcp_types as types
from mcp import MCPError

from surehand.providers.mcp.tools.manifest import Manifest
from surehand.providers.mcp.transports.connection_errors import failure_from_error

if TYPE_CHECKING:
    from mcp import Client

MAX_LIST_PAGES = 100
MAX_LIST_ITEMS = 10_000
"""Tools of one server, and prompts."""
MAX_LIST_BYTES = 32 << 20
"""Bytes of all its definitions."""
PROMPTS_TIMEOUT_SECONDS = 10.0
"""Seconds that a server has to list its prompts, without which it can be used."""


async def fetch_manifest(client: Client, log: logging.Logger) -> Manifest:
    """All that the server offers now."""
    return Manifest(
        tools=tuple(await _fetch_tools(client, log)),
        prompts=tuple(await _fetch_prompts(client, log)),
        instructions=client.instructions or "",
        server=_to_wire(client.server_info) if client.server_info else {},
        protocol=client.protocol_version,
        listed_at=time(),
    )


async def _fetch_tools(client: Client, log: logging.Logger) -> list[Mapping[str, Any]]:
    if client.server_capabilities.tools is None and client.protocol_version < "2026":
        return []
    try:
        return await _fetch_pages("tools", client.session.list_tools, log)
    except MCPError as error:
        if error.code != types.METHOD_NOT_FOUND:
            raise
        return []


async def _fetch_prompts(client: Client, log: logging.Logger) -> list[Mapping[str, Any]]:
    """Prompts are told of, not run; a server that fails to list them still has its tools."""
    if client.server_capabilities.prompts is None:
        return []
    try:
        async with asyncio.timeout(PROMPTS_TIMEOUT_SECONDS):
            return await _fetch_pages("prompts", client.session.list_prompts, log)
    except TimeoutError:
        log.warning("No prompts: they were not listed within %g s.", PROMPTS_TIMEOUT_SECONDS)
        return []
    except Exception as error:  # noqa: BLE001
        log.debug("No prompts: %s", failure_from_error(error).message)
        return []


async def _fetch_pages(
    field: str, request_page: Callable[..., Awaitable[Any]], log: logging.Logger
) -> list[Mapping[str, Any]]:
    """Page after page, as far as a server may go on."""
    found: list[Mapping[str, Any]] = []
    cursor, size = None, 0
    for _ in range(MAX_LIST_PAGES):
        page = await request_page(params=types.PaginatedRequestParams(cursor=cursor))
        size += len(page.model_dump_json())
        found += [_to_wire(each) for each in getattr(page, field)]
        cursor = page.next_cursor
        if cursor is None:
            return found[:MAX_LIST_ITEMS]
        if len(found) >= MAX_LIST_ITEMS or size > MAX_LIST_BYTES:
            break
    log.warning(
        "More than %s %s, %s pages or %s bytes of them; the rest is left out.",
        MAX_LIST_ITEMS,
        field,
        MAX_LIST_PAGES,
        MAX_LIST_BYTES,
    )
    return found[:MAX_LIST_ITEMS]


def _to_wire(model: Any) -> dict[str, Any]:
    dumped: dict[str, Any] = model.model_dump(mode="json", by_alias=True, exclude_unset=True)
    return dumped
