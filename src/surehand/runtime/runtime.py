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
from surehand.core.spaces import Spaces
from surehand.core.tool import Tool
from surehand.runtime.defaults import Defaults
from surehand.runtime.parts import Approver, Parts
from surehand.runtime.policy import Policy
from surehand.runtime.queues import Queue
from surehand.runtime.roster import Roster
from surehand.runtime.scope import Scope
from surehand.runtime.sources import flatten
from surehand.runtime.stats import Entry

if TYPE_CHECKING:
    from surehand.core.invoke import Redact
    from surehand.runtime.keeper import Keeper
    from surehand.runtime.stages.middleware import Middleware
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
        spaces: Spaces | None = None,
        defaults: Defaults | Mapping[str, Any] | None = None,
        crash_details: bool = True,
        secrets: Sequence[str] = (),
        journal: bool = False,
        auto_complete: bool = True,
        clock: Clock | None = None,
    ) -> None:
        parts = Parts(
            policy=_policy(policy),
            queues=queues or {},
            middleware=middleware,
            approver=approver,
            spaces=spaces,
            defaults=Defaults.of(defaults),
            clock=clock or Clock(),
            workspace=workspace,
            crash_details=crash_details,
            redact=_redactor(secrets) if secrets else None,
            journal=journal,
            auto_complete=auto_complete,
            durable=store is not None,
        )
        super().__init__(parts, Principal())
        parts.root, parts.sweep = self, self._sweep  # type: ignore[method-assign]  # ending waits needs the verbs
        self._store = fspath(store) if isinstance(store, PathLike) else store
        self._keeper: Keeper | None = None
        self._lazy: list[LazyTool] = []
        parts.roster = Roster(parts)
        self._add_tools(flatten(sources))

    def _add_tools(self, found: list[Tool[..., Any] | Provider | LazyTool]) -> None:
        tools = [item for item in found if isinstance(item, Tool)]
        self._lazy += [item for item in found if isinstance(item, LazyTool)]
        self.parts.roster.waiting += [item for item in found if isinstance(item, Provider)]
        if tools:
            self.catalogue.add(*tools)

    async def __aenter__(self) -> Self:
        if self.parts.open:
            raise RuntimeError("The runtime is running already.")
        try:
            await self._start()
        except BaseException:
            await self.close()
            raise
        return self

    async def _start(self) -> None:
        if self._store is not None:
            await self._open_store(self._store)
        while self._lazy:
            self.catalogue.add(await self._lazy[0].resolve())
            del self._lazy[0]
        await self.parts.roster.start()
        self._compile()
        self.parts.open, self.parts.loop = True, asyncio.get_running_loop()
        self.parts.rebuild()
        await self.parts.roster.catch_up()
        for listing in self.catalogue:
            await self.parts.mounts.mount(listing.tool)
        if self._keeper is not None:
            await self._keeper.look()

    async def _open_store(self, given: str | Store) -> None:
        from surehand.runtime.keeper import Keeper  # loaded by those alone who have a store
        from surehand.store.store import Store

        if not isinstance(given, (str, Store)):
            kind = type(given).__name__  # type: ignore[unreachable]  # what mypy knows, a caller may not
            raise TypeError(f"A runtime takes store='file.db', 'postgresql://...' or a Store, not {kind}.")
        self.parts.store = await Store.open(given, now=self.parts.clock.time) if isinstance(given, str) else given
        self._keeper = Keeper(self, self.parts.store)
        self.parts.bury = self._keeper.bury  # type: ignore[method-assign]
        await self._keeper.start()

    async def _close_store(self) -> None:
        keeper, self._keeper = self._keeper, None
        if keeper is None:
            return  # what is in memory lives as long as the runtime, which may be opened again
        try:
            await keeper.stop()
        finally:
            store, self.parts.store = self.parts.store, None
            if store is not None and isinstance(self._store, str):
                await store.close()

    @property
    def store(self) -> Store | None:
        """What is remembered: the store that was asked for, or the one in memory once there is something in it."""
        return self.parts.store

    @property
    def providers(self) -> list[Provider]:
        """Where tools come from beside functions, whether they have been started or not."""
        return self.parts.roster.known

    def _compile(self) -> None:
        """One error that lists every mistake, at the start and never at a call."""
        self.parts.lines.check_shared()
        errors: list[DefinitionError] = []
        for listing in self.catalogue:
            try:
                listing.tool.compile()
                self.parts.lines.of(listing)  # a queue that is not there, the tool's or its provider's
            except DefinitionError as error:
                errors.append(error)
        if errors:
            raise DefinitionError.all_of(errors)

    async def add(self, *sources: Any) -> None:
        """Add tools or providers while running."""
        found = flatten(sources)
        for item in found:
            if isinstance(item, Provider):
                await self.parts.roster.add(item)
            else:
                made = await item.resolve() if isinstance(item, LazyTool) else item
                self.catalogue.add(made)
                await self.parts.mounts.mount(made)

    @property
    def policy(self) -> Policy:
        """The rules. Setting others rebuilds the stacks; running calls end on the old ones."""
        return self.parts.policy

    @policy.setter
    def policy(self, policy: Policy | Iterable[Mapping[str, Any]]) -> None:
        self.parts.policy = _policy(policy)
        self.parts.rebuild()

    @property
    def journal(self) -> list[Entry]:
        """The last ten thousand calls, oldest first, where `journal=True` asked for them."""
        return self.parts.journal.entries() if self.parts.journal is not None else []

    def _sweep(self) -> None:
        from surehand.runtime.keeper import sweep

        if self.parts.open:
            _ = self.parts.reaper.own(sweep(self))

    async def close(self) -> None:
        """Cancel what runs, stop what was started, and leave nothing behind."""
        parts = self.parts
        parts.open, parts.loop = False, None
        self.parts.roster.unwatch()
        parts.rebuild()
        async with AsyncExitStack() as last:  # whatever fails or is cancelled on the way, the rest is closed too
            last.push_async_callback(self._close_store)
            last.push_async_callback(parts.close)
            last.push_async_callback(self.parts.roster.stop)
            last.push_async_callback(parts.mounts.close)
            for invocation in list(parts.running):
                invocation.interrupt("cancelled", f"{invocation.tool_name} was cancelled: the runtime closed.")
            await parts.settled()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


def _redactor(secrets: Sequence[str]) -> Redact:
    from surehand.runtime.redaction import redactor  # loaded by those alone who have secrets to keep

    return redactor(secrets)


def _policy(given: Policy | Iterable[Mapping[str, Any]] | None) -> Policy:
    return given if isinstance(given, Policy) else Policy(given or ())
