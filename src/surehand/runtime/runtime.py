"""Runtime: the public entry point. It owns the tools, the pipeline, the providers and the store, and their lifetime."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from os import PathLike, fspath
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from surehand.core.call import Principal
from surehand.core.clock import Clock
from surehand.core.define import InitContext, LazyTool
from surehand.core.errors import DefinitionError
from surehand.core.private_paths import PRIVATE_PATHS
from surehand.core.provider import OnConflict, Provider
from surehand.core.spaces import SpaceWriter
from surehand.core.tool import Tool
from surehand.runtime.defaults import Defaults
from surehand.runtime.limits.queues import Queue
from surehand.runtime.outputs import READER_TOOL_NAME
from surehand.runtime.policy import Policy
from surehand.runtime.providers import ProviderTable
from surehand.runtime.scope import Scope
from surehand.runtime.services import Approver, OnCommit, RuntimeServices
from surehand.runtime.sources import flatten_sources, left_out_tools, split_server_tools
from surehand.runtime.stats import MemoryJournalEntry

if TYPE_CHECKING:
    from surehand.core.invoke import RedactText
    from surehand.runtime.maintenance.store_maintenance import StoreMaintenance
    from surehand.runtime.pipeline.stages.middleware import Middleware
    from surehand.runtime.visible_calls import OnNoSpace
    from surehand.store.store import Store

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
        approver: Approver | None = None,
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
        services = RuntimeServices(
            policy=_to_policy(policy),
            queues=queues or {},
            middleware=middleware,
            approver=approver,
            spaces=spaces,
            on_no_space=_validate_on_no_space(on_no_space),
            defaults=Defaults.from_mapping(defaults),
            clock=clock or Clock(),
            workspace=workspace,
            crash_details=crash_details,
            redact=_build_redactor(secrets) if secrets else None,
            keeps_journal=journal,
            auto_complete=auto_complete,
            on_commit=on_commit,
            is_durable=store is not None,
        )
        super().__init__(services, Principal())
        services.root_scope = self
        services.expire_overdue_calls = self._expire_overdue_calls  # type: ignore[method-assign]  # needs a scope to answer with
        self._configured_store = fspath(store) if isinstance(store, PathLike) else store
        if isinstance(self._configured_store, str):
            # At once, and not when the store is opened: a workspace is in use earlier.
            PRIVATE_PATHS.add_store(self._configured_store)
        self._maintenance: StoreMaintenance | None = None
        self._lazy_tools: list[LazyTool] = []
        services.provider_table = ProviderTable(services)
        self._add_sources(flatten_sources(sources))
        self._refuse_left_out(sources)

    def _add_sources(self, sources: list[Tool[..., Any] | Provider | LazyTool]) -> None:
        tools, providers = split_server_tools(item for item in sources if isinstance(item, Tool))
        self._lazy_tools += [item for item in sources if isinstance(item, LazyTool)]
        providers += [item for item in sources if isinstance(item, Provider)]
        self.services.provider_table.add_unstarted(providers)
        if tools:
            self.catalogue.add(*tools)

    @property
    def _init_context(self) -> InitContext:
        return InitContext(self.services.workspace)

    def _refuse_left_out(self, sources: Iterable[Any]) -> None:
        for name, reason in left_out_tools(sources).items():
            self.catalogue.leave_out(name, reason)

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
        """Open the store, start the providers, compile the tools and enter the lifespans."""
        if self._configured_store is not None:
            await self._open_store(self._configured_store)
        while self._lazy_tools:
            self._add_sources([await self._lazy_tools[0].resolve(self._init_context)])
            del self._lazy_tools[0]
        await self.services.provider_table.start()
        self._compile_tools()
        self.services.is_open = True
        self.services.event_loop = asyncio.get_running_loop()
        self.services.rebuild_stacks()
        await self.services.provider_table.apply_early_changes()
        self._warn_about_unmatched_rules()
        for listing in self.catalogue:
            await self.services.lifespans.enter(listing.tool)
        if self._maintenance is not None:
            await self._maintenance.start_loop()

    async def _open_store(self, configured: str | Store) -> None:
        from surehand.runtime.maintenance.store_maintenance import StoreMaintenance  # keeps sqlite3 off the import path
        from surehand.store.store import Store

        if not isinstance(configured, (str, Store)):
            kind = type(configured).__name__  # type: ignore[unreachable]  # callers without a type checker
            raise TypeError(f"store must be a path such as 'file.db', a 'postgresql://...' URL or a Store, got {kind}.")
        store = (
            await Store.open(configured, now=self.services.clock.time) if isinstance(configured, str) else configured
        )
        self.services.store = store
        if store.database.is_read_only:  # only to look at: calls that must be stored are refused
            return
        self._maintenance = StoreMaintenance(self, store)
        self.services.recover_dead_runtimes = self._maintenance.recover_dead_runtimes  # type: ignore[method-assign]
        await self._maintenance.join_store()

    async def _close_store(self) -> None:
        maintenance, self._maintenance = self._maintenance, None
        if maintenance is None:
            return  # a store in memory lives as long as the runtime object, which may be opened again
        try:
            await maintenance.stop()
        finally:
            store, self.services.store = self.services.store, None
            if store is not None and isinstance(self._configured_store, str):
                await store.close()

    @property
    def store(self) -> Store | None:
        """The configured store, or the one in memory once it has been used."""
        return self.services.store

    @property
    def providers(self) -> list[Provider]:
        """All providers, started or not."""
        return self.services.provider_table.all_providers

    def _compile_tools(self) -> None:
        """Compile all tools; raises one error that lists every mistake."""
        self.services.queues.validate_shared_queues()
        errors: list[DefinitionError] = []
        for listing in self.catalogue:
            try:
                listing.tool.compile()
                if listing.provider is None:
                    listing.tool.require_runner()
                self.services.queues.queue_for(
                    listing
                )  # raises if the queue of the tool or of its provider does not exist
            except DefinitionError as error:
                errors.append(error)
        if errors:
            raise DefinitionError.combine(errors)

    async def add(self, *sources: Any, on_conflict: OnConflict = "error") -> None:
        """Add tools or providers while running.

        Args:
            on_conflict: what happens to a tool whose name is taken; a provider has an `on_conflict` of its own.
        """
        self._refuse_left_out(sources)
        for source in flatten_sources(sources):
            if isinstance(source, Provider):
                await self.services.provider_table.add(source)
                continue
            resolved = await source.resolve(self._init_context) if isinstance(source, LazyTool) else source
            tools, providers = split_server_tools([resolved])
            for provider in providers:
                await self.services.provider_table.add(provider)
            for tool in tools:
                tool.require_runner()
                self.catalogue.add(tool, on_conflict=on_conflict)
                await self.services.lifespans.enter(tool)

    @property
    def middleware(self) -> tuple[Middleware, ...]:
        """The middleware around all or some tools, the outermost first; that of single tools is not among it."""
        return tuple(installed.wrapper for installed in self.services.middleware)

    def add_middleware(self, wrapper: Middleware, *, tools: str = "*") -> Callable[[], None]:
        """Add middleware, inside that which is there; returns a function that removes it.

        Calls that run already end as they began.

        Args:
            tools: a glob of the names of the tools that it is for.
        """
        return self.services.install_middleware(wrapper, tools)

    @property
    def policy(self) -> Policy:
        """The policy. Setting another one rebuilds the stacks; running calls end on the old ones."""
        return self.services.policy

    @policy.setter
    def policy(self, policy: Policy | Iterable[Mapping[str, Any]]) -> None:
        self.services.policy = _to_policy(policy)
        self.services.rebuild_stacks()
        if self.services.is_open:
            self._warn_about_unmatched_rules()

    def _warn_about_unmatched_rules(self) -> None:
        """Warn about policy rules that match no tool, unless their tools may only come later."""
        listings = list(self.catalogue)
        names = {name for listing in listings for name in listing.names}
        for unmatched in self.services.policy.unmatched_rules(listings):
            if not any(self._may_come_later(glob) for glob in unmatched.globs):
                log.warning("%s", unmatched.describe(names))

    def _may_come_later(self, glob: str) -> bool:
        return glob == READER_TOOL_NAME or self.services.provider_table.may_still_offer(glob)

    @property
    def journal(self) -> list[MemoryJournalEntry]:
        """The last ten thousand calls, oldest first, if the runtime was created with `journal=True`."""
        return self.services.memory_journal.entries() if self.services.memory_journal is not None else []

    def _expire_overdue_calls(self) -> None:
        from surehand.runtime.maintenance.store_maintenance import (
            expire_overdue_calls,
        )  # keeps sqlite3 off the import path

        if self.services.is_open:
            _ = self.services.background_tasks.spawn(expire_overdue_calls(self))

    async def close(self) -> None:
        """Cancel running calls, stop the providers and release all resources."""
        services = self.services
        services.is_open = False
        services.event_loop = None
        services.provider_table.unsubscribe()
        services.rebuild_stacks()
        async with AsyncExitStack() as last:  # each step runs even if an earlier one fails or is cancelled
            last.push_async_callback(self._close_store)
            last.push_async_callback(services.close)
            last.push_async_callback(services.provider_table.stop)
            last.push_async_callback(services.lifespans.close)
            for invocation in list(services.running_calls):
                invocation.interrupt("cancelled", f"{invocation.tool_name} was cancelled: the runtime closed.")
            await services.wait_for_running_calls()

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
