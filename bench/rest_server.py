"""A minimal HTTP service: `python rest_server.py` prints its port, then answers every request with the same JSON."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import uvicorn

ANSWER = b'{"city":"Porto","temperature":18.5,"wind":{"speed":12,"from":"NW"},"days":[{"max":19},{"max":21}]}'


async def app(scope: dict[str, Any], receive: Any, send: Any) -> None:
    """Read the request, and answer."""
    if scope["type"] != "http":
        return
    while (await receive()).get("more_body"):
        pass
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(ANSWER)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": ANSWER})


if __name__ == "__main__":
    listener = socket.create_server(("127.0.0.1", 0))
    # As uvicorn does for a socket that it opens itself: without it, the time includes the delay of Nagle's algorithm.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    print(listener.getsockname()[1], flush=True)
    asyncio.run(uvicorn.Server(uvicorn.Config(app, log_level="error", lifespan="off")).serve([listener]))
