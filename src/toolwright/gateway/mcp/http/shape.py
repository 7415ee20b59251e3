"""Shape: messages as the library writes them, without its models where it is plain what they would make."""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING, Any

from mcp.server.runner import ServerRunner
from mcp.shared.inbound import ERROR_CODE_HTTP_STATUS
from mcp.shared.jsonrpc_dispatcher import handler_exception_to_error_data
from mcp_types import INTERNAL_ERROR, SERVER_INFO_META_KEY, ErrorData, JSONRPCError, RequestId
from pydantic_core import to_json

from toolwright.gateway.mcp.http.reply import Said

if TYPE_CHECKING:
    from toolwright.gateway.mcp.runtime_server import RuntimeServer

log = logging.getLogger("toolwright")
_PLAIN = {"resultType", "content", "isError", "structuredContent", "_meta"}
_OLDER = {"content", "isError", "structuredContent"}
_TEXT = {"type", "text"}
_write = json.JSONEncoder(separators=(",", ":")).encode


class Shape:
    """Results and errors of calls as bodies."""

    def __init__(self, server: RuntimeServer) -> None:
        self._runner: ServerRunner[Any] = ServerRunner(server, None, None)  # type: ignore[arg-type]  # it is not asked

    def result(self, id: RequestId, result: dict[str, Any], version: str) -> Said:
        """A result; whatever is not all text is looked at by the library."""
        shaped = _plain(result) or self._runner._serialize("tools/call", version, _unstamped(result))
        return Said(_write({"jsonrpc": "2.0", "id": id, "result": shaped}).encode())

    def older_result(self, id: RequestId, result: dict[str, Any], version: str) -> Said:
        """The same in the older protocol."""
        is_plain = result.keys() <= _OLDER and _is_text(result["content"])
        shaped = result if is_plain else self._runner._serialize("tools/call", version, result)
        return Said(to_json({"jsonrpc": "2.0", "id": id, "result": shaped}, inf_nan_mode="null"))

    def error(self, id: RequestId, error: Exception) -> Said:
        """What went wrong; what nobody thought of stays in our log."""
        told = handler_exception_to_error_data(error)
        if told is None:
            log.error("tools/call failed", exc_info=error)
            told = ErrorData(code=INTERNAL_ERROR, message="Internal server error")
        return failed(id, told)


def failed(id: RequestId, error: ErrorData) -> Said:
    """An error."""
    body = JSONRPCError(jsonrpc="2.0", id=id, error=error).model_dump(mode="json", by_alias=True, exclude_none=True)
    return Said(_write(body).encode(), ERROR_CODE_HTTP_STATUS.get(error.code, 200))


def _plain(result: dict[str, Any]) -> dict[str, Any] | None:
    """A result that has nothing but text and data in it, in the library's order."""
    content, meta = result.get("content", ()), result.get("_meta", _NO_META)
    if not result.keys() <= _PLAIN or result.get("resultType") not in ("complete", None) or meta.keys() != _STAMP:
        return None
    if not _is_text(content):
        return None
    shaped = {"content": [{"text": block["text"], "type": "text"} for block in content], "isError": result["isError"]}
    shaped["resultType"] = "complete"
    if result.get("structuredContent") is not None:
        shaped["structuredContent"] = result["structuredContent"]
    shaped["_meta"] = meta
    return shaped


def _is_text(content: Any) -> bool:
    return isinstance(content, list) and all(block.keys() == _TEXT for block in content)


_STAMP = {SERVER_INFO_META_KEY}
_NO_META: dict[str, Any] = {}


def _unstamped(result: dict[str, Any]) -> dict[str, Any]:
    """The same without the name of this server, which the library puts where it belongs."""
    meta = {key: value for key, value in (result.get("_meta") or {}).items() if key != SERVER_INFO_META_KEY}
    rest = {key: value for key, value in result.items() if key != "_meta"}
    return {**rest, "_meta": meta} if meta else rest
