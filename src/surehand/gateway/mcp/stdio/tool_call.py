"""Tool calls as they are read from a line, before it is known whether the MCP SDK has to handle them."""

from __future__ import annotations

from typing import Any, NamedTuple

from mcp_types import JSONRPCRequest, RequestId

from surehand.jsonrpc.codec import Malformed, Message, OverlongFrame, as_message, parse
from surehand.jsonrpc.limits import FROM_CLIENT

_REQUEST_KEYS = {"jsonrpc", "id", "method", "params"}
_ID_TYPES = (int, str)


class ToolCall(NamedTuple):
    """A `tools/call` request. A model of the MCP SDK is made of it only if the SDK handles it."""

    id: RequestId
    params: dict[str, Any]

    def as_request(self) -> JSONRPCRequest:
        """The request as the SDK's model."""
        return JSONRPCRequest(jsonrpc="2.0", id=self.id, method="tools/call", params=self.params)


def decode_line(line: bytes | OverlongFrame) -> Message | ToolCall | Malformed:
    """Parse a line; a well-formed `tools/call` request becomes a `ToolCall`."""
    value = parse(line, FROM_CLIENT)
    if isinstance(value, Malformed):
        return value
    if value.get("method") == "tools/call" and value.keys() == _REQUEST_KEYS and value["jsonrpc"] == "2.0":
        request_id = value["id"]
        params = value["params"]
        if type(request_id) in _ID_TYPES and type(params) is dict:
            return ToolCall(request_id, params)
    return as_message(value)
