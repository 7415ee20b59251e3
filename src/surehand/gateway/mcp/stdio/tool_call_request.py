"""Tool calls as they are read from a line, before it is known whether the MCP SDK has to handle them."""

from __future__ import annotations

from typing import Any, NamedTuple

from mcp_types import JSONRPCRequest, RequestId

from surehand.jsonrpc.codec import JsonRpcMessage, MalformedMessage, OverlongFrame, message_from_dict, parse_frame
from surehand.jsonrpc.limits import CLIENT_MESSAGE_LIMITS

_REQUEST_KEYS = {"jsonrpc", "id", "method", "params"}
_ID_TYPES = (int, str)


class ToolCallRequest(NamedTuple):
    """A `tools/call` request. A model of the MCP SDK is made of it only if the SDK handles it."""

    id: RequestId
    params: dict[str, Any]

    def to_sdk_request(self) -> JSONRPCRequest:
        """The request as the SDK's model."""
        return JSONRPCRequest(jsonrpc="2.0", id=self.id, method="tools/call", params=self.params)


def decode_line(line: bytes | OverlongFrame) -> JsonRpcMessage | ToolCallRequest | MalformedMessage:
    """Parse a line; a well-formed `tools/call` request becomes a `ToolCall`."""
    value = parse_frame(line, CLIENT_MESSAGE_LIMITS)
    if isinstance(value, MalformedMessage):
        return value
    if value.get("method") == "tools/call" and value.keys() == _REQUEST_KEYS and value["jsonrpc"] == "2.0":
        request_id = value["id"]
        params = value["params"]
        if type(request_id) in _ID_TYPES and type(params) is dict:
            return ToolCallRequest(request_id, params)
    return message_from_dict(value)
