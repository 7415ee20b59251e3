"""Runtime: a catalogue of tools and the pipeline around them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, nullcontext
from os import PathLike, fspath
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from toolwright.core.call import Principal
from toolwright.core.clock import Clock
from toolwright.core.define import LazyTool
from toolwright.core.errors import DefinitionError, Unavailable
from toolwright.core.names import nearest
from toolwright.core.provider import Provider
from toolwright.core.spaces import Spaces
from toolwright.core.tool import Tool
from toolwright.runtime.defaults import Defaults
from toolwright.runtime.parts import Approver, Parts
from toolwright.runtime.policy import Policy
from toolwright.runtime.queues import Queue
from toolwright.runtime.scope import Scope
from toolwright.runtime.sources import flatten
from toolwright.runtime.stats import Entry

if TYPE_CHECKING:
    from toolwright.core.invoke import Redact
    from toolwright.runtime.keeper import Keeper
    from toolwright.runtime.stages.middleware import Middleware
    from toolwright.store.store import Store

log = logging.getLogger("toolwright")
STOPPING = 10.0
"""Seconds that a provider has to let go."""


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
        self._later: list[Provider | LazyTool] = []
        self._providers: list[Provider] = []
        self._stopped: list[Provider] = []
        """Providers to start again where a runtime that was closed is opened again."""
        self._watches: list[Callable[[], None]] = []
        self._early: list[Provider] = []
        """Providers whose tools changed while others were still starting."""
        self._add_tools(flatten(sources))

    def _add_tools(self, found: list[Tool[..., Any] | Provider | LazyTool]) -> None:
        tools = [item for item in found if isinstance(item, Tool)]
        self._later += [item for item in found if not isinstance(item, Tool)]
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
        self.catalogue.remove(*(listing.name for listing in self.catalogue if listing.provider in self._stopped))
        again = {id(item): item for item in [*self._later, *self._stopped]}  # a start that failed leaves them in both
        self._later, self._stopped = list(again.values()), []
        for lazy in [item for item in self._later if isinstance(item, LazyTool)]:
            self.catalogue.add(await lazy.resolve())
        # All of them come to an end, so that none is still starting when the runtime gives up.
        most = asyncio.Semaphore(self.parts.defaults.mcp_init_concurrency or len(self._later) or 1)
        later = [item for item in self._later if isinstance(item, Provider)]
        begun = await asyncio.gather(*(self._begin(item, most) for item in later), return_exceptions=True)
        for error in begun:
            if isinstance(error, BaseException):
                raise error
        for provider, there in zip(later, begun, strict=True):  # in the order given, whoever was first
            await self._join(provider, there=bool(there))
        self._later.clear()
        self._compile()
        self.parts.open, self.parts.loop = True, asyncio.get_running_loop()
        self.parts.rebuild()
        early, self._early = self._early, []
        for provider in early:
            await self._take(provider)
        for listing in self.catalogue:
            await self.parts.mounts.mount(listing.tool)
        if self._keeper is not None:
            await self._keeper.look()

    async def _open_store(self, given: str | Store) -> None:
        from toolwright.runtime.keeper import Keeper  # loaded by those alone who have a store
        from toolwright.store.store import Store

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

    async def _begin(self, provider: Provider, most: asyncio.Semaphore | None = None) -> bool:
        """Start a provider; whether it is there."""
        try:
            async with most if most is not None and provider.kind == "mcp" else nullcontext():
                if provider.comes_back:
                    self._providers.append(provider)
                await provider.start()
                if not provider.comes_back:
                    self._providers.append(provider)
        except Unavailable as error:
            await self._leave_out(provider, error)
            return False
        return True

    async def _join(self, provider: Provider, *, there: bool) -> None:
        """Take a provider's tools."""
        if not there:
            return
        try:
            tools = await provider.tools()
        except Unavailable as error:
            await self._leave_out(provider, error)
            return
        self.parts.left_out.pop(provider.namespace, None)
        self.catalogue.add(*tools, namespace=provider.namespace, provider=provider, on_conflict=provider.on_conflict)
        self._watch(provider)

    async def _leave_out(self, provider: Provider, error: Unavailable) -> None:
        if provider.required:
            await self._drop(provider)
            raise error
        log.warning("%s is left out: %s", provider.namespace or type(provider).__name__, error)
        self.parts.left_out[provider.namespace] = str(error)
        if provider.comes_back:
            self._watch(provider)

    async def _drop(self, provider: Provider) -> None:
        if provider in self._providers:
            self._providers.remove(provider)
            await _stop(provider)

    def _watch(self, provider: Provider) -> None:
        def changed() -> None:
            if self.parts.open:
                _ = self.parts.reaper.own(self._take(provider))
            else:
                self._early.append(provider)

        self._watches.append(provider.watch(changed))
        self.parts.providers.append(provider)

    async def _take(self, provider: Provider) -> None:
        """What a provider offers now; mistakes in it cost the old tools nothing."""
        try:
            tools = [tool for tool in await provider.tools() if _compiles(tool)]
            self.catalogue.swap(provider, *tools)
            self.parts.left_out.pop(provider.namespace, None)
        except (DefinitionError, Unavailable) as error:
            log.warning("What %s offers now is not taken: %s", provider.namespace, error)

    async def refresh(self, *namespaces: str) -> None:
        """Ask providers again what they offer: those of the given namespaces, or all. Raises for one that is away."""
        known = [each.namespace for each in self.parts.providers]
        for name in namespaces:
            if name not in known:
                near = nearest(name, known, 1)
                raise KeyError(f"There is no provider {name!r}.{f' Did you mean {near[0]!r}?' if near else ''}")
        asked = [each for each in self.parts.providers if not namespaces or each.namespace in namespaces]
        answers = await asyncio.gather(*(provider.refresh() for provider in asked), return_exceptions=True)
        for provider, answer in zip(asked, answers, strict=True):
            if answer is None:
                await self._take(provider)
        for answer in answers:
            if answer is not None:
                raise answer

    @property
    def providers(self) -> list[Provider]:
        """Where tools come from beside functions, whether they have been started or not."""
        later = [item for item in self._later if isinstance(item, Provider)]
        return list(dict.fromkeys([*later, *self._providers, *self._stopped, *self.parts.providers]))

    def _compile(self) -> None:
        """One error that lists every mistake, at the start and never at a call."""
        self.parts.check_shared()
        errors: list[DefinitionError] = []
        for listing in self.catalogue:
            try:
                listing.tool.compile()
                self.parts.line_of(listing)  # a queue that is not there, the tool's or its provider's
            except DefinitionError as error:
                errors.append(error)
        if errors:
            raise DefinitionError.all_of(errors)

    async def add(self, *sources: Any) -> None:
        """Add tools or providers while running."""
        found = flatten(sources)
        for item in found:
            if isinstance(item, Provider):
                await self._join(item, there=await self._begin(item))
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
        from toolwright.runtime.keeper import sweep

        if self.parts.open:
            _ = self.parts.reaper.own(sweep(self))

    async def close(self) -> None:
        """Cancel what runs, stop what was started, and leave nothing behind."""
        parts = self.parts
        parts.open, parts.loop = False, None
        for end in self._watches:
            end()
        self._watches.clear()
        parts.providers.clear()
        parts.rebuild()
        async with AsyncExitStack() as last:  # whatever fails or is cancelled on the way, the rest is closed too
            last.push_async_callback(self._close_store)
            last.push_async_callback(parts.close)
            last.push_async_callback(_stop_all, list(self._providers))
            self._stopped, self._providers = [*self._stopped, *self._providers], []
            last.push_async_callback(parts.mounts.close)
            for invocation in list(parts.running):
                invocation.interrupt("cancelled", f"{invocation.tool_name} was cancelled: the runtime closed.")
            await parts.settled()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


def _compiles(tool: Tool[..., Any]) -> bool:
    try:
        tool.compile()
    except DefinitionError as error:
        log.warning("%s is left out: %s", tool.name, error)
        return False
    return True


async def _stop_all(providers: list[Provider]) -> None:
    """At once: none has to wait for another's farewell."""
    await asyncio.gather(*map(_stop, providers))


async def _stop(provider: Provider) -> None:
    try:
        async with asyncio.timeout(STOPPING):
            await provider.stop()
    except Exception:
        log.exception("%s did not stop cleanly", provider.namespace or type(provider).__name__)


def _redactor(secrets: Sequence[str]) -> Redact:
    from toolwright.runtime.redaction import redactor  # loaded by those alone who have secrets to keep

    return redactor(secrets)


def _policy(given: Policy | Iterable[Mapping[str, Any]] | None) -> Policy:
    return given if isinstance(given, Policy) else Policy(given or ())
