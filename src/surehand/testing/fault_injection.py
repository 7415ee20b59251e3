"""`faulty(source, faults)`: the same tools, with faults in place of their handlers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import partial
from typing import Any, TypeAlias, cast

from surehand.catalogue.wrap import WrappedProvider
from surehand.core.context import Context
from surehand.core.define import InitContext, LazyTool
from surehand.core.errors import DefinitionError
from surehand.core.handler import StartHandler
from surehand.core.names import nearest_names, qualified_name
from surehand.core.provider import Provider
from surehand.core.tool import Tool
from surehand.runtime.invocation.invocation import Invocation
from surehand.runtime.sources import Source, flatten_sources
from surehand.testing.faults import Fault

FaultsByTool: TypeAlias = Mapping[str, Fault]
"""Faults by glob of the full tool name; the first match counts."""
FaultySource: TypeAlias = Tool[..., Any] | Provider | LazyTool


def faulty(source: Any, faults: FaultsByTool) -> list[FaultySource]:
    """Return the same tools with faults.

    For example `Runtime(faulty([pay, git], {"git__*": delay(1), "pay": error("unavailable")}))`.

    A fault replaces the handler, so that everything around a handler has to deal with it: time limits, retries, the
    breaker, queues and the cache.
    """
    sources = [_require_tools(each) for each in flatten_sources([source])]
    tool_names = [each.name for each in sources if not isinstance(each, Provider)]
    if len(tool_names) == len(sources):  # the tools of a provider are not known yet
        _check_globs_match(tool_names, faults)
    return [_inject_into_source(each, faults) for each in sources]


def _require_tools(source: Source) -> FaultySource:
    if isinstance(source, (Tool, Provider, LazyTool)):
        return source
    raise DefinitionError(f"{source.name} is an agent.", fix="inject faults into its tools: tools=faulty(...).")


def _inject_into_source(source: FaultySource, faults: FaultsByTool) -> FaultySource:
    match source:
        case Provider():
            return WrappedProvider(source, partial(_inject_into_tools, source, faults), lambda name: name)
        case LazyTool():
            return LazyTool(source.name, partial(_resolve_and_inject, source, faults))
        case _:
            handler = source.handler
            return source if handler is None else _inject_into_tool(source, source.name, faults, handler.compile)


async def _resolve_and_inject(source: LazyTool, faults: FaultsByTool, init: InitContext) -> FaultySource:
    return _inject_into_source(await source.resolve(init), faults)


def _inject_into_tools(
    provider: Provider, faults: FaultsByTool, tools: Sequence[Tool[..., Any]]
) -> list[Tool[..., Any]]:
    return [
        _inject_into_tool(
            tool, qualified_name(provider.namespace, tool.name), faults, partial(_compile_original, provider, tool)
        )
        for tool in tools
    ]


def _compile_original(provider: Provider, tool: Tool[..., Any]) -> StartHandler:
    if tool.handler is not None:
        return tool.handler.compile()
    name = tool.name
    return lambda running: provider.invoke(replace(cast(Invocation, running).call, tool=name), Context(running))


def _inject_into_tool(
    tool: Tool[..., Any], name: str, faults: FaultsByTool, compile_original: Callable[[], StartHandler]
) -> Tool[..., Any]:
    fault = next((fault for glob, fault in faults.items() if fnmatchcase(name, glob)), None)
    return tool if fault is None else tool.evolve(handler=FaultyHandler(fault, compile_original))


class FaultyHandler:
    """A handler that applies a fault."""

    can_suspend = True  # a fault may wait, and so needs a deadline even if the original handler does not
    may_read_current_call = True

    def __init__(self, fault: Fault, compile_original: Callable[[], StartHandler]) -> None:
        self._fault = fault
        self._compile_original = compile_original

    def compile(self) -> StartHandler:
        """Compile the original handler, and return the function that applies the fault."""
        fault = self._fault
        work = self._compile_original()
        return lambda running: fault(running, work)


def _check_globs_match(names: list[str], faults: FaultsByTool) -> None:
    """Reject a glob without a match: a test would pass because its fault never happens."""
    for glob in faults:
        if not any(fnmatchcase(name, glob) for name in names):
            near = nearest_names(glob, names, 1)
            fix = f"did you mean {near[0]!r}?" if near else f"use {', '.join(names)}."
            raise DefinitionError(f"No tool matches {glob!r}, so its fault would never happen.", fix=fix)
