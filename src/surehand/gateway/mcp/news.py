"""News: clients hear that tools came or went, or that an output was kept, those of either protocol."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import ExitStack
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from mcp.server.streamable_http import MCP_SESSION_ID_HEADER
from mcp.server.subscriptions import InMemorySubscriptionBus, ResourcesListChanged, ServerEvent, ToolsListChanged
from starlette.requests import HTTPConnection

from surehand.gateway.mcp.caller import user_of
from surehand.gateway.mcp.ended import ended

if TYPE_CHECKING:
    from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
    from mcp.server.session import ServerSession

    from surehand.catalogue.catalogue import Catalogue
    from surehand.runtime.outputs import Outputs


@dataclass(frozen=True)
class OutputKept(ResourcesListChanged):
    """An output more, on the list of one user."""

    user: str | None


Change: TypeAlias = ToolsListChanged | OutputKept

BUNDLE = 0.05
"""Seconds for which changes are gathered before they are told as one."""

MAX_SESSIONS = 10_000
"""Sessions that are told of changes. Beyond it the oldest is dropped: the SDK does not tell when a session ends."""

_listener: ContextVar[str | None] = ContextVar("listener", default=None)
"""The user whose stream is about to begin: the library does not tell the bus who listens."""


def _concerns(user: str | None, event: ServerEvent) -> bool:
    """Whether a change is on a list that a user sees."""
    return not isinstance(event, OutputKept) or event.user == user


class Bus(InMemorySubscriptionBus):
    """The library's, on which each listener hears of what is theirs."""

    def subscribe(self, listener: Callable[[ServerEvent], None]) -> Callable[[], None]:
        """Begin to tell a listener, until what is returned is called."""
        user = _listener.get()
        return super().subscribe(lambda event: listener(event) if _concerns(user, event) else None)


class News:
    """Tells of changes: on the bus to those who listen, and to sessions of the older protocol."""

    def __init__(self, user: str | None = None) -> None:
        self._user, self.bus = user, Bus()
        self._sessions: dict[str | int, _Session] = {}
        self._ending: set[asyncio.Task[None]] = set()
        """Tasks of ended sessions that have been cancelled."""
        self._changes: dict[Change, None] = {}
        self._telling: asyncio.Task[None] | None = None

    def follow(self, catalogue: Catalogue, outputs: Outputs) -> Callable[[], None]:
        """Tell of their changes, until what is returned is called."""
        loop = asyncio.get_running_loop()

        def tell(change: Change) -> None:
            if not loop.is_closed():  # tools may be added from any thread
                _on(loop, self._changed, change)

        end = ExitStack()
        end.callback(catalogue.watch(lambda: tell(ToolsListChanged())))
        end.callback(outputs.watch(lambda user: tell(OutputKept(user))))
        return end.close

    def _changed(self, change: Change) -> None:
        self._changes[change] = None
        if self._telling is None or self._telling.done():
            self._telling = asyncio.get_running_loop().create_task(self._tell(), name="mcp: list changed")

    async def _tell(self) -> None:
        while self._changes:
            await asyncio.sleep(BUNDLE)
            changes, self._changes = self._changes, {}
            for change in changes:
                await self.bus.publish(change)
                for session in self._sessions.values():
                    session.tell(change)

    async def meet(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        """A middleware that registers sessions and listeners, which are told of changes."""
        if ctx.method == "notifications/initialized":
            self._begin_session(ctx)
        elif ctx.method == "subscriptions/listen":
            _listener.set(user_of(ctx) or self._user)
        return await call_next(ctx)

    def _begin_session(self, ctx: ServerRequestContext[Any, Any]) -> None:
        key = _session_key(_http_session(ctx) or ctx.lifespan_context)
        if key in self._sessions:
            return
        self._sessions[key] = _Session(ctx.session, user_of(ctx) or self._user)
        if len(self._sessions) > MAX_SESSIONS:
            self._close_session(next(iter(self._sessions)))

    def end_session(self, key: object) -> None:
        """Stop telling a session. Does nothing if no session is registered under the key.

        Args:
            key: the `mcp-session-id` of a session over HTTP; what the server's lifespan gave for all others, which
                have a lifespan each.
        """
        self._close_session(_session_key(key))

    def _close_session(self, key: str | int) -> None:
        session = self._sessions.pop(key, None)
        task = None if session is None else session.close()
        if task is not None:
            self._ending.add(task)
            task.add_done_callback(self._ending.discard)

    async def close(self) -> None:
        """Tell nobody any more."""
        self._changes.clear()
        for key in list(self._sessions):
            self._close_session(key)
        await ended(self._telling, *self._ending)


class _Session:
    """A session of the protocol with a handshake. Changes that come faster than its client reads are sent as one."""

    def __init__(self, session: ServerSession, user: str | None) -> None:
        self._session = session
        self._user = user
        self._changes: dict[Change, None] = {}
        self._sending: asyncio.Task[None] | None = None

    def tell(self, change: Change) -> None:
        """Send a notification of the change, if it is on a list that the user of the session sees."""
        if not _concerns(self._user, change):
            return
        self._changes[change] = None
        if self._sending is None or self._sending.done():
            self._sending = asyncio.get_running_loop().create_task(self._send(), name="mcp: list changed")

    async def _send(self) -> None:
        # Both go to the standalone channel of the connection, which outlives the request that `_session` is of.
        while self._changes:
            change = next(iter(self._changes))
            del self._changes[change]
            if isinstance(change, ToolsListChanged):
                await self._session.send_tool_list_changed()
            else:
                await self._session.send_resource_list_changed()

    def close(self) -> asyncio.Task[None] | None:
        """Send nothing more. Gives the task that still has to notice its cancellation, if there is one."""
        self._changes.clear()
        if self._sending is None or self._sending.done():
            return None
        self._sending.cancel()
        return self._sending


def _http_session(ctx: ServerRequestContext[Any, Any]) -> str | None:
    return ctx.request.headers.get(MCP_SESSION_ID_HEADER) if isinstance(ctx.request, HTTPConnection) else None


def _session_key(key: object) -> str | int:
    # By identity: an application's own lifespan may give an object that cannot be hashed.
    return key if isinstance(key, str) else id(key)


def _on(loop: asyncio.AbstractEventLoop, tell: Callable[[Change], None], change: Change) -> None:
    if _running_loop() is loop:
        tell(change)
    else:
        loop.call_soon_threadsafe(tell, change)


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
