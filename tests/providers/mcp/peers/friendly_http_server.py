"""The friendly server over HTTP: `python friendly_http_server.py streamable-http|sse|websocket [port] [json]`.

It prints its port. If `SERVED_TOKEN` is set, it requires that bearer token.
"""

import asyncio
import os
import socket
import sys
from typing import Any

import uvicorn
from friendly_server import server
from starlette.types import ASGIApp, Receive, Scope, Send
from websocket_bridge import bridge_websocket
from websockets.asyncio.server import serve


class RequireToken:
    """Reject requests without the token."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self.app, self.token = app, token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        authorization = dict(scope.get("headers", ())).get(b"authorization", b"").decode()
        if scope["type"] == "http" and authorization != f"Bearer {self.token}":
            await send({"type": "http.response.start", "status": 401, "headers": [(b"content-type", b"text/plain")]})
            await send({"type": "http.response.body", "body": b"who are you?"})
            return
        await self.app(scope, receive, send)


class Server(uvicorn.Server):
    async def startup(self, sockets: Any = None) -> None:
        await super().startup(sockets)
        print(self.servers[0].sockets[0].getsockname()[1], flush=True)


async def serve_websocket(port: int) -> None:
    async with serve(
        lambda each: bridge_websocket(each, server("served")), "127.0.0.1", port, subprotocols=["mcp"]
    ) as served:
        print(served.sockets[0].getsockname()[1], flush=True)
        await served.serve_forever()


def main(kind: str, port: int = 0, *options: str) -> None:
    if kind == "websocket":
        asyncio.run(serve_websocket(port))
        return
    mcp = server(f"served-{kind}")
    if kind == "sse":
        app: ASGIApp = mcp.sse_app(host="127.0.0.1")
    else:
        app = mcp.streamable_http_app(host="127.0.0.1", json_response="json" in options)
    if token := os.environ.get("SERVED_TOKEN"):
        app = RequireToken(app, token)
    listener = socket.create_server(("127.0.0.1", port))
    config = uvicorn.Config(app, log_level="critical", timeout_graceful_shutdown=1)
    Server(config).run(sockets=[listener])


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 0, *sys.argv[3:])
