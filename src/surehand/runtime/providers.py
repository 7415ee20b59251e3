"""Provider table: starts and stops a runtime's providers, and keeps the catalogue equal to the tools they offer."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import nullcontext
from time import monotonic
from typing import TYPE_CHECKING, Any

from surehand.core.call import Principal
from surehand.core.errors import DefinitionError, ToolError, Unavailable
from surehand.core.names import NAMESPACE_SEPARATOR, nearest_names
from surehand.core.provider import Provider
from surehand.core.tool import Tool

if TYPE_CHECKING:
    from surehand.runtime.services import RuntimeServices

log = logging.getLogger("surehand")
PROVIDER_STOP_TIMEOUT_SECONDS = 10.0
"""Seconds that a provider gets to stop."""


class ProviderTable:
    """Starts providers concurrently and adds their tools in the given order; an unavailable one is skipped.

    The reason is kept in `RuntimeServices.unavailable_providers`.
    """

    def __init__(self, services: RuntimeServices) -> None:
        self._services = services
        self.unstarted: list[Provider] = []
        """Providers to start when the runtime is opened."""
        self._started: list[Provider] = []
        self._stopped: list[Provider] = []
        """Providers to start again if the closed runtime is opened again."""
        self._unsubscribe_callbacks: list[Callable[[], None]] = []
        self._changed_during_start: list[Provider] = []
        """Providers whose tools changed while others were still starting."""
        self._mcp_start_seconds: dict[str, float] = {}
        """Seconds that MCP servers took to start."""

    @property
    def all_providers(self) -> list[Provider]:
        """All providers, started or not."""
        return _deduplicate([*self.unstarted, *self._started, *self._stopped, *self._services.active_providers])

    async def start(self) -> None:
        """Start the providers and add their tools to the catalogue."""
        catalogue = self._services.catalogue
        catalogue.remove(*(listing.name for listing in catalogue if listing.provider in self._stopped))
        # After a failed start, a provider may be in both lists.
        self.unstarted = _deduplicate([*self.unstarted, *self._stopped])
        self._stopped = []
        concurrency = asyncio.Semaphore(self._services.defaults.mcp_init_concurrency or len(self.unstarted) or 1)
        # Wait for all of them, so that none is still starting when an error is raised.
        starts = (self._start_provider(provider, concurrency) for provider in self.unstarted)
        results = await asyncio.gather(*starts, return_exceptions=True)
        self._log_start_times()
        for result in results:
            if isinstance(result, BaseException):
                raise result
        for provider, is_available in zip(self.unstarted, results, strict=True):  # in the given order
            await self._add_provider_tools(provider, is_available=bool(is_available))
        self.unstarted.clear()

    async def apply_early_changes(self) -> None:
        """Update the tools of providers that changed while others were starting."""
        early, self._changed_during_start = self._changed_during_start, []
        for provider in early:
            await self._update_tools(provider)

    async def add(self, provider: Provider) -> None:
        """Start one more provider while the runtime runs."""
        await self._add_provider_tools(provider, is_available=await self._start_provider(provider))

    async def _start_provider(self, provider: Provider, concurrency: asyncio.Semaphore | None = None) -> bool:
        """Start a provider; returns whether it is available."""
        try:
            async with concurrency if concurrency is not None and provider.kind == "mcp" else nullcontext():
                if provider.retries_start:
                    self._started.append(provider)
                if self._services.defaults.trace_mcp:
                    provider.trace_messages()
                started_at = monotonic()
                await provider.start()
                if provider.kind == "mcp":
                    self._mcp_start_seconds[provider.namespace] = monotonic() - started_at
                if not provider.retries_start:
                    self._started.append(provider)
        except Unavailable as error:
            await self._mark_unavailable(provider, error)
            return False
        return True

    def _log_start_times(self) -> None:
        """Log how long each MCP server took to start, the slowest first."""
        if slowest_first := sorted(self._mcp_start_seconds.items(), key=lambda item: -item[1]):
            times = ", ".join(f"{name} in {seconds:.2f} s" for name, seconds in slowest_first)
            log.info("MCP servers are ready: %s.", times)
        self._mcp_start_seconds = {}

    async def _add_provider_tools(self, provider: Provider, *, is_available: bool) -> None:
        """Add a provider's tools to the catalogue, and watch it for changes."""
        if not is_available:
            return
        try:
            tools = await provider.tools()
        except Unavailable as error:
            await self._mark_unavailable(provider, error)
            return
        namespace = provider.namespace
        self._services.unavailable_providers.pop(namespace, None)
        self._services.catalogue.add(*tools, namespace=namespace, provider=provider, on_conflict=provider.on_conflict)
        self._subscribe(provider)

    async def _mark_unavailable(self, provider: Provider, error: Unavailable) -> None:
        if provider.required:
            await self._remove(provider)
            raise error
        log.warning("Provider %s is unavailable: %s", provider.namespace or type(provider).__name__, error)
        self._services.unavailable_providers[provider.namespace] = str(error)
        if provider.retries_start:
            self._subscribe(provider)

    async def _remove(self, provider: Provider) -> None:
        if provider in self._started:
            self._started.remove(provider)
            await _stop_provider(provider)

    def _subscribe(self, provider: Provider) -> None:
        def changed() -> None:
            if self._services.is_open:
                _ = self._services.reaper.spawn(self._update_tools(provider))
            else:
                self._changed_during_start.append(provider)

        self._unsubscribe_callbacks.append(provider.watch(changed))
        self._services.active_providers.append(provider)

    async def _update_tools(self, provider: Provider) -> None:
        """Replace a provider's tools by those it offers now; if that fails, the old ones stay."""
        try:
            tools = [tool for tool in await provider.tools() if _can_compile(tool)]
            self._services.catalogue.replace_tools(provider, *tools)
            self._services.unavailable_providers.pop(provider.namespace, None)
        except (DefinitionError, Unavailable) as error:
            log.warning("The changed tools of provider %s were rejected: %s", provider.namespace, error)

    async def refresh(self, namespaces: tuple[str, ...], principal: Principal) -> None:
        """Ask the providers of the given namespaces, or all, for their tools again. Raises if one is unavailable."""
        providers = self._select_providers(namespaces)
        if _is_identified(principal):
            refreshes = [provider.refresh_for(principal) for provider in providers]
        else:
            refreshes = [provider.refresh() for provider in providers]
        errors = await asyncio.gather(*refreshes, return_exceptions=True)
        for provider, error in zip(providers, errors, strict=True):
            if error is None:
                await self._update_tools(provider)
        for error in errors:
            if error is not None:
                raise error

    async def refresh_for_tool(self, tool_name: str, principal: Principal) -> None:
        """Ask the tool's provider, which may have gained the tool. Raises if it is unavailable.

        A provider that is down is asked only in the name of a user: it may refuse anonymous callers alone.
        """
        namespace, separator, _ = tool_name.partition(NAMESPACE_SEPARATOR)
        asked = [
            each for each in self._services.active_providers if each.may_gain_tools and each.namespace == namespace
        ]
        is_down = namespace in self._services.unavailable_providers
        if not separator or not asked or (is_down and not _is_identified(principal)):
            return
        for provider in asked:
            await provider.refresh_for(principal)
            await self._update_tools(provider)

    async def load_user_tools(self, principal: Principal) -> dict[str, str]:
        """Load the tools that providers offer to one user; returns the namespaces that failed, with the reasons."""
        providers = self._per_user_providers() if _is_identified(principal) else []
        if not providers:
            return {}
        reasons = await asyncio.gather(*(self._load_user_tools_of(provider, principal) for provider in providers))
        return {provider.namespace: reason for provider, reason in zip(providers, reasons, strict=True) if reason}

    def _per_user_providers(self) -> list[Provider]:
        return [provider for provider in self._services.active_providers if provider.is_per_user]

    async def _load_user_tools_of(self, provider: Provider, principal: Principal) -> str:
        try:
            if await provider.load_tools_for(principal):
                await self._update_tools(provider)
        except ToolError as error:
            user = principal.user or principal.session
            log.info("Provider %s did not list its tools for %s: %s", provider.namespace, user, error)
            return self._services.redact(str(error)) if self._services.redact else str(error)
        return ""

    def _select_providers(self, namespaces: tuple[str, ...]) -> list[Provider]:
        known = [each.namespace for each in self._services.active_providers]
        for name in namespaces:
            if name not in known:
                nearest = nearest_names(name, known, 1)
                hint = f" Did you mean {nearest[0]!r}?" if nearest else ""
                raise KeyError(f"There is no provider {name!r}.{hint}")
        return [each for each in self._services.active_providers if not namespaces or each.namespace in namespaces]

    def unsubscribe(self) -> None:
        """Stop watching providers for changes."""
        for unsubscribe in self._unsubscribe_callbacks:
            unsubscribe()
        self._unsubscribe_callbacks.clear()
        self._services.active_providers.clear()

    async def stop(self) -> None:
        """Stop all providers concurrently."""
        stopping = self._started
        self._stopped = [*self._stopped, *stopping]
        self._started = []
        await asyncio.gather(*map(_stop_provider, stopping))


def _is_identified(principal: Principal) -> bool:
    return principal.user is not None or principal.session is not None


def _deduplicate(providers: list[Provider]) -> list[Provider]:
    """Drop repeated providers by identity: a provider need not be hashable."""
    return list({id(each): each for each in providers}.values())


def _can_compile(tool: Tool[..., Any]) -> bool:
    try:
        tool.compile()
    except DefinitionError as error:
        log.warning("Tool %s is skipped: %s", tool.name, error)
        return False
    return True


async def _stop_provider(provider: Provider) -> None:
    try:
        async with asyncio.timeout(PROVIDER_STOP_TIMEOUT_SECONDS):
            await provider.stop()
    except Exception:
        log.exception("Provider %s did not stop cleanly", provider.namespace or type(provider).__name__)
