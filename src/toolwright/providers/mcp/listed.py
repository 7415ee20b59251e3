"""Listed: ask a server what it offers, page by page. Loaded when a connection is opened."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from time import time
from typing import TYPE_CHECKING, Any

import mcp_types as types
from mcp import MCPError

from toolwright.providers.mcp.manifest import Manifest
from toolwright.providers.mcp.routes.trouble import trouble_of

if TYPE_CHECKING:
    from mcp import Client

PAGES = 100
MOST = 10_000
"""Tools of one server."""
SIZE = 32 << 20
"""Bytes of all its definitions."""


async def listed(client: Client, log: logging.Logger) -> Manifest:
    """All that the server offers now."""
    tools, ttl = await _tools(client, log)
    discovered = client.session.discover_result
    return Manifest(
        tools=tuple(tools),
        prompts=tuple(await _prompts(client, log)),
        instructions=client.instructions or "",
        server=_dumped(client.server_info) if client.server_info else {},
        protocol=client.protocol_version,
        discover=_dumped(discovered) if discovered else None,
        listed_at=time(),
        ttl=ttl,
    )


async def _tools(client: Client, log: logging.Logger) -> tuple[list[Mapping[str, Any]], float | None]:
    if client.server_capabilities.tools is None and client.protocol_version < "2026":
        return [], None
    found: list[Mapping[str, Any]] = []
    cursor: str | None = None
    ttl: float | None = None
    size = 0
    for _ in range(PAGES):
        page = await _page(client, cursor)
        size += len(page.model_dump_json())
        found += [_dumped(tool) for tool in page.tools]
        ttl = page.ttl_ms / 1000
        cursor = page.next_cursor
        if cursor is None:
            return found[:MOST], ttl
        if len(found) >= MOST or size > SIZE:
            break
    log.warning("More than %s tools, %s pages or %s bytes of them; the rest is left out.", MOST, PAGES, SIZE)
    return found[:MOST], ttl


async def _page(client: Client, cursor: str | None) -> types.ListToolsResult:
    try:
        return await client.session.list_tools(params=types.PaginatedRequestParams(cursor=cursor))
    except MCPError as error:
        if error.code != types.METHOD_NOT_FOUND:
            raise
        return types.ListToolsResult(tools=[])


async def _prompts(client: Client, log: logging.Logger) -> list[Mapping[str, Any]]:
    """Prompts are told of, not run; a server that fails to list them still has its tools."""
    if client.server_capabilities.prompts is None:
        return []
    try:
        return [_dumped(prompt) for prompt in (await client.session.list_prompts()).prompts[:MOST]]
    except Exception as error:  # noqa: BLE001
        log.debug("No prompts: %s", trouble_of(error).message)
        return []


def _dumped(model: Any) -> dict[str, Any]:
    dumped: dict[str, Any] = model.model_dump(mode="json", by_alias=True, exclude_unset=True)
    return dumped
