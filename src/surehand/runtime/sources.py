"""Sources: turns what is given to `Runtime(...)` into tools and providers."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Sequence
from types import MethodType, ModuleType
from typing import Any, Protocol, TypeAlias, cast, runtime_checkable

from surehand.catalogue.catalogue import Catalogue
from surehand.catalogue.wrap import FilteredTools
from surehand.core.define import BuildServerProviders, LazyTool, ServerTool, tool
from surehand.core.errors import DefinitionError
from surehand.core.provider import Provider
from surehand.core.tool import Tool


@runtime_checkable
class AgentSource(Protocol):
    """An agent: a source of tools that only the scopes of its own runs have."""

    @property
    def name(self) -> str:
        """The name by which its scope is built again, in any process."""
        ...

    @property
    def own_tools(self) -> Sequence[Tool[..., Any]]:
        """The tools that are its own."""
        ...

    @property
    def lazy_tools(self) -> Sequence[LazyTool]:
        """Tools of its own whose factories the runtime calls when it starts the agent."""
        ...

    @property
    def providers(self) -> Sequence[Provider]:
        """The providers that are its own; the runtime starts and stops them."""
        ...

    @property
    def tool(self) -> Tool[..., Any]:
        """The tool `agent__name`, with which others call the agent."""
        ...

    @property
    def agents(self) -> Sequence[AgentSource]:
        """The agents that it calls."""
        ...

    def narrow(self, scope: Any, own_catalogue: Catalogue) -> Any:
        """A scope with the agent's tools alone, for the principal of the given scope."""
        ...


Source: TypeAlias = Tool[..., Any] | Provider | LazyTool | AgentSource


def flatten_sources(sources: Iterable[Any]) -> list[Source]:
    """Collect tools, providers, lazy tools and agents from lists, classes, instances, modules and plain functions."""
    item: list[Source] = []
    for source in sources:
        item.extend(_expand_source(source))
    return item


def split_server_tools(tools: Iterable[Tool[..., Any]]) -> tuple[list[Tool[..., Any]], list[Provider]]:
    """The tools that have a handler, and providers for those that the MCP server of their `mcp_config` runs."""
    others: list[Tool[..., Any]] = []
    tools_by_builder: dict[BuildServerProviders, list[ServerTool]] = {}
    for each in tools:
        if not isinstance(each, ServerTool):
            others.append(each)
        elif each.build_providers is not None:
            tools_by_builder.setdefault(each.build_providers, []).append(each)
        else:
            problem = f"{each.name} has an `mcp_config`, but was defined by a `tool` that knows no MCP servers."
            raise DefinitionError(problem, fix="define it with surehand.tool.", where=each.where)
    providers = [provider for build, group in tools_by_builder.items() for provider in build(group)]
    return others, providers


def left_out_tools(sources: Iterable[Any]) -> dict[str, str]:
    """Why tools were left out of lists among the sources, by name."""
    reasons: dict[str, str] = {}
    for source in sources:
        if isinstance(source, FilteredTools):
            reasons |= source.left_out
        elif isinstance(source, (list, tuple)):
            reasons |= left_out_tools(source)
    return reasons


def _expand_source(source: Any) -> list[Any]:
    """The tools and providers of one source."""
    if isinstance(source, (Tool, Provider, LazyTool)):
        return [source]
    if isinstance(source, (list, tuple, set, frozenset)):
        return flatten_sources(source)
    if isinstance(source, ModuleType):
        return list({id(item): item for item in flatten_sources(_module_sources(source))}.values())
    if inspect.isroutine(source):
        return [tool(_reject_factory(source))]
    if not isinstance(source, type) and isinstance(source, AgentSource):
        return [source]
    return _tool_methods(source)


def _reject_factory(function: Any) -> Any:
    """Raise for a factory of this package that was not called: it would become a tool that builds tools."""
    if str(getattr(function, "__module__", "")).startswith("surehand."):
        name = function.__name__
        raise DefinitionError(f"{name} is a factory of tools, not a tool.", fix=f"call it: Runtime({name}(...)).")
    return function


def _module_sources(module: ModuleType) -> list[Any]:
    """The tools and providers in the public names of a module, alone or in lists."""
    named = [value for name, value in vars(module).items() if not name.startswith("_")]
    return [value for value in named if _is_source(value)]


def _is_source(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return bool(value) and all(map(_is_source, value))
    return isinstance(value, (Tool, LazyTool, Provider)) or (
        not isinstance(value, type) and isinstance(value, AgentSource)
    )


def _tool_methods(source: Any) -> list[Any]:
    """The tool methods of an instance, or of a class that can be instantiated without arguments."""
    cls = source if isinstance(source, type) else type(source)
    kinds = (Tool, staticmethod, classmethod)
    names = [name for name in dir(cls) if isinstance(inspect.getattr_static(cls, name, None), kinds)]
    if not any(_bound_tool(getattr(cls, name)) for name in names):
        raise DefinitionError(
            f"{source!r} holds no tools.",
            fix="pass a tool, a list of tools, a provider, or a class or module with tools in it.",
        )
    instance = source() if isinstance(source, type) else source
    return [item for name in names if (item := _bound_tool(getattr(instance, name)))]


def _bound_tool(member: Any) -> Tool[..., Any] | None:
    """The tool of a member. Since Python 3.13 `classmethod` no longer binds a wrapped tool, so it is bound here."""
    if isinstance(member, MethodType) and isinstance(member.__func__, Tool):
        return cast(Tool[..., Any], member.__func__.__get__(member.__self__, type(member.__self__)))
    return member if isinstance(member, Tool) else None
