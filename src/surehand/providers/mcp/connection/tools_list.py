"""Fetches the manifest of a server: `tools/list` and `prompts/list`, page by page, within limits."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from time import time
from typing import TYPE_CHECKING, Any

import mcp_types as types
from mcp import MCPError

from surehand.providers.mcp.connection_errors import failure_from_error
from surehand.providers.mcp.tools.manifest import Manifest

if TYPE_CHECKING:
    from mcp import Client

    from surehand.providers.mcp.connection_secrets import ServerLog

MAX_LIST_PAGES = 100
MAX_LIST_ITEMS = 10_000
"""Tools of one server, and as many prompts."""
MAX_LIST_BYTES = 32 << 20
"""Bytes of all definitions of one list."""
PROMPTS_TIMEOUT_SECONDS = 10.0
"""Time for listing prompts. A server without its prompts is still usable."""


async def fetch_manifest(client: Client, log: ServerLog) -> Manifest:
    """List the tools and prompts of a server."""
    return Manifest(
        tools=tuple(await _fetch_tools(client, log)),
        prompts=tuple(await _fetch_prompts(client, log)),
        instructions=client.instructions or "",
        server=_to_wire(client.server_info) if client.server_info else {},
        protocol=client.protocol_version,
        listed_at=time(),
    )


async def _fetch_tools(client: Client, log: ServerLog) -> list[Mapping[str, Any]]:
    if client.server_capabilities.tools is None and client.protocol_version < "2026":
        return []
    try:
        return await _fetch_pages("tools", client.session.list_tools, log)
    except MCPError as error:
        if error.code != types.METHOD_NOT_FOUND:
            raise
        return []


async def _fetch_prompts(client: Client, log: ServerLog) -> list[Mapping[str, Any]]:
    """The prompts, which models only read about. A failure is logged, and the tools are still used."""
    if client.server_capabilities.prompts is None:
        return []
    try:
        async with asyncio.timeout(PROMPTS_TIMEOUT_SECONDS):
            return await _fetch_pages("prompts", client.session.list_prompts, log)
    except TimeoutError:
        log.warning("The prompts were not listed within %g s, and are ignored.", PROMPTS_TIMEOUT_SECONDS)
        return []
    except Exception as error:  # noqa: BLE001 - prompts are optional
        log.debug("The prompts could not be listed: %s", failure_from_error(error).message)
        return []


async def _fetch_pages(
    field: str, request_page: Callable[..., Awaitable[Any]], log: ServerLog
) -> list[Mapping[str, Any]]:
    """Fetch all pages of a list, up to the limits."""
    items: list[Mapping[str, Any]] = []
    cursor = None
    byte_count = 0
    for _ in range(MAX_LIST_PAGES):
        page = await request_page(params=types.PaginatedRequestParams(cursor=cursor))
        byte_count += len(page.model_dump_json())
        items += [_to_wire(item) for item in getattr(page, field)]
        cursor = page.next_cursor
        if cursor is None:
            return items[:MAX_LIST_ITEMS]
        if len(items) >= MAX_LIST_ITEMS or byte_count > MAX_LIST_BYTES:
            break
    log.warning(
        "The list of %s was cut: at most %s items, %s pages and %s bytes are read.",
        field,
        MAX_LIST_ITEMS,
        MAX_LIST_PAGES,
        MAX_LIST_BYTES,
    )
    return items[:MAX_LIST_ITEMS]


def _to_wire(model: Any) -> dict[str, Any]:
    fields: dict[str, Any] = model.model_dump(mode="json", by_alias=True, exclude_unset=True)
    return fields
