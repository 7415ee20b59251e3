"""Runtime: a catalogue of tools and the pipeline around them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from os import PathLike, fspath
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from surehand.core.call import Principal
from surehand.core.clock import Clock
from surehand.core.define import LazyTool
from surehand.core.errors import DefinitionError
from surehand.core.provider import Provider
from surehand.core.spaces import SpaceWriter
from surehand.core.tool import Tool
from surehand.runtime.defaults import Defaults
from surehand.runtime.limits.queues import Queue
from surehand.runtime.policy import Policy
from surehand.runtime.providers import ProviderTable
from surehand.runtime.scope import Scope
from surehand.runtime.services import Approver, RuntimeServices
from surehand.runtime.sources import flatten_sources
from surehand.runtime.stats import MemoryJournalEntry

if TYPE_CHECKING:
    from surehand.core.invoke import Redactor
    from surehand.runtime.durability.maintenance import StoreMaintenance
    from surehand.runtime.pipeline.stages.middleware import Middleware
    from surehand.store.store import Store


class Runtime(Scope):
    """Everything an agent can do, called one way. Use it with `async with`."""

    def __init__(
        self,
        *sources: Any,
        store: str | PathLike[str] | Store | None = None,
        policy: Policy | Iterable[Mapping[str, Any]] | None = None,
        queues: Mapping[str, Queue] | None = None,
        middleware: Sequence[Middleware] = (),
        workspace: str | None = None,
        approver: Approver | None = None,
        spaces: SpaceWriter | None = None,
        defaults: Defaults | Mapping[str, Any] | None = None,
        crash_details: bool = True,
        secrets: Sequence[str] = (),
        journal: bool = False,
        auto_complete: bool = True,
        clock: Clock | None = None,
    ) -> None:
        parts = RuntimeServices(
            policy=_to_policy(policy),
            queues=queues or {},
            middleware=middleware,
            approver=approver,
            spaces=spaces,
            defaults=Defaults.from_mapping(defaults),
            clock=clock or Clock(),
            workspace=workspace,
            crash_details=crash_details,
            redact=_build_redactor(secrets) if secrets else None,
            keeps_journal=journal,
            auto_complete=auto_complete,
            is_durable=store is not None,
        )
        super().__init__(parts, Principal())
        parts.root_scope, parts.expire_overdue_calls = self, self._expire_overdue_calls  # type: ignore[method-assign]  # ending waits needs the verbs
        self._configured_store = fspath(store) if isinstance(store, PathLike) else store
        self._maintenance: StoreMaintenance | None = None
        self._lazy_tools: list[LazyTool] = []
        parts.provider_table = ProviderTable(parts)
        self._add_sources(flatten_sources(sources))

    def _add_sources(self, sources: list[Tool[..., Any] | Provider | LazyTool]) -> None:
        tools = [item for item in sources if isinstance(item, Tool)]
        self._lazy_tools += [item for item in sources if isinstance(item, LazyTool)]
        self.services.provider_table.unstarted += [item for item in sources if isinstance(item, Provider)]
        if tools:
            self.catalogue.add(*tools)

    async def __aenter__(self) -> Self:
        if self.services.is_open:
            raise RuntimeError("The runtime is running already.")
        try:
            await self._start()
        except BaseException:
            await self.close()
            raise
        return self

    async def _start(self) -> None:
        if self._configured_store is not None:
            await self._open_store(self._configured_store)
        while self._lazy_tools:
            self.catalogue.add(await self._lazy_tools[0].resolve())
            del self._lazy_tools[0]
        await self.services.provider_table.start()
        self._compile_tools()
        self.services.is_open, self.services.event_loop = True, asyncio.get_running_loop()
        self.services.rebuild_stacks()
        await self.services.provider_table.apply_early_changes()
        for listing in self.catalogue:
            await self.services.lifespans.enter(listing.tool)
        if self._maintenance is not None:
            await self._maintenance.start_loop()

    async def _open_store(self, configured: str | Store) -> None:
        from surehand.runtime.durability.maintenance import StoreMaintenance  # loaded by those alone who have a store
        from surehand.store.store import Store

        if not isinstance(configured, (str, Store)):
            kind = type(configured).__name__  # type: ignore[unreachable]  # what mypy knows, a caller may not
            raise TypeError(f"A runtime takes store='file.db', 'postgresql://...' or a Store, not {kind}.")
        self.services.store = (
            await Store.open(configured, now=self.services.clock.time) if isinstance(configured, str) else configured
        )
        self._maintenance = StoreMaintenance(self, self.services.store)
        self.services.recover_dead_runtimes = self._maintenance.recover_dead_runtimes  # type: ignore[method-assign]
        await self._maintenance.join_store()

    async def _close_store(self) -> None:
        keeper, self._maintenance = self._maintenance, None
        if keeper is None:
            return  # what is in memory lives as long as the runtime, which may be opened again
        try:
            await keeper.stop()
        finally:
            store, self.services.store = self.services.store, None
            if store is not None and isinstance(self._configured_store, str):
                await store.close()

    @property
    def store(self) -> Store | None:
        """What is remembered: the store that was asked for, or the one in memory once there is something in it."""
        return self.services.store

    @property
    def providers(self) -> list[Provider]:
        """Where tools come from beside functions, whether they have been started or not."""
        return self.services.provider_table.all_providers

    def _compile_tools(self) -> None:
        """One error that lists every mistake, at the start and never at a call."""
        self.services.queues.validate_shared_queues()
        errors: list[DefinitionError] = []
        for listing in self.catalogue:
            try:
                listing.tool.compile()
                if listing.provider is None:
                    listing.tool.require_runner()
                self.services.queues.queue_for(listing)  # a queue that is not there, the tool's or its provider's
            except DefinitionError as error:
                errors.append(error)
        if errors:
            raise DefinitionError.combine(errors)

    async def add(self, *sources: Any) -> None:
        """Add tools or providers while running."""
        found = flatten_sources(sources)
        for item in found:
            if isinstance(item, Provider):
                await self.services.provider_table.add(item)
            else:
                made = await item.resolve() if isinstance(item, LazyTool) else item
                made.require_runner()
                self.catalogue.add(made)
                await self.services.lifespans.enter(made)

    @property
    def policy(self) -> Policy:
        """The rules. Setting others rebuilds the stacks; running calls end on the old ones."""
        return self.services.policy

    @policy.setter
    def policy(self, policy: Policy | Iterable[Mapping[str, Any]]) -> None:
        self.services.policy = _to_policy(policy)
        self.services.rebuild_stacks()

    @property
    def journal(self) -> list[MemoryJournalEntry]:
        """The last ten thousand calls, oldest first, where `journal=True` asked for them."""
        return self.services.memory_journal.entries() if self.services.memory_journal is not None else []

    def _expire_overdue_calls(self) -> None:
        from surehand.runtime.durability.maintenance import expire_overdue_calls

        if self.services.is_open:
            _ = self.services.reaper.spawn(expire_overdue_calls(self))

    async def close(self) -> None:
        """Cancel what runs, stop what was started, and leave nothing behind."""
        parts = self.services
        parts.is_open, parts.event_loop = False, None
        self.services.provider_table.unsubscribe()
        parts.rebuild_stacks()
        async with AsyncExitStack() as last:  # whatever fails or is cancelled on the way, the rest is closed too
            last.push_async_callback(self._close_store)
            last.push_async_callback(parts.close)
            last.push_async_callback(self.services.provider_table.stop)
            last.push_async_callback(parts.lifespans.close)
            for invocation in list(parts.running_calls):
                invocation.interrupt("cancelled", f"{invocation.tool_name} was cancelled: the runtime closed.")
            await parts.wait_for_running_calls()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


def _build_redactor(secrets: Sequence[str]) -> Redactor:
    from surehand.runtime.redaction import build_redactor  # loaded by those alone who have secrets to keep

    return build_redactor(secrets)


def _to_policy(policy: Policy | Iterable[Mapping[str, Any]] | None) -> Policy:
    return policy if isinstance(policy, Policy) else Policy(policy or ())
