"""Web: a runtime served over HTTP, as an ASGI app: streamable HTTP, in both eras of the protocol."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from mcp.server.auth.middleware.auth_context import AuthContextMiddleware
from starlette.applications import Starlette
from starlette.middleware.errors import ServerErrorMiddleware
from starlette.responses import JSONResponse
from starlette.routing import Mount

from toolwright.core.errors import DefinitionError
from toolwright.gateway.mcp.http.admission import Admission, OwnedSessions
from toolwright.gateway.mcp.http.bodies import Bodies
from toolwright.gateway.mcp.http.flights import Flights
from toolwright.gateway.mcp.http.hosts import Hosts
from toolwright.gateway.mcp.http.leave import Leave
from toolwright.gateway.mcp.http.short import Short
from toolwright.gateway.mcp.http.token import Guarded, Token
from toolwright.gateway.mcp.runtime_server import server

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

    from toolwright.runtime.runtime import Runtime

SESSIONS = 1_000
"""Sessions of the older protocol at one time."""
IDLE = 30 * 60.0
"""Seconds after which one that nobody uses is ended."""
_METHODS = ("GET", "POST", "DELETE")


def app(
    runtime: Runtime,
    *,
    path: str = "/mcp",
    token: Token | None = None,
    hosts: Iterable[str] = (),
    origins: Iterable[str] = (),
    **options: Any,
) -> Starlette:
    """An ASGI app that serves a runtime, which is started with it if it does not run.

    Args:
        path: where; all other paths are not found.
        token: the bearer token that every request has to show; or a function, maybe async, from the token that was
            shown to the name of the user whom the request is for, or None if it is not good.
        hosts: names that this server is reached by, besides those of this machine alone; `"*"` for any.
        origins: pages of browsers that may talk to it, as `"https://example.org"`, besides those of this machine.
        options: those of `server`.
    """
    made = server(runtime, **options)
    flights = Flights()
    short = Short(made, flights)
    leave = Leave(made.listening, short)
    made.middleware += [leave, flights, short.meet]
    # The library need not look at hosts and origins: `Hosts` has done so, for every path and session.
    sessions = OwnedSessions(made, session_idle_timeout=IDLE, max_sessions=SESSIONS)
    short.sessions.library = sessions
    bodies = Bodies(AuthContextMiddleware(sessions.handle_request), Admission(), short, leave)
    inner: ASGIApp = bodies
    if token is not None:
        inner = Guarded(inner, token)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        async with _nothing_left(), sessions.run():
            try:
                yield
            finally:
                await leave.take(bodies, sessions)
                short.moments.close()

    return _Site(Hosts(_At(_checked(path), inner), hosts, origins, _METHODS), lifespan)


class _Site(Starlette):
    """An app in the place of all others. Nobody has to look for it, unless somebody adds something of their own."""

    def __init__(self, app: ASGIApp, lifespan: Any) -> None:
        super().__init__(routes=[Mount("/", app)], lifespan=lifespan)
        self._straight = ServerErrorMiddleware(app)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and not scope.get("root_path") and scope["path"].startswith("/") and self._is_bare:
            scope["app"] = self
            await self._straight(scope, receive, send)
        else:
            await super().__call__(scope, receive, send)

    @property
    def _is_bare(self) -> bool:
        return not (self.debug or self.user_middleware or self.exception_handlers) and len(self.router.routes) == 1


class _At:
    """An app at one path, for the methods that it has."""

    def __init__(self, path: str, app: ASGIApp) -> None:
        self._path, self._app = path, app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return  # the server refuses a websocket that nobody takes
        path = scope["path"].removeprefix(scope.get("root_path", ""))  # it may be mounted in another app
        if path.rstrip("/") != self._path:
            await JSONResponse({"error": "There is nothing here."}, 404)(scope, receive, send)
        elif scope["method"] not in _METHODS:
            allowed = {"Allow": ", ".join(_METHODS)}
            await JSONResponse({"error": "This method is not allowed."}, 405, headers=allowed)(scope, receive, send)
        else:
            await self._app(scope, receive, send)


def _checked(path: str) -> str:
    if not path.startswith("/") or any(each in path for each in "?#\0 "):
        raise DefinitionError(f"path={path!r} is no path.", fix="begin it with a slash, as in '/mcp'.")
    return path.rstrip("/")


@asynccontextmanager
async def _nothing_left() -> AsyncIterator[None]:
    """End what the library behind event streams leaves running, unless an app beside this one has streams."""
    from sse_starlette import sse

    try:
        yield
    finally:
        # One that has no streams to look after is nobody's: the next stream would start another.
        watching = [] if sse._get_shutdown_state().events else [*filter(_is_watcher, asyncio.all_tasks())]
        for task in watching:
            task.cancel()
        if watching:
            await asyncio.wait(watching)


def _is_watcher(task: asyncio.Task[Any]) -> bool:
    from sse_starlette import sse

    return getattr(task.get_coro(), "cr_code", None) is sse._shutdown_watcher.__code__
