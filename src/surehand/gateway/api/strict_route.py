"""The body of a request: JSON that is read exactly as it was sent, or refused, within bounds of work.

FastAPI reads bodies with `json.loads`, which takes the last of two equal keys, NaN, lone surrogates and UTF-16.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import Request
from fastapi.routing import APIRoute
from starlette.responses import Response

from surehand.core.errors import InvalidArguments
from surehand.core.strict_json import MalformedJson, decode_utf8, has_at_most_parts, parse_json
from surehand.gateway.problems import Problem

MAX_BODY_PARTS = 100_000
"""Values in a body, at any depth: checking them keeps other requests waiting."""
MAX_BYTES_PARSED_AT_ONCE = 64 * 1024
"""A larger body is parsed in a thread."""


class StrictRequest(Request):
    """A request whose body is strict JSON."""

    async def json(self) -> Any:
        """The body as a value; raises `Problem`."""
        body = await self.body()
        if len(body) <= MAX_BYTES_PARSED_AT_ONCE:
            return _parse_body(body)
        return await asyncio.to_thread(_parse_body, body)


class StrictRoute(APIRoute):
    """A route that reads its body as strict JSON."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """The handler of this route, with a request of ours."""
        handle = super().get_route_handler()

        async def handle_strictly(request: Request) -> Response:
            return await handle(StrictRequest(request.scope, request.receive))

        return handle_strictly


def _parse_body(body: bytes) -> Any:
    try:
        value = parse_json(decode_utf8(body))
    except InvalidArguments as error:
        code = "bad_request" if isinstance(error, MalformedJson) else "invalid_arguments"
        raise Problem(code, f"The body of the request is not valid: {error}") from None
    # A part takes a character at least, and a comma or bracket: a short body need not be counted.
    if len(body) >= 2 * MAX_BODY_PARTS and not has_at_most_parts(MAX_BODY_PARTS, value):
        raise Problem("too_large", f"The body of a request may have {MAX_BODY_PARTS:,} values.")
    return value
