"""Outputs: texts that were too large for a model, as resources that a client can list and read."""

from __future__ import annotations

from contextlib import suppress
from math import isfinite
from typing import TYPE_CHECKING, Any

from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from surehand.core.errors import NotFound
from surehand.core.sanitize import replace_surrogates
from surehand.gateway.mcp.caller import request_user
from surehand.gateway.mcp.pagination import Paginator
from surehand.gateway.mcp.timestamps import format_timestamp
from surehand.gateway.mcp.tool_result import OUTPUT_URI_PREFIX, artifact_name
from surehand.runtime.outputs import READER_TOOL_NAME

if TYPE_CHECKING:
    from mcp.server.context import ServerRequestContext
    from mcp_types import PaginatedRequestParams, ReadResourceRequestParams

    from surehand.gateway.mcp.served_runtime import ServedRuntime
    from surehand.runtime.scope import Scope
    from surehand.store.tables.artifacts import ArtifactInfo

MAX_READ_BYTES = 4 << 20
"""Bytes of an output that is read in one message."""
OUTPUT_CACHE_MILLISECONDS = 24 * 3_600_000
"""Milliseconds for which what was read need not be read again: no output ever changes."""
HANDSHAKE_RESOURCE_NOT_FOUND_CODE = -32002
_OUTPUT_TEMPLATE = {
    "uriTemplate": f"{OUTPUT_URI_PREFIX}{{handle}}",
    "name": "output",
    "title": "Output of a tool",
    "description": "A text that was too large to show, whole. The handle is in the message that stands for it.",
    "mimeType": "text/plain",
}


class ResourceHandlers:
    """Serves `resources/list`, `resources/templates/list` and `resources/read`, to each caller its own."""

    def __init__(self, served_runtime: ServedRuntime) -> None:
        self._served_runtime, self._paginator = served_runtime, Paginator("outputs", served_runtime.options.page)

    async def list_resources(
        self, ctx: ServerRequestContext[Any, Any], params: PaginatedRequestParams
    ) -> dict[str, Any]:
        """One page, the newest first."""
        scope, size = self._caller_scope(ctx), self._served_runtime.options.page
        before = None if params.cursor is None else self._decode_cursor(params.cursor)
        who = scope.principal
        found = await scope.services.outputs.list_newest(who.user, who.session, limit=size + 1, before=before)
        shown = found[:size]
        rest = {"nextCursor": self._encode_cursor(shown[-1])} if len(found) > size else {}
        return {"resultType": "complete", "resources": [_resource_entry(label) for label in shown], **rest}

    async def list_templates(
        self, ctx: ServerRequestContext[Any, Any], params: PaginatedRequestParams
    ) -> dict[str, Any]:
        """The one form that addresses have."""
        if params.cursor is not None:
            raise self._paginator.invalid_cursor_error()
        return {"resultType": "complete", "resourceTemplates": [_OUTPUT_TEMPLATE]}

    async def read_resource(
        self, ctx: ServerRequestContext[Any, Any], params: ReadResourceRequestParams
    ) -> dict[str, Any]:
        """The whole text; to anybody but its owner it does not exist."""
        scope, uri = self._caller_scope(ctx), params.uri
        handle, who, outputs = uri.removeprefix(OUTPUT_URI_PREFIX), scope.principal, scope.services.outputs
        label = await outputs.find_label(handle, who.user, who.session) if uri.startswith(OUTPUT_URI_PREFIX) else None
        if label is None:
            raise _not_found_error(ctx, uri)
        if label.bytes > MAX_READ_BYTES:
            raise MCPError(INVALID_PARAMS, _too_large_message(label), {"uri": uri, "size": label.bytes})
        try:
            text = (await outputs.find(handle, who.user, who.session)).text
        except NotFound:  # it was pruned meanwhile
            raise _not_found_error(ctx, uri) from None
        content = {"uri": uri, "mimeType": "text/plain", "text": replace_surrogates(text)}
        return {"resultType": "complete", "contents": [content]}

    def _caller_scope(self, ctx: ServerRequestContext[Any, Any]) -> Scope:
        return self._served_runtime.scope(request_user(ctx) or self._served_runtime.options.user)

    def _encode_cursor(self, artifact: ArtifactInfo) -> str:
        return self._paginator.encode_cursor(f"{artifact.created_at!r} {artifact.handle}")

    def _decode_cursor(self, cursor: str) -> tuple[float, str]:
        at, _, handle = self._paginator.decode_cursor(cursor).partition(" ")
        with suppress(ValueError):
            if isfinite(float(at)) and handle.isalnum():
                return float(at), handle
        raise self._paginator.invalid_cursor_error()


def _resource_entry(artifact: ArtifactInfo) -> dict[str, Any]:
    why = "too large to show" if artifact.reason == "size_limit_exceeded" else "more than the turn could afford"
    return {
        "uri": f"{OUTPUT_URI_PREFIX}{artifact.handle}",
        "name": artifact_name(artifact.handle),
        "title": f"Output of {artifact.tool}",
        "description": f"What {artifact.tool} gave, {why}: {artifact.lines:,} lines. {READER_TOOL_NAME} reads parts of it.",
        "mimeType": "text/plain",
        "size": artifact.bytes,
        "annotations": {"lastModified": format_timestamp(artifact.created_at)},
    }


def _not_found_error(ctx: ServerRequestContext[Any, Any], uri: str) -> MCPError:
    code = INVALID_PARAMS if ctx.protocol_version in MODERN_PROTOCOL_VERSIONS else HANDSHAKE_RESOURCE_NOT_FOUND_CODE
    return MCPError(code, "Resource not found. resources/list has those that there are.", {"uri": uri})


def _too_large_message(artifact: ArtifactInfo) -> str:
    return (
        f"This output has {artifact.bytes:,} bytes, and at most {MAX_READ_BYTES:,} are read at once. "
        f"Read parts of it: call {READER_TOOL_NAME} with handle={artifact.handle!r} and lines='1-1000', head, tail or grep."
    )
