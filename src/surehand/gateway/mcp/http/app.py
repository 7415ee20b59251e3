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
from surehand.gateway.mcp.http.request_monitor import FramingCheck
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
    """An ASGI app that serves a runtime. The app starts the runtime, unless it is running.

    Args:
        path: the path of the endpoint; any other path is 404.
        token: the bearer token that every request has to present; or a function, maybe async, from the presented token
            to the user that the request is for, or None if the token is not valid.
        hosts: host names of this server, besides those of the loopback interface; `"*"` for any.
        origins: sites whose pages may send requests, as `"https://example.org"`, besides pages of this machine.
        options: the options of `server`.
    """
    mcp_server = server(runtime, **options)
    # Without the SDK's checks of hosts, origins and idle sessions: direct calls, which skip the SDK, need them as well.
    manager = StreamableHTTPSessionManager(mcp_server, session_idle_timeout=None, max_sessions=MAX_SESSIONS)
    mcp_sdk = AuthContextMiddleware(manager.handle_request)
    deadlines = Deadlines(Clock())
    admission = Admission()
    direct_calls = DirectHttpCalls(mcp_server, admission, deadlines)
    running_requests = RunningRequests()

    def end_session(session_id: str) -> None:
        direct_calls.end_session(session_id)
        mcp_server.notifications.end_session(session_id)

    sessions = SessionTable(mcp_sdk, deadlines, end_session)
    mcp_server.middleware += [running_requests, admission, direct_calls, sessions]
    endpoint = McpEndpoint(
        mcp_sdk,
        admission=admission,
        sessions=sessions,
        direct_calls=direct_calls,
        running_requests=running_requests,
        listen_handler=mcp_server.listen_handler,
    )
    authenticated: ASGIApp = endpoint if token is None else BearerAuthentication(endpoint, token)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        async with manager.run():
            direct_calls.is_running = True
            try:
                yield
            finally:
                await endpoint.stop()
                direct_calls.is_running = False
                deadlines.close()

    router = _PathRouter(_validate_path(path), authenticated)
    return _DirectStarlette(FramingCheck(HostCheck(router, hosts, origins, _HTTP_METHODS)), lifespan)


class _DirectStarlette(Starlette):
    """A Starlette app that skips Starlette's routing, unless the program has added routes or middleware to it."""

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
            return  # uvicorn refuses a websocket that the app does not accept
        path = scope["path"].removeprefix(scope.get("root_path", ""))  # the app may be mounted in another one
        if path.rstrip("/") != self._path:
            await JSONResponse({"error": "There is nothing here."}, 404)(scope, receive, send)
        elif scope["method"] not in _HTTP_METHODS:
            allowed = {"Allow": ", ".join(_HTTP_METHODS)}
            await JSONResponse({"error": "This method is not allowed."}, 405, headers=allowed)(scope, receive, send)
        else:
            await self._app(scope, receive, send)


def _validate_path(path: str) -> str:
    if not path.startswith("/") or any(character in path for character in "?#\0 "):
        problem = f"path must start with a slash and have no query, got {path!r}."
        raise DefinitionError(problem, fix="write it as '/mcp'.")
    return path.rstrip("/")
