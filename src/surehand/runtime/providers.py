"""Roster: a runtime's providers, from their start to their stop, and what they offer meanwhile."""

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
"""Seconds that a provider has to let go."""


class ProviderTable:
    """Providers are started side by side and listed in the order given; one that is away is left out, with a reason."""

    def __init__(self, services: RuntimeServices) -> None:
        self._services = services
        self.unstarted: list[Provider] = []
        """Those to start when the runtime is opened."""
        self._started: list[Provider] = []
        self._stopped: list[Provider] = []
        """Those to start again where a runtime that was closed is opened again."""
        self._unsubscribe_callbacks: list[Callable[[], None]] = []
        self._changed_during_start: list[Provider] = []
        """Those whose tools changed while others were still starting."""
        self._mcp_start_seconds: dict[str, float] = {}
        """Seconds that MCP servers took to start."""

    @property
    def all_providers(self) -> list[Provider]:
        """All of them, whether they have been started or not."""
        return _deduplicate([*self.unstarted, *self._started, *self._stopped, *self._services.active_providers])

    async def start(self) -> None:
        """Start those that wait, and take their tools."""
        catalogue = self._services.catalogue
        catalogue.remove(*(listing.name for listing in catalogue if listing.provider in self._stopped))
        self.unstarted, self._stopped = (
            _deduplicate([*self.unstarted, *self._stopped]),
            [],
        )  # a start that failed leaves both
        most = asyncio.Semaphore(self._services.defaults.mcp_init_concurrency or len(self.unstarted) or 1)
        # All of them come to an end, so that none is still starting when the runtime gives up.
        begun = await asyncio.gather(
            *(self._start_provider(each, most) for each in self.unstarted), return_exceptions=True
        )
        self._log_start_times()
        for error in begun:
            if isinstance(error, BaseException):
                raise error
        for provider, there in zip(self.unstarted, begun, strict=True):  # in the order given, whoever was first
            await self._add_provider_tools(provider, is_available=bool(there))
        self.unstarted.clear()

    async def apply_early_changes(self) -> None:
        """Take what changed during the start."""
        early, self._changed_during_start = self._changed_during_start, []
        for provider in early:
            await self._update_tools(provider)

    async def add(self, provider: Provider) -> None:
        """Start one more while the runtime runs."""
        await self._add_provider_tools(provider, is_available=await self._start_provider(provider))

    async def _start_provider(self, provider: Provider, concurrency: asyncio.Semaphore | None = None) -> bool:
        """Start a provider; whether it is there."""
        try:
            async with concurrency if concurrency is not None and provider.kind == "mcp" else nullcontext():
                if provider.retries_start:
                    self._started.append(provider)
                began = monotonic()
                await provider.start()
                if provider.kind == "mcp":
                    self._mcp_start_seconds[provider.namespace] = monotonic() - began
                if not provider.retries_start:
                    self._started.append(provider)
        except Unavailable as error:
            await self._mark_unavailable(provider, error)
            return False
        return True

    def _log_start_times(self) -> None:
        """How long servers took, the slowest first."""
        if took := sorted(self._mcp_start_seconds.items(), key=lambda each: -each[1]):
            log.info("MCP servers are ready: %s.", ", ".join(f"{name} in {seconds:.2f} s" for name, seconds in took))
        self._mcp_start_seconds = {}

    async def _add_provider_tools(self, provider: Provider, *, is_available: bool) -> None:
        """Take a provider's tools."""
        if not is_available:
            return
        try:
            tools = await provider.tools()
        except Unavailable as error:
            await self._mark_unavailable(provider, error)
            return
        name, conflict = provider.namespace, provider.on_conflict
        self._services.unavailable_providers.pop(name, None)
        self._services.catalogue.add(*tools, namespace=name, provider=provider, on_conflict=conflict)
        self._subscribe(provider)

    async def _mark_unavailable(self, provider: Provider, error: Unavailable) -> None:
        if provider.required:
            await self._remove(provider)
            raise error
        log.warning("%s is left out: %s", provider.namespace or type(provider).__name__, error)
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
        """What a provider offers now; mistakes in it cost the old tools nothing."""
        try:
            tools = [tool for tool in await provider.tools() if _can_compile(tool)]
            self._services.catalogue.replace_tools(provider, *tools)
            self._services.unavailable_providers.pop(provider.namespace, None)
        except (DefinitionError, Unavailable) as error:
            log.warning("What %s offers now is not taken: %s", provider.namespace, error)

    async def refresh(self, namespaces: tuple[str, ...], principal: Principal) -> None:
        """Ask those of the given namespaces, or all, what they offer now. Raises for one that is away."""
        asked = self._select_providers(namespaces)
        looks = (
            provider.refresh_for(principal) if _is_identified(principal) else provider.refresh() for provider in asked
        )
        answers = await asyncio.gather(*looks, return_exceptions=True)
        for provider, answer in zip(asked, answers, strict=True):
            if answer is None:
                await self._update_tools(provider)
        for answer in answers:
            if answer is not None:
                raise answer

    async def refresh_for_tool(self, tool_name: str, principal: Principal) -> None:
        """Ask in a user's name where a tool may be of which nobody is told. Raises for a provider that is away."""
        namespace = tool_name.partition(NAMESPACE_SEPARATOR)[0]
        knowing = {each.namespace for each in self._services.active_providers if each.is_per_user}
        if namespace in knowing & self._services.unavailable_providers.keys() and _is_identified(principal):
            await self.refresh((namespace,), principal)

    async def load_user_tools(self, principal: Principal) -> dict[str, str]:
        """Ask in a user's name what is offered to that user alone; gives the namespaces that did not say, and why."""
        knowing = (
            [each for each in self._services.active_providers if each.is_per_user] if _is_identified(principal) else []
        )
        if not knowing:
            return {}
        reasons = await asyncio.gather(*(self._load_user_tools_of(each, principal) for each in knowing))
        return {each.namespace: why for each, why in zip(knowing, reasons, strict=True) if why}

    async def _load_user_tools_of(self, provider: Provider, principal: Principal) -> str:
        try:
            if await provider.load_tools_for(principal):
                await self._update_tools(provider)
        except ToolError as error:
            log.info("%s tells %s nothing: %s", provider.namespace, principal.user or principal.session, error)
            return self._services.redact(str(error)) if self._services.redact else str(error)
        return ""

    def _select_providers(self, namespaces: tuple[str, ...]) -> list[Provider]:
        known = [each.namespace for each in self._services.active_providers]
        for name in namespaces:
            if name not in known:
                near = nearest_names(name, known, 1)
                raise KeyError(f"There is no provider {name!r}.{f' Did you mean {near[0]!r}?' if near else ''}")
        return [each for each in self._services.active_providers if not namespaces or each.namespace in namespaces]

    def unsubscribe(self) -> None:
        """Hear no more of changes."""
        for end in self._unsubscribe_callbacks:
            end()
        self._unsubscribe_callbacks.clear()
        self._services.active_providers.clear()

    async def stop(self) -> None:
        """Stop all at once: none has to wait for another's farewell."""
        going = self._started
        self._stopped, self._started = [*self._stopped, *going], []
        await asyncio.gather(*map(_stop_provider, going))


def _is_identified(principal: Principal) -> bool:
    return principal.user is not None or principal.session is not None


def _deduplicate(providers: list[Provider]) -> list[Provider]:
    """Each of them, whether it can be hashed or not."""
    return list({id(each): each for each in providers}.values())


def _can_compile(tool: Tool[..., Any]) -> bool:
    try:
        tool.compile()
    except DefinitionError as error:
        log.warning("%s is left out: %s", tool.name, error)
        return False
    return True


async def _stop_provider(provider: Provider) -> None:
    try:
        async with asyncio.timeout(PROVIDER_STOP_TIMEOUT_SECONDS):
            await provider.stop()
    except Exception:
        log.exception("%s did not stop cleanly", provider.namespace or type(provider).__name__)
