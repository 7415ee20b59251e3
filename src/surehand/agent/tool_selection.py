"""Which tools an agent has: tools and providers of its own, and names, globs or toolsets of the runtime."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from surehand.core.define import LazyTool
from surehand.core.errors import DefinitionError
from surehand.core.provider import Provider
from surehand.core.tool import Tool
from surehand.runtime.sources import AgentSource, flatten_sources

if TYPE_CHECKING:
    from surehand.catalogue.catalogue import Catalogue
    from surehand.runtime.pending.pending_call import Approver
    from surehand.runtime.scope import Scope

_MATCHES_NOTHING = ""


class ToolSelection:
    """The tools of an agent; what is not among them cannot be called by it."""

    def __init__(
        self,
        agent: str,
        tools: Sequence[Any] | None,
        approver: Approver | None = None,
        agents: Sequence[AgentSource] = (),
    ) -> None:
        if isinstance(tools, str):
            raise DefinitionError(f"tools={tools!r} is a text.", fix=f"give a list: tools=[{tools!r}].")
        self._agent = agent
        self._approver = approver
        given = list(tools or ())
        self.has_all = tools is None
        self.texts = tuple(each for each in given if isinstance(each, str))
        sources = flatten_sources(each for each in given if not isinstance(each, str))
        self.agents = (*agents, *(each for each in sources if isinstance(each, AgentSource)))
        """The agents that the agent can call."""
        tools_of_agents = {each.name: each.tool for each in self.agents}
        if len(tools_of_agents) < len(self.agents):
            names = ", ".join(each.name for each in self.agents)
            raise DefinitionError(f"Two agents have the same name: {names}.", fix="rename one of them.")
        self.own_tools = (*(each for each in sources if isinstance(each, Tool)), *tools_of_agents.values())
        self.lazy_tools = tuple(each for each in sources if isinstance(each, LazyTool))
        self.providers = tuple(each for each in sources if isinstance(each, Provider))
        self._patterns: WeakKeyDictionary[Catalogue, tuple[str, ...]] = WeakKeyDictionary()
        """The patterns of the toolset as each runtime has it."""

    @property
    def has_runtime_tools(self) -> bool:
        """Whether the agent may have tools of the runtime it runs on."""
        return self.has_all or bool(self.texts)

    def narrow(self, scope: Scope, own_catalogue: Catalogue | tuple[()]) -> Scope:
        """A scope in which only the agent's tools can be called."""
        has_own_tools = bool(self.own_tools or self.lazy_tools or self.providers)
        if not has_own_tools and self.has_all and self._approver is None:
            return scope
        if not has_own_tools:
            own_catalogue = ()  # an empty catalogue would only cost time in every call
        if self.has_all:
            return scope.scope(tools=own_catalogue, approver=self._approver)
        return scope.scope(tools=own_catalogue, toolset=self._define_toolset(scope.catalogue), approver=self._approver)

    def _define_toolset(self, catalogue: Catalogue) -> str:
        """Limit the runtime's tools to those of the agent; returns the name of the toolset.

        The name tells the patterns, so another agent of the same name has a toolset of its own, and so has a run that
        began with other patterns.
        """
        patterns = tuple(name for text in self.texts for name in _expand(catalogue, text)) or (_MATCHES_NOTHING,)
        toolset = f"agent {self._agent} {sha256(repr(patterns).encode()).hexdigest()[:16]}"
        # Defining a toolset rebuilds the pipelines of the runtime: do it only if it changes.
        if self._patterns.get(catalogue) != patterns:
            catalogue.toolset(toolset, *patterns)
            self._patterns[catalogue] = patterns
        return toolset

    def hooks(self, scope: Scope) -> list[Mapping[str, Any]]:
        """The hooks of the tools that the agent has."""
        listings = [*(scope.own_catalogue or ()), *scope.catalogue]
        return [each.tool.lifecycle.hooks for each in listings if each.tool.lifecycle.hooks and scope.may_use(each)]


def _expand(catalogue: Catalogue, text: str) -> list[str]:
    """The patterns that a text stands for: the tools of a toolset of that name, else itself."""
    try:
        listings = catalogue.toolset(text)
    except KeyError:
        return [text]
    return [*(listing.name for listing in listings), text]
