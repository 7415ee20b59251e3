"""The ASGI app that serves a runtime over streamable HTTP, in both protocols of MCP."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from mcp.server.auth.middleware.auth_context import AuthContextMiddleware
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from starlette.applications import Starlette
from starlette.middleware.errors import ServerErrorMiddleware
from starlette.responses import JSONResponse
from starlette.routing import Mount

from surehand.core.clock import Clock, Deadlines
from surehand.core.errors import DefinitionError
from surehand.gateway.mcp.http.admission import Admission
from surehand.gateway.mcp.http.authentication import BearerAuthentication, TokenOrVerifier
from surehand.gateway.mcp.http.direct_http_calls import DirectHttpCalls
from surehand.gateway.mcp.http.endpoint import McpEndpoint
from surehand.gateway.mcp.http.host_check import HostCheck
from surehand.gateway.mcp.http.running_requests import RunningRequests
from surehand.gateway.mcp.http.sessions import MAX_SESSIONS, SessionTable
from surehand.gateway.mcp.runtime_server import server

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

    from surehand.runtime.runtime import Runtime

_HTTP_METHODS = ("GET", "POST", "DELETE")


def app(
    runtime: Runtime,
    *,
    path: str = "/mcp",
    token: TokenOrVerifier | None = None,
    hosts: Iterable[str] = (),
    origins: Iterable[str] = (),
    **options: Any,
) -> Starlette:
    """An ASGI app that serves a runtime. The runtime is started with it, unless it is running.

    Args:
        path: where it is served; all other paths are not found.
        token: the bearer token that every request has to present; or a function, maybe async, from the presented token
            to the user that the request is for, or None if the token is not valid.
        hosts: names that this server is reached by, besides those of this machine alone; `"*"` for any.
        origins: sites whose pages may talk to it, as `"https://example.org"`, besides those of this machine.
        options: those of `server`.
    """
    mcp_server = server(runtime, **options)
    # Hosts, origins and idle sessions are checked here, for every path and for direct calls, too.
    manager = StreamableHTTPSessionManager(mcp_server, session_idle_timeout=None, max_sessions=MAX_SESSIONS)
    mcp_sdk = AuthContextMiddleware(manager.handle_request)
    deadlines = Deadlines(Clock())
    admission = Admission()
    direct = DirectHttpCalls(mcp_server, admission, deadlines)
    running = RunningRequests()

    def end_session(session_id: str) -> None:
        direct.end_session(session_id)
        mcp_server.notifications.end_session(session_id)

    sessions = SessionTable(mcp_sdk, deadlines, end_session)
    mcp_server.middleware += [running, admission, direct, sessions]
    endpoint = McpEndpoint(
        mcp_sdk,
        admission=admission,
        sessions=sessions,
        direct_calls=direct,
        running_requests=running,
        listen_handler=mcp_server.listen_handler,
    )
    served: ASGIApp = endpoint if token is None else BearerAuthentication(endpoint, token)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        async with manager.run():
            direct.is_running = True
            try:
                yield
            finally:
                await endpoint.stop()
                direct.is_running = False
                deadlines.close()

    return _DirectStarlette(
        HostCheck(_PathRouter(_validate_path(path), served), hosts, origins, _HTTP_METHODS), lifespan
    )


class _DirectStarlette(Starlette):
    """A Starlette app that goes straight to the one app behind it, unless routes or middleware were added to it."""

    def __init__(self, app: ASGIApp, lifespan: Any) -> None:
        super().__init__(routes=[Mount("/", app)], lifespan=lifespan)
        self._direct_app = ServerErrorMiddleware(app)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_http = scope["type"] == "http" and not scope.get("root_path") and scope["path"].startswith("/")
        if is_http and self._has_no_additions:
            scope["app"] = self
            await self._direct_app(scope, receive, send)
        else:
            await super().__call__(scope, receive, send)

    @property
    def _has_no_additions(self) -> bool:
        return not (self.debug or self.user_middleware or self.exception_handlers) and len(self.router.routes) == 1


class _PathRouter:
    """An app at one path, for the methods that MCP uses."""

    def __init__(self, path: str, app: ASGIApp) -> None:
        self._path = path
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return  # the server refuses a websocket that no app accepts
        path = scope["path"].removeprefix(scope.get("root_path", ""))  # it may be mounted in another app
        if path.rstrip("/") != self._path:
            await JSONResponse({"error": "There is nothing here."}, 404)(scope, receive, send)
        elif scope["method"] not in _HTTP_METHODS:
            allowed = {"Allow": ", ".join(_HTTP_METHODS)}
            await JSONResponse({"error": "This method is not allowed."}, 405, headers=allowed)(scope, receive, send)
        else:
            await self._app(scope, receive, send)


def _validate_path(path: str) -> str:
    if not path.startswith("/") or any(each in path for each in "?#\0 "):
        raise DefinitionError(f"path={path!r} is not a path.", fix="begin it with a slash, as in '/mcp'.")
    return path.rstrip("/")
