"""Agents of a runtime: their own tools and providers, which only the scopes of their own runs have."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from surehand.catalogue.catalogue import Catalogue
from surehand.catalogue.listing import Listing
from surehand.core.define import InitContext, LazyTool
from surehand.core.errors import DefinitionError
from surehand.core.tool import Tool
from surehand.runtime.lifespans import Lifespans
from surehand.runtime.named_scopes import NamedScopes
from surehand.runtime.providers import ProviderTable
from surehand.runtime.sources import AgentSource


@dataclass(slots=True)
class AttachedAgent:
    """An agent with the catalogue of its own tools, and the providers that fill it."""

    agent: AgentSource
    own_catalogue: Catalogue
    provider_table: ProviderTable
    unregister: Callable[[], None]
    """Undoes the registration of its named scope."""
    lazy_tools: list[LazyTool]
    """Tools of its own that are not in the catalogue yet."""
    is_started: bool = False
    start_lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    last_scope: Any = None
    """Keeps the stacks of its tools, which live as long as a scope with them, from one run to the next."""


class AgentTable:
    """Starts what belongs to agents, and builds their scopes by name for calls that were made in another process."""

    def __init__(
        self,
        catalogue: Catalogue,
        build_provider_table: Callable[[Catalogue], ProviderTable],
        lifespans: Lifespans,
        named_scopes: NamedScopes[Any],
        on_change: Callable[[], None],
        init_context: InitContext,
    ) -> None:
        self._catalogue = catalogue
        self._build_provider_table = build_provider_table
        self._lifespans = lifespans
        self._named_scopes = named_scopes
        self._on_change = on_change
        self._init_context = init_context
        self._attached: dict[str, AttachedAgent] = {}
        self._replaced: list[AttachedAgent] = []
        """Agents whose place another one of the same name has taken: their providers run until the runtime closes."""

    def __iter__(self) -> Iterator[AgentSource]:
        return (each.agent for each in list(self._attached.values()))

    def listings(self) -> list[Listing]:
        """The agents' own tools."""
        return [listing for each in self._attached.values() for listing in each.own_catalogue]

    def add_unstarted(self, agents: Iterable[AgentSource]) -> None:
        """Add agents that are started when the runtime is opened."""
        for agent in agents:
            self._require_free_name(agent)
            if agent.name not in self._attached:
                self.add_unstarted(agent.agents)
                self._attach(agent)

    async def add(self, agent: AgentSource) -> None:
        """Add an agent while the runtime runs."""
        self._require_free_name(agent)
        await self.enter(agent)

    async def enter(self, agent: AgentSource) -> AttachedAgent:
        """The agent with its tools. It takes the place of another one of its name: programs may build it anew."""
        known = self._attached.get(agent.name)
        if known is not None and known.agent is agent:
            await self._start(known)  # another run may be starting it
            return known
        if known is not None and known.agent.providers:
            self._replaced.append(known)
        for sub_agent in agent.agents:
            await self.enter(sub_agent)
        attached = self._attach(agent)
        try:
            await self._start(attached)
        except BaseException:
            await self._detach(attached)
            raise
        return attached

    async def _detach(self, attached: AttachedAgent) -> None:
        """Forget an agent that could not be started, so that its next run starts it anew."""
        if self._attached.get(attached.agent.name) is attached:
            del self._attached[attached.agent.name]
        attached.unregister()
        attached.provider_table.unsubscribe()
        await attached.provider_table.stop()

    def _require_free_name(self, agent: AgentSource) -> None:
        known = self._attached.get(agent.name)
        if known is not None and known.agent is not agent:
            problem = f"The runtime has another agent {agent.name!r}."
            raise DefinitionError(problem, fix="give one of them another name: answers find an agent by its name.")

    def _attach(self, agent: AgentSource) -> AttachedAgent:
        own_catalogue = self._catalogue.new_empty()
        own_catalogue.watch(self._on_change)  # the tools of a provider may change
        for tool in agent.own_tools:
            tool.require_runner()
        own_catalogue.add(*agent.own_tools)
        provider_table = self._build_provider_table(own_catalogue)
        provider_table.add_unstarted(agent.providers)
        unregister = self._named_scopes.register(agent.name, lambda scope: agent.narrow(scope, own_catalogue))
        self._attached[agent.name] = attached = AttachedAgent(
            agent, own_catalogue, provider_table, unregister, list(agent.lazy_tools)
        )
        return attached

    async def start(self) -> None:
        """Start the providers of all agents and enter the lifespans of their tools."""
        for attached in self._attached.values():
            await self._start(attached)

    async def _start(self, attached: AttachedAgent) -> None:
        async with attached.start_lock:
            if attached.is_started:
                return
            while attached.lazy_tools:
                attached.own_catalogue.add(await self._resolve(attached.lazy_tools[0]))
                del attached.lazy_tools[0]
            await attached.provider_table.start()
            await attached.provider_table.apply_early_changes()
            for listing in attached.own_catalogue:
                await self._lifespans.enter(listing.tool)
            attached.is_started = True

    async def _resolve(self, lazy_tool: LazyTool) -> Tool[..., Any]:
        tool = await lazy_tool.resolve(self._init_context)
        tool.require_runner()
        return tool

    async def stop(self) -> None:
        """Stop the providers of all agents."""
        for attached in [*self._attached.values(), *self._replaced]:
            attached.provider_table.unsubscribe()
            await attached.provider_table.stop()
