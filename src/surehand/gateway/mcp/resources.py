"""The handlers of `resources/*`: outputs that were too large for a model, as resources that clients list and read."""

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
"""Bytes of the largest output that `resources/read` returns."""
OUTPUT_CACHE_MILLISECONDS = 24 * 3_600_000
"""Milliseconds for which a client may cache an output. Outputs never change."""
HANDSHAKE_RESOURCE_NOT_FOUND_CODE = -32002
"""The error code of an unknown resource in the handshake protocol. The modern one uses INVALID_PARAMS."""
_OUTPUT_TEMPLATE = {
    "uriTemplate": f"{OUTPUT_URI_PREFIX}{{handle}}",
    "name": "output",
    "title": "Output of a tool",
    "description": "A text that was too large to show, whole. The handle is in the message that stands for it.",
    "mimeType": "text/plain",
}


class ResourceHandlers:
    """Serves `resources/list`, `resources/templates/list` and `resources/read`. Users see their own outputs only."""

    def __init__(self, served_runtime: ServedRuntime) -> None:
        self._served_runtime = served_runtime
        self._paginator = Paginator("outputs", served_runtime.options.page)

    async def list_resources(
        self, ctx: ServerRequestContext[Any, Any], params: PaginatedRequestParams
    ) -> dict[str, Any]:
        """Return one page, the newest outputs first."""
        scope = self._caller_scope(ctx)
        principal = scope.principal
        page_size = self._served_runtime.options.page
        before = None if params.cursor is None else self._decode_cursor(params.cursor)
        # One more than a page, which shows whether there is another page.
        artifacts = await scope.outputs.list_newest(
            principal.user, principal.session, limit=page_size + 1, before=before
        )
        page = artifacts[:page_size]
        next_cursor = {"nextCursor": self._encode_cursor(page[-1])} if len(artifacts) > page_size else {}
        return {"resultType": "complete", "resources": [_resource_entry(each) for each in page], **next_cursor}

    async def list_templates(
        self, ctx: ServerRequestContext[Any, Any], params: PaginatedRequestParams
    ) -> dict[str, Any]:
        """Return the one template, which all resource URIs follow."""
        if params.cursor is not None:
            raise self._paginator.invalid_cursor_error()
        return {"resultType": "complete", "resourceTemplates": [_OUTPUT_TEMPLATE]}

    async def read_resource(
        self, ctx: ServerRequestContext[Any, Any], params: ReadResourceRequestParams
    ) -> dict[str, Any]:
        """Return the whole text of an output. To other users than its owner it is unknown."""
        uri = params.uri
        scope = self._caller_scope(ctx)
        principal = scope.principal
        outputs = scope.outputs
        if not uri.startswith(OUTPUT_URI_PREFIX):
            raise _not_found_error(ctx, uri)
        handle = uri.removeprefix(OUTPUT_URI_PREFIX)
        artifact = await outputs.find_label(handle, principal.user, principal.session)
        if artifact is None:
            raise _not_found_error(ctx, uri)
        if artifact.bytes > MAX_READ_BYTES:
            raise MCPError(INVALID_PARAMS, _too_large_message(artifact), {"uri": uri, "size": artifact.bytes})
        try:
            text = (await outputs.find(handle, principal.user, principal.session)).text
        except NotFound:  # it was pruned since
            raise _not_found_error(ctx, uri) from None
        content = {"uri": uri, "mimeType": "text/plain", "text": replace_surrogates(text)}
        return {"resultType": "complete", "contents": [content]}

    def _caller_scope(self, ctx: ServerRequestContext[Any, Any]) -> Scope:
        return self._served_runtime.scope(request_user(ctx) or self._served_runtime.options.user)

    def _encode_cursor(self, artifact: ArtifactInfo) -> str:
        return self._paginator.encode_cursor(f"{artifact.created_at!r} {artifact.handle}")

    def _decode_cursor(self, cursor: str) -> tuple[float, str]:
        created_at, _, handle = self._paginator.decode_cursor(cursor).partition(" ")
        with suppress(ValueError):
            if isfinite(float(created_at)) and handle.isalnum():
                return float(created_at), handle
        raise self._paginator.invalid_cursor_error()


def _resource_entry(artifact: ArtifactInfo) -> dict[str, Any]:
    reason = "too large to show" if artifact.reason == "size_limit_exceeded" else "more than the turn could afford"
    description = (
        f"What {artifact.tool} gave, {reason}: {artifact.lines:,} lines. {READER_TOOL_NAME} reads parts of it."
    )
    return {
        "uri": f"{OUTPUT_URI_PREFIX}{artifact.handle}",
        "name": artifact_name(artifact.handle),
        "title": f"Output of {artifact.tool}",
        "description": description,
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
        f"Read parts of it: call {READER_TOOL_NAME} with handle={artifact.handle!r} and "
        "lines='1-1000', head, tail or grep."
    )
