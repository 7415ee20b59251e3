"""Change notifications: clients are notified when the list of tools or of resources changes, in both protocols.

Modern clients are notified on their `subscriptions/listen` streams, handshake clients in their sessions.
"""

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

from surehand.gateway.mcp.caller import request_user
from surehand.gateway.mcp.cancellation import cancel_and_wait

if TYPE_CHECKING:
    from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
    from mcp.server.session import ServerSession

    from surehand.catalogue.catalogue import Catalogue
    from surehand.runtime.outputs import OversizedOutputs


@dataclass(frozen=True)
class UserResourcesChanged(ResourcesListChanged):
    """The resources of one user have changed: an output was added."""

    user: str | None


ListChange: TypeAlias = ToolsListChanged | UserResourcesChanged

CHANGE_BATCH_SECONDS = 0.05
"""Seconds for which changes are collected before they are sent as one."""

MAX_NOTIFIED_SESSIONS = 10_000
"""Sessions that are notified. Beyond it the oldest is dropped: the SDK does not report the end of every session."""

_subscribing_user: ContextVar[str | None] = ContextVar("subscribing_user", default=None)
"""The user of the `subscriptions/listen` request that is being handled: the SDK does not pass it to the bus."""


def _is_visible_to(user: str | None, event: ServerEvent) -> bool:
    """Whether a change affects a list that this user sees."""
    return not isinstance(event, UserResourcesChanged) or event.user == user


class PerUserSubscriptionBus(InMemorySubscriptionBus):
    """The SDK's bus, on which each listener gets the changes that its user can see."""

    def subscribe(self, listener: Callable[[ServerEvent], None]) -> Callable[[], None]:
        """Notify a listener until the returned function is called."""
        user = _subscribing_user.get()
        return super().subscribe(lambda event: listener(event) if _is_visible_to(user, event) else None)


class ChangeNotifications:
    """Publishes changes on the bus, and sends them to the sessions of the handshake protocol."""

    def __init__(self, default_user: str | None = None) -> None:
        self._default_user = default_user
        self.bus = PerUserSubscriptionBus()
        self._sessions: dict[str | int, _NotifiedSession] = {}
        self._closing_tasks: set[asyncio.Task[None]] = set()
        """Cancelled tasks of ended sessions, until they have ended."""
        self._pending_changes: dict[ListChange, None] = {}
        self._publish_task: asyncio.Task[None] | None = None

    def watch_changes(self, catalogue: Catalogue, outputs: OversizedOutputs) -> Callable[[], None]:
        """Publish changes of the catalogue and of the outputs until the returned function is called."""
        loop = asyncio.get_running_loop()

        def publish(change: ListChange) -> None:
            if not loop.is_closed():  # tools may be added from any thread, at any time
                _call_on_loop(loop, self._add_change, change)

        subscriptions = ExitStack()
        subscriptions.callback(catalogue.watch(lambda: publish(ToolsListChanged())))
        subscriptions.callback(outputs.subscribe(lambda user: publish(UserResourcesChanged(user))))
        return subscriptions.close

    def _add_change(self, change: ListChange) -> None:
        self._pending_changes[change] = None
        if self._publish_task is None or self._publish_task.done():
            loop = asyncio.get_running_loop()
            self._publish_task = loop.create_task(self._publish_changes(), name="mcp: list changed")

    async def _publish_changes(self) -> None:
        while self._pending_changes:
            await asyncio.sleep(CHANGE_BATCH_SECONDS)
            changes = self._pending_changes
            self._pending_changes = {}
            for change in changes:
                await self.bus.publish(change)
                for session in self._sessions.values():
                    session.notify(change)

    async def register_listener(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        """A middleware that registers sessions, and sets the user of new subscription streams."""
        if ctx.method == "notifications/initialized":
            self._register_session(ctx)
        elif ctx.method == "subscriptions/listen":
            _subscribing_user.set(request_user(ctx) or self._default_user)
        return await call_next(ctx)

    def _register_session(self, ctx: ServerRequestContext[Any, Any]) -> None:
        key = _session_key(_http_session_id(ctx) or ctx.lifespan_context)
        if key in self._sessions:
            return
        self._sessions[key] = _NotifiedSession(ctx.session, request_user(ctx) or self._default_user)
        if len(self._sessions) > MAX_NOTIFIED_SESSIONS:
            self._close_session(next(iter(self._sessions)))

    def end_session(self, key: object) -> None:
        """Stop notifying a session. Does nothing if no session is registered under the key.

        Args:
            key: the `mcp-session-id` of a session over HTTP; for other transports, which have a lifespan for each
                connection, the object that the lifespan gave.
        """
        self._close_session(_session_key(key))

    def _close_session(self, key: str | int) -> None:
        session = self._sessions.pop(key, None)
        task = None if session is None else session.close()
        if task is not None:
            self._closing_tasks.add(task)
            task.add_done_callback(self._closing_tasks.discard)

    async def close(self) -> None:
        """Drop pending changes, and stop notifying all sessions."""
        self._pending_changes.clear()
        for key in list(self._sessions):
            self._close_session(key)
        await cancel_and_wait(self._publish_task, *self._closing_tasks)


class _NotifiedSession:
    """A session of the handshake protocol. Equal changes that wait for a slow client are sent as one."""

    def __init__(self, session: ServerSession, user: str | None) -> None:
        self._session = session
        self._user = user
        self._pending_changes: dict[ListChange, None] = {}
        self._send_task: asyncio.Task[None] | None = None

    def notify(self, change: ListChange) -> None:
        """Send a notification of the change, if it affects a list that the user of the session sees."""
        if not _is_visible_to(self._user, change):
            return
        self._pending_changes[change] = None
        if self._send_task is None or self._send_task.done():
            self._send_task = asyncio.get_running_loop().create_task(self._send_changes(), name="mcp: list changed")

    async def _send_changes(self) -> None:
        # Both use the connection's standalone channel, which outlives the request that `_session` belongs to.
        while self._pending_changes:
            change = next(iter(self._pending_changes))
            del self._pending_changes[change]
            if isinstance(change, ToolsListChanged):
                await self._session.send_tool_list_changed()
            else:
                await self._session.send_resource_list_changed()

    def close(self) -> asyncio.Task[None] | None:
        """Send nothing more. Returns the cancelled send task if it has not ended yet."""
        self._pending_changes.clear()
        if self._send_task is None or self._send_task.done():
            return None
        self._send_task.cancel()
        return self._send_task


def _http_session_id(ctx: ServerRequestContext[Any, Any]) -> str | None:
    return ctx.request.headers.get(MCP_SESSION_ID_HEADER) if isinstance(ctx.request, HTTPConnection) else None


def _session_key(key: object) -> str | int:
    # By identity: the lifespan of an application may give an object that cannot be hashed.
    return key if isinstance(key, str) else id(key)


def _call_on_loop(loop: asyncio.AbstractEventLoop, callback: Callable[[ListChange], None], change: ListChange) -> None:
    if _running_loop() is loop:
        callback(change)
    else:
        loop.call_soon_threadsafe(callback, change)


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
