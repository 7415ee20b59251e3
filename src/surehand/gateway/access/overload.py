"""What is answered while the gateway has as many requests in flight as it may: 429, before anything else is done.

`gateway/mcp/http/early_refusal.py` sends the same answer where the gateway runs in our own server.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from surehand.gateway.access.access_control import EVENT_STREAMS, PUBLIC_PATHS, SECURITY_HEADERS
from surehand.gateway.access.request_limits import RETRY_AFTER_SECONDS
from surehand.gateway.mcp.http.early_refusal import EarlyRefusal, RefusalResponse
from surehand.gateway.problems import PROBLEM_MEDIA_TYPE, problem_response

if TYPE_CHECKING:
    from starlette.types import Send

_BODY = bytes(problem_response(429, "rate_limited", "The gateway has as many requests in flight as it may.").body)
_RESPONSE = RefusalResponse(
    (
        (b"content-type", PROBLEM_MEDIA_TYPE.encode()),
        (b"content-length", str(len(_BODY)).encode()),
        (b"retry-after", str(int(RETRY_AFTER_SECONDS)).encode()),
        (b"cache-control", b"no-store"),
        *SECURITY_HEADERS,
    ),
    _BODY,
)


def counts_as_request(method: str, path: str) -> bool:
    """Whether a request is one of those that fill the gateway.

    Checks of health are not, nor are event streams and the MCP server, which have limits of their own.
    """
    if path in PUBLIC_PATHS or path.rstrip("/") == "/mcp":
        return False
    return method != "GET" or EVENT_STREAMS.fullmatch(path) is None


def early_refusal(is_full: Callable[[], bool]) -> EarlyRefusal:
    """The refusal of requests by our own server, before they reach the app."""
    return EarlyRefusal(is_full, counts_as_request, _RESPONSE)


async def refuse_overload(send: Send) -> None:
    """Answer 429."""
    await send({"type": "http.response.start", "status": 429, "headers": [*_RESPONSE.headers]})
    await send({"type": "http.response.body", "body": _RESPONSE.body})
