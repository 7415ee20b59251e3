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
from surehand.core.names import SEPARATOR, nearest
from surehand.core.provider import Provider
from surehand.core.tool import Tool

if TYPE_CHECKING:
    from surehand.runtime.parts import Parts

log = logging.getLogger("surehand")
STOPPING = 10.0
"""Seconds that a provider has to let go."""


class Roster:
    """Providers are started side by side and listed in the order given; one that is away is left out, with a reason."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self.waiting: list[Provider] = []
        """Those to start when the runtime is opened."""
        self._started: list[Provider] = []
        self._stopped: list[Provider] = []
        """Those to start again where a runtime that was closed is opened again."""
        self._watches: list[Callable[[], None]] = []
        self._early: list[Provider] = []
        """Those whose tools changed while others were still starting."""
        self._took: dict[str, float] = {}
        """Seconds that MCP servers took to start."""

    @property
    def known(self) -> list[Provider]:
        """All of them, whether they have been started or not."""
        return _once([*self.waiting, *self._started, *self._stopped, *self._parts.providers])

    async def start(self) -> None:
        """Start those that wait, and take their tools."""
        catalogue = self._parts.catalogue
        catalogue.remove(*(listing.name for listing in catalogue if listing.provider in self._stopped))
        self.waiting, self._stopped = _once([*self.waiting, *self._stopped]), []  # a start that failed leaves both
        most = asyncio.Semaphore(self._parts.defaults.mcp_init_concurrency or len(self.waiting) or 1)
        # All of them come to an end, so that none is still starting when the runtime gives up.
        begun = await asyncio.gather(*(self._begin(each, most) for each in self.waiting), return_exceptions=True)
        self._tell()
        for error in begun:
            if isinstance(error, BaseException):
                raise error
        for provider, there in zip(self.waiting, begun, strict=True):  # in the order given, whoever was first
            await self._join(provider, there=bool(there))
        self.waiting.clear()

    async def catch_up(self) -> None:
        """Take what changed during the start."""
        early, self._early = self._early, []
        for provider in early:
            await self._take(provider)

    async def add(self, provider: Provider) -> None:
        """Start one more while the runtime runs."""
        await self._join(provider, there=await self._begin(provider))

    async def _begin(self, provider: Provider, most: asyncio.Semaphore | None = None) -> bool:
        """Start a provider; whether it is there."""
        try:
            async with most if most is not None and provider.kind == "mcp" else nullcontext():
                if provider.comes_back:
                    self._started.append(provider)
                began = monotonic()
                await provider.start()
                if provider.kind == "mcp":
                    self._took[provider.namespace] = monotonic() - began
                if not provider.comes_back:
                    self._started.append(provider)
        except Unavailable as error:
            await self._leave_out(provider, error)
            return False
        return True

    def _tell(self) -> None:
        """How long servers took, the slowest first."""
        if took := sorted(self._took.items(), key=lambda each: -each[1]):
            log.info("MCP servers are ready: %s.", ", ".join(f"{name} in {seconds:.2f} s" for name, seconds in took))
        self._took = {}

    async def _join(self, provider: Provider, *, there: bool) -> None:
        """Take a provider's tools."""
        if not there:
            return
        try:
            tools = await provider.tools()
        except Unavailable as error:
            await self._leave_out(provider, error)
            return
        name, conflict = provider.namespace, provider.on_conflict
        self._parts.left_out.pop(name, None)
        self._parts.catalogue.add(*tools, namespace=name, provider=provider, on_conflict=conflict)
        self._watch(provider)

    async def _leave_out(self, provider: Provider, error: Unavailable) -> None:
        if provider.required:
            await self._drop(provider)
            raise error
        log.warning("%s is left out: %s", provider.namespace or type(provider).__name__, error)
        self._parts.left_out[provider.namespace] = str(error)
        if provider.comes_back:
            self._watch(provider)

    async def _drop(self, provider: Provider) -> None:
        if provider in self._started:
            self._started.remove(provider)
            await _stop(provider)

    def _watch(self, provider: Provider) -> None:
        def changed() -> None:
            if self._parts.open:
                _ = self._parts.reaper.own(self._take(provider))
            else:
                self._early.append(provider)

        self._watches.append(provider.watch(changed))
        self._parts.providers.append(provider)

    async def _take(self, provider: Provider) -> None:
        """What a provider offers now; mistakes in it cost the old tools nothing."""
        try:
            tools = [tool for tool in await provider.tools() if _compiles(tool)]
            self._parts.catalogue.swap(provider, *tools)
            self._parts.left_out.pop(provider.namespace, None)
        except (DefinitionError, Unavailable) as error:
            log.warning("What %s offers now is not taken: %s", provider.namespace, error)

    async def refresh(self, namespaces: tuple[str, ...], who: Principal) -> None:
        """Ask those of the given namespaces, or all, what they offer now. Raises for one that is away."""
        asked = self._of(namespaces)
        looks = (provider.refresh_for(who) if _is_named(who) else provider.refresh() for provider in asked)
        answers = await asyncio.gather(*looks, return_exceptions=True)
        for provider, answer in zip(asked, answers, strict=True):
            if answer is None:
                await self._take(provider)
        for answer in answers:
            if answer is not None:
                raise answer

    async def look_for(self, name: str, who: Principal) -> None:
        """Ask in a user's name where a tool may be of which nobody is told. Raises for a provider that is away."""
        namespace = name.partition(SEPARATOR)[0]
        knowing = {each.namespace for each in self._parts.providers if each.knows_users}
        if namespace in knowing & self._parts.left_out.keys() and _is_named(who):
            await self.refresh((namespace,), who)

    async def meet(self, who: Principal) -> dict[str, str]:
        """Ask in a user's name what is offered to that user alone; gives the namespaces that did not say, and why."""
        knowing = [each for each in self._parts.providers if each.knows_users] if _is_named(who) else []
        if not knowing:
            return {}
        reasons = await asyncio.gather(*(self._meet(each, who) for each in knowing))
        return {each.namespace: why for each, why in zip(knowing, reasons, strict=True) if why}

    async def _meet(self, provider: Provider, who: Principal) -> str:
        try:
            if await provider.meet(who):
                await self._take(provider)
        except ToolError as error:
            log.info("%s tells %s nothing: %s", provider.namespace, who.user or who.session, error)
            return self._parts.redact(str(error)) if self._parts.redact else str(error)
        return ""

    def _of(self, namespaces: tuple[str, ...]) -> list[Provider]:
        known = [each.namespace for each in self._parts.providers]
        for name in namespaces:
            if name not in known:
                near = nearest(name, known, 1)
                raise KeyError(f"There is no provider {name!r}.{f' Did you mean {near[0]!r}?' if near else ''}")
        return [each for each in self._parts.providers if not namespaces or each.namespace in namespaces]

    def unwatch(self) -> None:
        """Hear no more of changes."""
        for end in self._watches:
            end()
        self._watches.clear()
        self._parts.providers.clear()

    async def stop(self) -> None:
        """Stop all at once: none has to wait for another's farewell."""
        going = self._started
        self._stopped, self._started = [*self._stopped, *going], []
        await asyncio.gather(*map(_stop, going))


def _is_named(who: Principal) -> bool:
    return who.user is not None or who.session is not None


def _once(providers: list[Provider]) -> list[Provider]:
    """Each of them, whether it can be hashed or not."""
    return list({id(each): each for each in providers}.values())


def _compiles(tool: Tool[..., Any]) -> bool:
    try:
        tool.compile()
    except DefinitionError as error:
        log.warning("%s is left out: %s", tool.name, error)
        return False
    return True


async def _stop(provider: Provider) -> None:
    try:
        async with asyncio.timeout(STOPPING):
            await provider.stop()
    except Exception:
        log.exception("%s did not stop cleanly", provider.namespace or type(provider).__name__)
