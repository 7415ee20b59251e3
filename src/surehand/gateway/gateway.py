"""Gateway: what the routes of the HTTP API share: the runtime, the event feed, the rules and limits."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Coroutine, Iterable, Iterator, Mapping
from contextlib import (
    AbstractContextManager,
    AsyncExitStack,
    asynccontextmanager,
    contextmanager,
    nullcontext,
    suppress,
)
from math import inf
from time import monotonic
from typing import TYPE_CHECKING, Any, TypeVar

from surehand.gateway.access.answers import AnswerPolicy, WaitingCallFields
from surehand.gateway.access.identity import Identity
from surehand.gateway.access.request_limits import RequestLimiter
from surehand.gateway.agent_runs import AgentRuns, ServedAgent
from surehand.gateway.events.feed import EventFeed
from surehand.gateway.events.journal_catch_up import JournalCatchUp
from surehand.gateway.mcp.runtime_lifespan import ensure_running
from surehand.gateway.problems import Problem
from surehand.runtime.worker import Worker
from surehand.store.database import StoreError

if TYPE_CHECKING:
    from surehand.runtime.runtime import Runtime
    from surehand.runtime.scope import Scope
    from surehand.store.store import Store
    from surehand.store.tables.audit import AuditKind

T = TypeVar("T")
log = logging.getLogger("surehand")
MAX_CACHED_SCOPES = 1_000
IDLE_POLL_SECONDS = 0.1
"""How often a gateway that ends looks whether calls still run that no request of it waits for."""


class Gateway:
    """A runtime that is served over HTTP."""

    def __init__(
        self, runtime: Runtime, *, answers: AnswerPolicy, limiter: RequestLimiter, agents: Iterable[ServedAgent] = ()
    ) -> None:
        self.runtime = runtime
        self.runs = AgentRuns(runtime, agents, self.spawn)
        self.answers = answers
        self.limiter = limiter
        self.feed = EventFeed()
        self.is_started = False
        self.is_stopping = False
        self._scopes: dict[str | None, Scope] = {}
        self._calls: set[asyncio.Task[Any]] = set()
        self._background_tasks: set[asyncio.Task[Any]] = set()
        self._worker: Worker | None = None
        self._calls_end_at = inf
        """When calls that still run are cancelled; known once the gateway stops."""

    @asynccontextmanager
    async def run(self) -> AsyncIterator[None]:
        """Start the runtime, unless it is running, and receive its events while the context is entered, once."""
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(ensure_running(self.runtime))
            await stack.enter_async_context(self.feed.run(self.runtime))
            await self.runs.attach()
            store = self.runtime.store
            has_store = store is not None and self.runtime.is_durable and not store.database.is_read_only
            if store is not None and has_store:
                await stack.enter_async_context(JournalCatchUp(self.runtime, store, self.feed).run())
            stack.push_async_callback(self._end_calls)
            if has_store and self.runs.agents:
                seconds = self.limiter.limits.shutdown_seconds
                worker = Worker(self.runtime, self.runs.agents.values(), shutdown_seconds=seconds)
                self._worker = await stack.enter_async_context(worker)
            self.is_started = True
            try:
                yield
            finally:
                self.begin_shutdown()
                self.is_started = False

    def begin_shutdown(self) -> None:
        """Report not ready, and end the streams that follow events; those of running calls end with their calls.

        From now on, running calls have `GatewayLimits.shutdown_seconds` to end.
        """
        if not self.is_stopping:
            self.is_stopping = True
            self._calls_end_at = monotonic() + self.limiter.limits.shutdown_seconds
        self.feed.close_listeners()

    async def retire(self) -> None:
        """Leave all work to another gateway on the store: take none, and wait until what runs here has ended."""
        self.feed.close_listeners()
        if self._worker is not None:
            await self._worker.stop_and_hand_back()
        await self._wait_until_idle()

    @property
    def is_idle(self) -> bool:
        """Whether no call and no run is running here. Calls that wait in the store do not count."""
        return not self._calls and not self.runtime.is_busy

    async def _wait_until_idle(self) -> None:
        while not self.is_idle:
            if self._calls:
                await asyncio.wait(self._calls)
            else:  # a task of an MCP client, or an answer from another process
                await asyncio.sleep(IDLE_POLL_SECONDS)

    def leave_run_alone(self, run_id: str) -> AbstractContextManager[None]:
        """Do not resume the run while several of its calls are answered."""
        return nullcontext() if self._worker is None else self._worker.leave_alone(run_id)

    def spawn(self, call: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Run a call in a task of the gateway, so that it goes on when its client disconnects."""
        task = asyncio.create_task(call)
        self._calls.add(task)
        task.add_done_callback(self._calls.discard)
        return task

    def spawn_in_background(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Run work that shutdown cancels instead of awaiting, as it may wait for a person."""
        task = asyncio.create_task(work)
        self._background_tasks.add(task)
        task.add_done_callback(self._background_tasks.discard)
        return task

    async def finish(self, call: Coroutine[Any, Any, T]) -> T:
        """Run a call as `spawn` does, and wait for its end."""
        task = self.spawn(call)
        with self.explain_cancellation(task):
            return await task

    @contextmanager
    def explain_cancellation(self, task: asyncio.Task[Any]) -> Iterator[None]:
        """Raise `Problem` where the task was cancelled because the gateway stops."""
        try:
            yield
        except asyncio.CancelledError:
            if not task.cancelled() or not self.is_stopping:
                raise
            problem = "The gateway stopped before this had ended. Ask for it again later."
            raise Problem("unavailable", problem, retry_after=1) from None

    async def _end_calls(self) -> None:
        """Let running calls end, for the rest of the time that they have, and cancel the others."""
        self.begin_shutdown()  # unless it has begun: the start may have failed
        left = self._calls_end_at - monotonic()
        with suppress(TimeoutError):
            async with asyncio.timeout(max(left, 0)):
                await self._wait_until_idle()
        self.runs.hand_back()
        tasks = self._calls | self._background_tasks
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    def scope(self, identity: Identity, **fields: str | None) -> Scope:
        """The runtime's scope for an identity; the operator's is the runtime itself."""
        scope = self._scopes.get(identity.user)
        if scope is None:
            if len(self._scopes) >= MAX_CACHED_SCOPES:
                self._scopes.clear()
            scope = self.runtime if identity.user is None else self.runtime.scope(user=identity.user)
            self._scopes[identity.user] = scope
        set_fields: dict[str, Any] = {name: value for name, value in fields.items() if value is not None}
        return scope.scope(**set_fields) if set_fields else scope

    def may_see_call(self, identity: Identity, *, user: str | None, tool: str, agent: str | None) -> bool:
        """Whether an identity may see a call of a user: of a tool that it may use, or of an agent that it may run."""
        may_use = identity.may_use_tool(tool) or (agent is not None and identity.may_use_agent(agent))
        return may_use and (identity.sees_all_calls or identity.user == user)

    def may_see_run(self, identity: Identity, *, user: str | None, agent: str) -> bool:
        """Whether an identity may see a run of an agent for a user."""
        return identity.may_use_agent(agent) and (identity.sees_all_calls or identity.user == user)

    def may_see_event(self, identity: Identity, fields: dict[str, Any]) -> bool:
        """Whether an identity may see an event: one of its own calls, or of a wait that it may answer."""
        if identity.is_operator:
            return True
        if "run_id" in fields:
            return self.may_see_run(identity, user=fields.get("user"), agent=fields["agent"])
        if "call_id" not in fields:
            return identity.has_all_tools and fields["type"] == "CatalogueChanged"
        user = fields.get("user")
        if self.may_see_call(identity, user=user, tool=fields["tool"], agent=fields.get("agent")):
            return True
        waiting_for = fields.get("waiting_for")
        return waiting_for is not None and self.answers.may_see(
            identity, WaitingCallFields(fields["tool"], user, fields.get("agent"), waiting_for)
        )

    async def require_store(self) -> Store:
        """The store of the runtime; raises `Problem` if it has none."""
        store = self.runtime.store if self.runtime.is_durable else None
        if store is None:
            raise Problem("unavailable", "The runtime has no store: start it with one to use this.")
        return store

    async def audit_refusal(
        self, identity: Identity, action: str, *, call_id: str = "", tool: str = "", code: str = "denied"
    ) -> None:
        """Write a refused request to the audit, if the runtime has a store."""
        await self._write_audit_row(identity.user, "refused", call_id, tool, {"action": action, "code": code})

    async def audit_refused_request(self, identity: Identity | None, detail: Mapping[str, str]) -> None:
        """Write a request to the audit that was refused before a route has seen it, if the runtime has a store."""
        await self._write_audit_row(None if identity is None else identity.user, "refused", "", "", detail)

    async def require_all_calls(self, identity: Identity, action: str) -> None:
        """Raise `Problem`, and audit it, unless an identity may see the calls of all users."""
        if not identity.sees_all_calls:
            await self.audit_refusal(identity, action)
            raise Problem("denied", "This is about all users: the scope calls:all is needed.")

    async def audit_acceptance(self, identity: Identity, server: str, tool: str | None, sha256: str) -> None:
        """Write to the audit that a changed definition was accepted, if the runtime has a store."""
        detail = {"action": "accept a definition", "server": server, "sha256": sha256}
        await self._write_audit_row(identity.user, "granted", "", tool or server, detail)

    async def audit_sign_in(self, identity: Identity, server: str) -> None:
        """Write to the audit that a user has signed in to a server, if the runtime has a store."""
        await self._write_audit_row(identity.user, "granted", "", server, {"action": "sign in", "server": server})

    async def _write_audit_row(
        self, user: str | None, kind: AuditKind, call_id: str, tool: str, detail: Mapping[str, str]
    ) -> None:
        store = self.runtime.store
        if store is None or not self.runtime.is_durable or store.database.is_read_only:
            return
        # A client writes these ids, and a NUL character, which no store takes, must not keep its request out.
        call_id, tool = (each.replace("\0", "\ufffd") for each in (call_id[:200], tool))
        row = store.audit.row_statement(kind, call_id, tool, user=user, by=user, detail=detail)
        try:
            await store.write([row])
        except StoreError as error:
            log.warning("An audit row (%s, %s) could not be written: %s", kind, detail["action"], error)
