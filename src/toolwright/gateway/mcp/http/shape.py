"""Shape: messages as the library writes them, without its models where it is plain what they would make."""

from __future__ import annotations

import json
from typing import Any

from mcp.shared.inbound import ERROR_CODE_HTTP_STATUS
from mcp_types import ErrorData, JSONRPCError, RequestId

from toolwright.gateway.mcp.direct_call import DirectCalls
from toolwright.gateway.mcp.http.reply import Said
from toolwright.jsonrpc.codec import encode_result

_write = json.JSONEncoder(separators=(",", ":")).encode


class Shape:
    """Results and errors of calls as bodies."""

    def result(self, id: RequestId, result: dict[str, Any]) -> Said:
        """A result."""
        return Said(_write({"jsonrpc": "2.0", "id": id, "result": result}).encode())

    def older_result(self, id: RequestId, result: dict[str, Any]) -> Said:
        """The same in the older protocol."""
        return Said(encode_result(id, result))

    def error(self, id: RequestId, error: Exception) -> Said:
        """What went wrong; what nobody thought of stays in our log."""
        return failed(id, DirectCalls.error_data(error))


def failed(id: RequestId, error: ErrorData) -> Said:
    """An error."""
    body = JSONRPCError(jsonrpc="2.0", id=id, error=error).model_dump(mode="json", by_alias=True, exclude_none=True)
    return Said(_write(body).encode(), ERROR_CODE_HTTP_STATUS.get(error.code, 200))
