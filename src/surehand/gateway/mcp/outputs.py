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
from surehand.gateway.mcp.caller import user_of
from surehand.gateway.mcp.moment import moment
from surehand.gateway.mcp.pages import Pages
from surehand.gateway.mcp.result import ROOT, artifact_name
from surehand.runtime.outputs import NAME

if TYPE_CHECKING:
    from mcp.server.context import ServerRequestContext
    from mcp_types import PaginatedRequestParams, ReadResourceRequestParams

    from surehand.gateway.mcp.served import Served
    from surehand.runtime.scope import Scope
    from surehand.store.artifacts import Label

LARGEST = 4 << 20
"""Bytes of an output that is read in one message."""
FOR_GOOD = 24 * 3_600_000
"""Milliseconds for which what was read need not be read again: no output ever changes."""
NOT_FOUND_BEFORE_2026 = -32002
_TEMPLATE = {
    "uriTemplate": f"{ROOT}{{handle}}",
    "name": "output",
    "title": "Output of a tool",
    "description": "A text that was too large to show, whole. The handle is in the message that stands for it.",
    "mimeType": "text/plain",
}


class Outputs:
    """Serves `resources/list`, `resources/templates/list` and `resources/read`, to each caller its own."""

    def __init__(self, served: Served) -> None:
        self._served, self._pages = served, Pages("outputs", served.options.page)

    async def list(self, ctx: ServerRequestContext[Any, Any], params: PaginatedRequestParams) -> dict[str, Any]:
        """One page, the newest first."""
        scope, size = self._scope(ctx), self._served.options.page
        before = None if params.cursor is None else self._place(params.cursor)
        who = scope.principal
        found = await scope.parts.outputs.newest(who.user, who.session, most=size + 1, before=before)
        shown = found[:size]
        rest = {"nextCursor": self._cursor(shown[-1])} if len(found) > size else {}
        return {"resultType": "complete", "resources": [_entry(label) for label in shown], **rest}

    async def templates(self, ctx: ServerRequestContext[Any, Any], params: PaginatedRequestParams) -> dict[str, Any]:
        """The one form that addresses have."""
        if params.cursor is not None:
            raise self._pages.strange()
        return {"resultType": "complete", "resourceTemplates": [_TEMPLATE]}

    async def read(self, ctx: ServerRequestContext[Any, Any], params: ReadResourceRequestParams) -> dict[str, Any]:
        """The whole text; to anybody but its owner it does not exist."""
        scope, uri = self._scope(ctx), params.uri
        handle, who, outputs = uri.removeprefix(ROOT), scope.principal, scope.parts.outputs
        label = await outputs.label(handle, who.user, who.session) if uri.startswith(ROOT) else None
        if label is None:
            raise _missing(ctx, uri)
        if label.bytes > LARGEST:
            raise MCPError(INVALID_PARAMS, _too_large(label), {"uri": uri, "size": label.bytes})
        try:
            text = (await outputs.find(handle, who.user, who.session)).text
        except NotFound:  # it was pruned meanwhile
            raise _missing(ctx, uri) from None
        content = {"uri": uri, "mimeType": "text/plain", "text": replace_surrogates(text)}
        return {"resultType": "complete", "contents": [content]}

    def _scope(self, ctx: ServerRequestContext[Any, Any]) -> Scope:
        return self._served.scope(user_of(ctx) or self._served.options.user)

    def _cursor(self, label: Label) -> str:
        return self._pages.cursor(f"{label.created_at!r} {label.handle}")

    def _place(self, cursor: str) -> tuple[float, str]:
        at, _, handle = self._pages.name(cursor).partition(" ")
        with suppress(ValueError):
            if isfinite(float(at)) and handle.isalnum():
                return float(at), handle
        raise self._pages.strange()


def _entry(label: Label) -> dict[str, Any]:
    why = "too large to show" if label.reason == "size_limit_exceeded" else "more than the turn could afford"
    return {
        "uri": f"{ROOT}{label.handle}",
        "name": artifact_name(label.handle),
        "title": f"Output of {label.tool}",
        "description": f"What {label.tool} gave, {why}: {label.lines:,} lines. {NAME} reads parts of it.",
        "mimeType": "text/plain",
        "size": label.bytes,
        "annotations": {"lastModified": moment(label.created_at)},
    }


def _missing(ctx: ServerRequestContext[Any, Any], uri: str) -> MCPError:
    code = INVALID_PARAMS if ctx.protocol_version in MODERN_PROTOCOL_VERSIONS else NOT_FOUND_BEFORE_2026
    return MCPError(code, "Resource not found. resources/list has those that there are.", {"uri": uri})


def _too_large(label: Label) -> str:
    return (
        f"This output has {label.bytes:,} bytes, and at most {LARGEST:,} are read at once. "
        f"Read parts of it: call {NAME} with handle={label.handle!r} and lines='1-1000', head, tail or grep."
    )
