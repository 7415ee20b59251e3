"""The refusal of requests while the gateway has as many in flight as it may: the cheapest answer that it can give.

Under ten times the load that the gateway can serve, nine of ten requests are refused. So a refusal is sent before the
request is authenticated, read or routed, and the same bytes are sent to all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from surehand.gateway.access.access_control import EVENT_STREAMS, PUBLIC_PATHS, SECURITY_HEADERS
from surehand.gateway.access.request_limits import RETRY_AFTER_SECONDS
from surehand.gateway.problems import PROBLEM_MEDIA_TYPE, problem_response

if TYPE_CHECKING:
    from starlette.types import Message, Scope, Send

_BODY = bytes(problem_response(429, "rate_limited", "The gateway has as many requests in flight as it may.").body)
_START: Message = {
    "type": "http.response.start",
    "status": 429,
    "headers": [
        (b"content-type", PROBLEM_MEDIA_TYPE.encode()),
        (b"content-length", str(len(_BODY)).encode()),
        (b"retry-after", str(int(RETRY_AFTER_SECONDS)).encode()),
        (b"cache-control", b"no-store"),
        *SECURITY_HEADERS,
    ],
}


def is_refused_when_full(scope: Scope) -> bool:
    """Whether a request counts as one in flight: not a check of health, and no event stream, which has other limits."""
    path = scope["path"].removeprefix(scope.get("root_path", ""))
    if path in PUBLIC_PATHS or path.rstrip("/") == "/mcp":  # the MCP server has quotas of its own
        return False
    return scope["method"] != "GET" or EVENT_STREAMS.fullmatch(path) is None


async def refuse_overload(send: Send) -> None:
    """Answer 429."""
    await send({**_START, "headers": [*_START["headers"]]})
    await send({"type": "http.response.body", "body": _BODY})
