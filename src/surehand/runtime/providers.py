"""Provider table: starts and stops a runtime's providers, and keeps the catalogue equal to the tools they offer."""

from __future__ import annotations

import asyncio
import inspect
import logging
import re
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from time import monotonic
from typing import Any

from surehand.catalogue.catalogue import Catalogue
from surehand.core.call import Principal
from surehand.core.errors import DefinitionError, ToolError, Unavailable
from surehand.core.names import NAMESPACE_SEPARATOR, nearest_names
from surehand.core.provider import Provider
from surehand.core.provider_abilities import AddedProvider
from surehand.core.signature import source_location
from surehand.core.tool import Tool
from surehand.runtime.background_tasks import BackgroundTasks
from surehand.runtime.crash_report import CrashReport
from surehand.runtime.defaults import Defaults
from surehand.runtime.running_calls import RunningCalls

log = logging.getLogger("surehand")
PROVIDER_STOP_TIMEOUT_SECONDS = 10.0
"""Seconds that a provider gets to stop."""


class ProviderTable:
    """Starts providers concurrently and adds their tools in the given order; an unavailable one is skipped."""

    def __init__(
        self,
        catalogue: Catalogue,
        defaults: Defaults,
        *,
        running: RunningCalls,
        background_tasks: BackgroundTasks,
        crash_report: CrashReport,
    ) -> None:
        self._catalogue = catalogue
        self._defaults = defaults
        self._running = running
        self._background_tasks = background_tasks
        self._crash_report = crash_report
        self.active: list[AddedProvider] = []
        self.unavailable: dict[str, str] = {}
        """Why a provider is unavailable, by namespace."""
        self._unstarted: list[AddedProvider] = []
        """Providers to start when the runtime is opened."""
        self._started: list[AddedProvider] = []
        self._stopped: list[AddedProvider] = []
        """Providers to start again if the closed runtime is opened again."""
        self._unsubscribe_callbacks: list[Callable[[], None]] = []
        self._changed_during_start: list[AddedProvider] = []
        """Providers whose tools changed while others were still starting."""
        self._mcp_start_seconds: dict[str, float] = {}
        """Seconds that MCP servers took to start."""

    @property
    def all_added(self) -> list[AddedProvider]:
        """All providers, started or not."""
        return _deduplicate([*self._unstarted, *self._started, *self._stopped, *self.active])

    def add_unstarted(self, providers: Iterable[Provider]) -> None:
        """Add providers that are started when the runtime is opened."""
        self._unstarted += map(AddedProvider.of, providers)

    async def start(self) -> None:
        """Start the providers and add their tools to the catalogue."""
        catalogue = self._catalogue
        stopped = [added.provider for added in self._stopped]
        catalogue.remove(*(listing.name for listing in catalogue if listing.provider in stopped))
        # After a failed start, a provider may be in both lists.
        self._unstarted = _deduplicate([*self._unstarted, *self._stopped])
        self._stopped = []
        concurrency = asyncio.Semaphore(self._defaults.mcp_init_concurrency or len(self._unstarted) or 1)
        # Wait for all of them, so that none is still starting when an error is raised.
        starts = (self._start_provider(added, concurrency) for added in self._unstarted)
        results = await asyncio.gather(*starts, return_exceptions=True)
        self._log_start_times()
        for result in results:
            if isinstance(result, BaseException):
                raise result
        for added, is_available in zip(self._unstarted, results, strict=True):  # in the given order
            await self._add_provider_tools(added, is_available=bool(is_available))
        self._unstarted.clear()

    async def apply_early_changes(self) -> None:
        """Update the tools of providers that changed while others were starting."""
        early, self._changed_during_start = self._changed_during_start, []
        for added in early:
            await self._update_tools(added)

    async def add(self, provider: Provider) -> None:
        """Start one more provider while the runtime runs."""
        added = AddedProvider.of(provider)
        await self._add_provider_tools(added, is_available=await self._start_provider(added))

    async def _start_provider(self, added: AddedProvider, concurrency: asyncio.Semaphore | None = None) -> bool:
        """Start a provider; returns whether it is available."""
        is_mcp = added.provider.kind == "mcp"
        abilities = added.abilities
        try:
            async with concurrency if concurrency is not None and is_mcp else nullcontext():
                if abilities.traits.retries_start:
                    self._started.append(added)
                if self._defaults.trace_mcp and abilities.traceable is not None:
                    abilities.traceable.trace_messages()
                started_at = monotonic()
                if abilities.startable is not None:
                    await _call_async_method(abilities.startable, "start")
                if is_mcp:
                    self._mcp_start_seconds[added.namespace] = monotonic() - started_at
                if not abilities.traits.retries_start:
                    self._started.append(added)
        except Unavailable as error:
            await self._mark_unavailable(added, error)
            return False
        return True

    def _log_start_times(self) -> None:
        """Log how long each MCP server took to start, the slowest first."""
        if slowest_first := sorted(self._mcp_start_seconds.items(), key=lambda item: -item[1]):
            times = ", ".join(f"{name} in {seconds:.2f} s" for name, seconds in slowest_first)
            log.info("MCP servers are ready: %s.", times)
        self._mcp_start_seconds = {}

    async def _add_provider_tools(self, added: AddedProvider, *, is_available: bool) -> None:
        """Add a provider's tools to the catalogue, and watch it for changes."""
        if not is_available:
            return
        try:
            tools = await _list_tools(added.provider)
        except Unavailable as error:
            await self._mark_unavailable(added, error)
            return
        namespace = added.namespace
        on_conflict = added.provider.on_conflict
        self.unavailable.pop(namespace, None)
        self._catalogue.add(*tools, namespace=namespace, provider=added, on_conflict=on_conflict)
        self._subscribe(added)

    async def _mark_unavailable(self, added: AddedProvider, error: Unavailable) -> None:
        if added.provider.required:
            await self._remove(added)
            raise error
        log.warning("Provider %s is unavailable: %s", _label(added.provider), error)
        self.unavailable[added.namespace] = str(error)
        if added.abilities.traits.retries_start:
            self._subscribe(added)

    async def _remove(self, added: AddedProvider) -> None:
        if added in self._started:
            self._started.remove(added)
            await _stop_provider(added)

    def _subscribe(self, added: AddedProvider) -> None:
        def changed() -> None:
            if self._running.is_open:
                _ = self._background_tasks.spawn(self._update_tools(added))
            else:
                self._changed_during_start.append(added)

        if added.abilities.watchable is not None:
            self._unsubscribe_callbacks.append(added.abilities.watchable.watch(changed))
        self.active.append(added)

    async def _update_tools(self, added: AddedProvider) -> None:
        """Replace a provider's tools by those it offers now; if that fails, the old ones stay."""
        try:
            tools = [tool for tool in await _list_tools(added.provider) if _can_compile(tool)]
            self._catalogue.replace_tools(added, *tools)
            self.unavailable.pop(added.namespace, None)
        except (DefinitionError, Unavailable) as error:
            log.warning("The changed tools of provider %s were rejected: %s", added.namespace, error)

    def may_still_offer(self, glob: str) -> bool:
        """Whether a glob may match a tool of a provider that is down, or that shows each user other tools."""
        literal_start = re.split(r"[*?\[]", glob, maxsplit=1)[0]
        has_wildcard = literal_start != glob
        per_user = [added.namespace for added in self._per_user_providers()]
        starts = [f"{each}{NAMESPACE_SEPARATOR}" for each in (*self.unavailable, *per_user)]
        if has_wildcard and any(each.startswith(literal_start) for each in starts):
            return True
        return literal_start.startswith(tuple(starts))

    def refusal_reason(self, name: str) -> str | None:
        """Why a tool that exists cannot be called in this runtime; None if there is no such tool."""
        namespace, separator, short_name = name.partition(NAMESPACE_SEPARATOR)
        for added in self.active:
            selective = added.abilities.selective
            if selective is not None and added.namespace == (namespace if separator else ""):
                reason = selective.refusal_reason(short_name if separator else name)
                if reason is not None:
                    return reason
        return self._catalogue.refusal_reason(name)

    async def refresh(self, namespaces: tuple[str, ...], principal: Principal) -> None:
        """Ask the providers of the given namespaces, or all, for their tools again. Raises if one is unavailable."""
        providers = self._select_providers(namespaces)
        asking = principal if _is_identified(principal) else None
        errors = await asyncio.gather(*(_refresh(added, asking) for added in providers), return_exceptions=True)
        for added, error in zip(providers, errors, strict=True):
            if error is None:
                await self._update_tools(added)
        for error in errors:
            if error is not None:
                raise error

    async def refresh_for_tool(self, tool_name: str, principal: Principal) -> None:
        """Ask the tool's provider, which may have gained the tool. Raises if it is unavailable.

        A provider that is down is asked only in the name of a user: it may refuse anonymous callers alone.
        """
        namespace, separator, _ = tool_name.partition(NAMESPACE_SEPARATOR)
        asked = [
            added for added in self.active if added.abilities.traits.may_gain_tools and added.namespace == namespace
        ]
        is_down = namespace in self.unavailable
        if not separator or not asked or (is_down and not _is_identified(principal)):
            return
        for added in asked:
            await _refresh(added, principal)
            await self._update_tools(added)

    async def load_user_tools(self, principal: Principal) -> dict[str, str]:
        """Load the tools that providers offer to one user; returns the namespaces that failed, with the reasons."""
        providers = self._per_user_providers() if _is_identified(principal) else []
        if not providers:
            return {}
        reasons = await asyncio.gather(*(self._load_user_tools_of(added, principal) for added in providers))
        return {added.namespace: reason for added, reason in zip(providers, reasons, strict=True) if reason}

    def _per_user_providers(self) -> list[AddedProvider]:
        return [added for added in self.active if added.abilities.per_user is not None]

    async def _load_user_tools_of(self, added: AddedProvider, principal: Principal) -> str:
        per_user = added.abilities.per_user
        try:
            if per_user is not None and not per_user.has_tools_for(principal):
                await _refresh(added, principal)
                await self._update_tools(added)
        except ToolError as error:
            user = principal.user or principal.session
            log.info("Provider %s did not list its tools for %s: %s", added.namespace, user, error)
            return self._crash_report.redact(str(error))
        return ""

    def _select_providers(self, namespaces: tuple[str, ...]) -> list[AddedProvider]:
        known = [each.namespace for each in self.active]
        for name in namespaces:
            if name not in known:
                nearest = nearest_names(name, known, 1)
                hint = f" Did you mean {nearest[0]!r}?" if nearest else ""
                raise KeyError(f"There is no provider {name!r}.{hint}")
        return [each for each in self.active if not namespaces or each.namespace in namespaces]

    def unsubscribe(self) -> None:
        """Stop watching providers for changes."""
        for unsubscribe in self._unsubscribe_callbacks:
            unsubscribe()
        self._unsubscribe_callbacks.clear()
        self.active.clear()

    async def stop(self) -> None:
        """Stop all providers concurrently."""
        stopping = self._started
        self._stopped = [*self._stopped, *stopping]
        self._started = []
        await asyncio.gather(*map(_stop_provider, stopping))


def _is_identified(principal: Principal) -> bool:
    return principal.user is not None or principal.session is not None


def _deduplicate(providers: list[AddedProvider]) -> list[AddedProvider]:
    """Drop repeated providers by identity: a provider need not be hashable."""
    return list({id(each.provider): each for each in providers}.values())


def _label(provider: Provider) -> str:
    return provider.namespace or type(provider).__name__


async def _refresh(added: AddedProvider, principal: Principal | None) -> None:
    if added.abilities.refreshable is not None:
        await added.abilities.refreshable.refresh(principal)


async def _list_tools(provider: Provider) -> list[Tool[..., Any]]:
    """The tools of a provider; raises `DefinitionError` if `tools()` returns anything else."""
    returned: Any = await _call_async_method(provider, "tools")
    tools = list(returned) if isinstance(returned, Iterable) else [returned]
    others = [each for each in tools if not isinstance(each, Tool)]
    if not others:
        return tools
    raise DefinitionError(
        f"{type(provider).__name__}.tools() returned {others[0]!r:.80}, which is not a tool.",
        fix="return a list of tools, each made with `tool.provided(...)`.",
        where=source_location(provider.tools),
    )


async def _call_async_method(provider: object, name: str) -> Any:
    """Await a method of a provider; raises `DefinitionError` if it is not async."""
    method = getattr(provider, name)
    result = method()
    if not inspect.isawaitable(result):
        raise DefinitionError(
            f"{type(provider).__name__}.{name}() is not async.",
            fix=f"write `async def {name}(self)`.",
            where=source_location(method),
        )
    return await result


def _can_compile(tool: Tool[..., Any]) -> bool:
    try:
        tool.compile()
    except DefinitionError as error:
        log.warning("Tool %s is skipped: %s", tool.name, error)
        return False
    return True


async def _stop_provider(added: AddedProvider) -> None:
    stoppable = added.abilities.stoppable
    if stoppable is None:
        return
    try:
        async with asyncio.timeout(PROVIDER_STOP_TIMEOUT_SECONDS):
            await stoppable.stop()
    except Exception:
        log.exception("Provider %s did not stop cleanly", _label(added.provider))
