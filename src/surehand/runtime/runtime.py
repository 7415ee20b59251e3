"""Runtime: the public entry point. It owns the tools, the pipeline, the providers and the store, and their lifetime."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from os import PathLike, fspath
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

from surehand.core.call import Principal
from surehand.core.clock import Clock, Deadline
from surehand.core.define import InitContext, LazyTool
from surehand.core.errors import DefinitionError
from surehand.core.private_paths import PRIVATE_PATHS
from surehand.core.provider import OnConflict, Provider
from surehand.core.quotas import Quota, QuotaLimits
from surehand.core.tool import Tool
from surehand.runtime.call_loader import CallLoader, CallServices
from surehand.runtime.crash_report import CrashReport
from surehand.runtime.defaults import Defaults
from surehand.runtime.outputs import READER_TOOL_NAME
from surehand.runtime.policy import Policy
from surehand.runtime.scope import Scope
from surehand.runtime.sources import AgentSource, Source, flatten_sources, left_out_tools, split_server_tools

if TYPE_CHECKING:
    from surehand.core.invoke import RedactText
    from surehand.core.outcome import Failed, Pending
    from surehand.core.provider_abilities import AddedProvider
    from surehand.core.spaces import SpaceWriter
    from surehand.runtime.active_spaces import OnNoSpace
    from surehand.runtime.durability.ledger import SizeCallback
    from surehand.runtime.limits.queues import Queue
    from surehand.runtime.maintenance.store_maintenance import StoreMaintenance
    from surehand.runtime.pending.pending_call import Approver
    from surehand.runtime.pending.status import CallStatus
    from surehand.runtime.pipeline.installed_middleware import Middleware
    from surehand.runtime.pipeline.stages.commit import OnCommit
    from surehand.runtime.stats import MemoryJournalEntry
    from surehand.store.store import Store

T = TypeVar("T")
log = logging.getLogger("surehand")


class Runtime(Scope):
    """Tools and the pipeline that every call passes. Use it with `async with`."""

    def __init__(
        self,
        *sources: Any,
        store: str | PathLike[str] | Store | None = None,
        policy: Policy | Iterable[Mapping[str, Any]] | None = None,
        queues: Mapping[str, Queue] | None = None,
        middleware: Sequence[Middleware] = (),
        workspace: str | None = None,
        approver: Approver | Any = None,
        spaces: SpaceWriter | None = None,
        on_no_space: OnNoSpace = "warn",
        defaults: Defaults | Mapping[str, Any] | None = None,
        crash_details: bool = True,
        secrets: Sequence[str] = (),
        journal: bool = False,
        auto_complete: bool = True,
        on_commit: OnCommit | None = None,
        clock: Clock | None = None,
    ) -> None:
        # Here, since all parts of a runtime come with it: a module that only defines tools is imported without them.
        from surehand.runtime.compose import RuntimeParts, RuntimeSettings, build_scope_parts

        options = RuntimeSettings(
            policy=_to_policy(policy),
            queues=queues or {},
            middleware=middleware,
            workspace=workspace,
            approver=approver if approver is None or callable(approver) else self._build_approver(approver),
            spaces=spaces,
            on_no_space=_validate_on_no_space(on_no_space),
            defaults=Defaults.from_mapping(defaults),
            crash_report=CrashReport(_build_redactor(secrets) if secrets else None, crash_details),
            keeps_journal=journal,
            auto_complete=auto_complete,
            on_commit=on_commit,
            clock=clock or Clock(),
            is_durable=store is not None,
        )
        parts = RuntimeParts(options)
        self._runtime_parts = parts
        self._calls = CallLoader(self._load_calls)
        super().__init__(build_scope_parts(parts, self._calls), Principal())
        self._configured_store = fspath(store) if isinstance(store, PathLike) else store
        if isinstance(self._configured_store, str):
            # At once, and not when the store is opened: a workspace is in use earlier.
            PRIVATE_PATHS.add_store(self._configured_store)
        self._maintenance: StoreMaintenance | None = None
        self._lazy_tools: list[LazyTool] = []
        self._add_sources(flatten_sources(sources))
        self._refuse_left_out(sources)

    def _build_approver(self, model: Any) -> Approver | None:
        """Make an approver of a model. `agent.runtime` does: this class knows no models."""
        raise DefinitionError(f"approver={model!r} is not a function.", fix="import Runtime from surehand.")

    def _add_sources(self, sources: list[Source]) -> None:
        tools, providers = split_server_tools(item for item in sources if isinstance(item, Tool))
        self._lazy_tools += [item for item in sources if isinstance(item, LazyTool)]
        providers += [item for item in sources if isinstance(item, Provider)]
        self._runtime_parts.provider_table.add_unstarted(providers)
        if tools:
            self.catalogue.add(*tools)
        agents = [item for item in sources if isinstance(item, AgentSource)]
        self._runtime_parts.agents.add_unstarted(agents)
        self.catalogue.add(*(agent.tool for agent in agents))

    @property
    def _init_context(self) -> InitContext:
        return InitContext(self.workspace)

    def _refuse_left_out(self, sources: Iterable[Any]) -> None:
        for name, reason in left_out_tools(sources).items():
            self.catalogue.leave_out(name, reason)

    async def __aenter__(self) -> Self:
        if self.is_open:
            raise RuntimeError("The runtime is running already.")
        try:
            await self._start()
        except BaseException:
            await self.close()
            raise
        return self

    async def _start(self) -> None:
        """Open the store, start the providers, compile the tools and enter the lifespans."""
        if self._configured_store is not None:
            await self._open_store(self._configured_store)
        while self._lazy_tools:
            self._add_sources([await self._lazy_tools[0].resolve(self._init_context)])
            del self._lazy_tools[0]
        await self._runtime_parts.provider_table.start()
        await self._runtime_parts.agents.start()
        if errors := self.check_tools():
            raise DefinitionError.combine(errors)
        self._runtime_parts.running.open()
        self._runtime_parts.built_stacks.discard_all()
        await self._runtime_parts.provider_table.apply_early_changes()
        self._warn_about_unmatched_rules()
        for listing in self.catalogue:
            await self._runtime_parts.lifespans.enter(listing.tool)
        if self._maintenance is not None:
            await self._maintenance.start_loop()

    async def _open_store(self, configured: str | Store) -> None:
        from surehand.runtime.compose_maintenance import (
            compose_maintenance,  # keeps the store tables off the import path
        )
        from surehand.store.store import Store  # keeps sqlite3 off the import path

        if not isinstance(configured, (str, Store)):
            kind = type(configured).__name__  # type: ignore[unreachable]  # callers without a type checker
            raise TypeError(f"store must be a path such as 'file.db', a 'postgresql://...' URL or a Store, got {kind}.")
        store = await Store.open(configured, now=self.clock.time) if isinstance(configured, str) else configured
        parts = self._runtime_parts
        parts.store.current = store
        if store.database.is_read_only:  # only to look at: calls that must be stored are refused
            return
        calls = self._calls.load()
        self._maintenance = compose_maintenance(parts, calls, store)
        parts.store.recovery = self._maintenance
        await self._maintenance.join_store()
        calls.local.open_count = await store.pending.count()
        parts.outputs.stored_count = await store.artifacts.count()
        calls.expiry_timer.schedule(await store.pending.next_expiry())
        await store.spaces.refresh_has_spaces()
        await parts.active_spaces.look_for_entered_spaces()
        if parts.outputs.stored_count:
            parts.outputs.add_reader_tool()

    async def _close_store(self) -> None:
        maintenance, self._maintenance = self._maintenance, None
        if maintenance is None:
            return  # a store in memory lives as long as the runtime object, which may be opened again
        parts = self._runtime_parts
        parts.journal.writer = None
        parts.store.recovery = None
        try:
            await maintenance.stop()
        finally:
            store, parts.store.current = parts.store.current, None
            if store is not None and isinstance(self._configured_store, str):
                await store.close()

    @property
    def providers(self) -> list[Provider]:
        """All providers, started or not."""
        return [added.provider for added in self.added_providers]

    @property
    def added_providers(self) -> list[AddedProvider]:
        """All providers, started or not, each with the protocols that the runtime found it to support."""
        return self._runtime_parts.provider_table.all_added

    def check_tools(self) -> list[DefinitionError]:
        """Compile all tools; returns the mistakes that keep the runtime from starting."""
        queues = self._runtime_parts.queues
        errors: list[DefinitionError] = []
        for listing in [*self.catalogue, *self._runtime_parts.agents.listings()]:
            try:
                listing.tool.compile()
                if listing.provider is None:
                    listing.tool.require_runner()
                queues.queue_for(listing)  # raises if the queue of the tool or of its provider does not exist
            except DefinitionError as error:
                errors.append(error)
        try:
            queues.validate_shared_queues()
        except DefinitionError as error:
            errors.append(error)
        return errors

    async def add(self, *sources: Any, on_conflict: OnConflict = "error") -> None:
        """Add tools, providers or agents while running.

        Args:
            on_conflict: what happens to a tool whose name is taken; a provider has an `on_conflict` of its own.
        """
        self._refuse_left_out(sources)
        for source in flatten_sources(sources):
            if isinstance(source, Provider):
                await self._runtime_parts.provider_table.add(source)
                continue
            if isinstance(source, AgentSource):
                await self._runtime_parts.agents.add(source)
                self.catalogue.add(source.tool, on_conflict=on_conflict)
                continue
            resolved = await source.resolve(self._init_context) if isinstance(source, LazyTool) else source
            tools, providers = split_server_tools([resolved])
            for provider in providers:
                await self._runtime_parts.provider_table.add(provider)
            for tool in tools:
                tool.require_runner()
                self.catalogue.add(tool, on_conflict=on_conflict)
                await self._runtime_parts.lifespans.enter(tool)

    @property
    def middleware(self) -> tuple[Middleware, ...]:
        """The middleware around all or some tools, the outermost first; that of single tools is not among it."""
        return self._runtime_parts.middleware.wrappers

    def add_middleware(self, wrapper: Middleware, *, tools: str = "*") -> Callable[[], None]:
        """Add middleware, inside that which is there; returns a function that removes it.

        Calls that run already end as they began.

        Args:
            tools: a glob of the names of the tools that it is for.
        """
        return self._runtime_parts.middleware.install(wrapper, tools)

    @property
    def policy(self) -> Policy:
        """The policy. Setting another one rebuilds the stacks; running calls end on the old ones."""
        return self._runtime_parts.policy.current

    @policy.setter
    def policy(self, policy: Policy | Iterable[Mapping[str, Any]]) -> None:
        self._runtime_parts.policy.replace(_to_policy(policy))
        if self.is_open:
            self._warn_about_unmatched_rules()

    def _warn_about_unmatched_rules(self) -> None:
        """Warn about policy rules that match no tool, unless their tools may only come later."""
        listings = list(self.catalogue)
        names = {name for listing in listings for name in listing.names}
        for unmatched in self.policy.unmatched_rules(listings):
            if not any(self._may_come_later(glob) for glob in unmatched.globs):
                log.warning("%s", unmatched.describe(names))

    def _may_come_later(self, glob: str) -> bool:
        return glob == READER_TOOL_NAME or self._runtime_parts.provider_table.may_still_offer(glob)

    @property
    def journal(self) -> list[MemoryJournalEntry]:
        """The last ten thousand calls, oldest first, if the runtime was created with `journal=True`."""
        journal = self._runtime_parts.memory_journal
        return [] if journal is None else journal.entries()

    # For programs that serve a runtime to others

    @property
    def defaults(self) -> Defaults:
        """The limits for tools, providers and calls that set none themselves."""
        return self._runtime_parts.options.defaults

    @property
    def is_busy(self) -> bool:
        """Whether calls run here or answers are being applied. Calls that wait for a person do not count."""
        is_answering = self._calls.is_loaded and bool(self._calls.load().local.answers_in_progress)
        return is_answering or any(not call.is_waiting_for_answer for call in self.running_calls())

    async def is_alive(self, runtime_id: str) -> bool:
        """Whether a runtime is alive: this one, or another one on the same store."""
        return (
            self.is_open
            if runtime_id == self.runtime_id
            else await self._runtime_parts.store.is_runtime_alive(runtime_id)
        )

    def on_trigger(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call a function when `trigger` has stored an event here; returns a function that undoes this."""
        return self._agent_inbox.on_trigger(callback)

    def spawn(self, coroutine: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Run a coroutine in the background, until it ends or the runtime closes."""
        return self._runtime_parts.background_tasks.spawn(coroutine)

    def call_later(self, seconds: float, callback: Callable[[], object]) -> Deadline:
        """Call a function later, unless the runtime closes first."""
        return self._runtime_parts.deadlines.start(seconds, callback)

    def refuse_waits(self, describe: Callable[[Pending], str]) -> None:
        """Fail calls that would have to wait, for programs in which no one could ever answer them.

        Args:
            describe: says why a call cannot wait, as the end of a sentence that begins with the tool's name.
        """
        self._runtime_parts.wait_refusal.describe = describe

    def limit_pending_calls(self, limits: QuotaLimits) -> None:
        """Limit the pending calls of each user, unless a limit was set before."""
        local = self._calls.load().local
        if local.user_quota is None:
            local.user_quota = Quota(limits)

    def last_round(self, call_id: str) -> int:
        """The number of the last question that a pending call of this process asked; 1 for any other call."""
        invocation = self._calls.load().local.invocations.get(call_id)
        return 1 if invocation is None else invocation.resumption.round

    async def save_partial_answer(self, status: CallStatus, partial_answer: str) -> bool:
        """Store an incomplete answer; False if another one was stored since the status was read."""
        return await self._answering.statuses.save_partial_answer(status, partial_answer)

    async def record_failed_call(self, call_id: str, outcome: Failed) -> None:
        """Record the failure of a call that never ran; without this, the same id may be tried again."""
        await self._answering.statuses.record_failed_call(call_id, outcome)

    def retain_call(self, call_id: str, on_size: SizeCallback) -> None:
        """Keep a call in a store in memory until `forget_retained_call`; `on_size` gets the size of its outcome."""
        self._calls.load().ledger.retained_calls[call_id] = on_size

    async def forget_retained_call(self, call_id: str, on_size: SizeCallback) -> str | None:
        """Stop retaining a call, unless it was retained again since; returns its state if it has not ended."""
        row = await self._calls.load().ledger.forget_retained(call_id, on_size)
        return None if row is None else row.state

    async def close(self) -> None:
        """Cancel running calls, stop the providers and release all resources."""
        parts = self._runtime_parts
        parts.running.close()
        parts.provider_table.unsubscribe()
        parts.built_stacks.discard_all()
        async with AsyncExitStack() as last:  # each step runs even if an earlier one fails or is cancelled
            last.push_async_callback(self._close_store)
            last.push_async_callback(self._stop_background_work)
            last.push_async_callback(parts.provider_table.stop)
            last.push_async_callback(parts.agents.stop)
            last.push_async_callback(parts.lifespans.close)
            await parts.running.cancel_all()

    async def _stop_background_work(self) -> None:
        """Stop timers, background tasks and handler threads."""
        parts = self._runtime_parts
        if self._calls.is_loaded:
            self._calls.load().expiry_timer.cancel()
        parts.running.ends.close()
        parts.deadlines.close()
        parts.queues.close()
        await parts.background_tasks.close()
        parts.threads.close()

    def _load_calls(self) -> CallServices:
        from surehand.runtime.compose_calls import compose_calls  # keeps the store tables off the import path

        return compose_calls(self._runtime_parts, self.scope)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


def _build_redactor(secrets: Sequence[str]) -> RedactText:
    from surehand.core.redaction import build_redactor  # keeps base64, html and urllib off the import path

    return build_redactor(secrets)


def _validate_on_no_space(value: OnNoSpace) -> OnNoSpace:
    if value not in ("warn", "error"):
        raise ValueError(f"`on_no_space` must be 'warn' or 'error', got {value!r}.")
    return value


def _to_policy(policy: Policy | Iterable[Mapping[str, Any]] | None) -> Policy:
    return policy if isinstance(policy, Policy) else Policy(policy or ())
