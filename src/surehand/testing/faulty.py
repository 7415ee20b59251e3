"""Faulty sources: the same tools, with faults where their work is done."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import partial
from typing import Any, TypeAlias, cast

from surehand.catalogue.wrap import Wrapped
from surehand.core.context import Context
from surehand.core.define import LazyTool
from surehand.core.errors import DefinitionError
from surehand.core.handler import Start
from surehand.core.names import nearest, qualified
from surehand.core.provider import Provider
from surehand.core.tool import Tool
from surehand.runtime.invocation import Invocation
from surehand.runtime.sources import flatten
from surehand.testing.faults import Fault

Faults: TypeAlias = Mapping[str, Fault]
"""Faults by the glob of a tool's full name; the first that matches counts."""
Source: TypeAlias = Tool[..., Any] | Provider | LazyTool


def faulty(source: Any, faults: Faults) -> list[Source]:
    """The same tools with faults: `Runtime(faulty([pay, git], {"git__*": delay(1), "pay": error("unavailable")}))`.

    A fault takes the place of the handler and not of a middleware, so that everything around a handler meets it:
    time limits, retries, the breaker, queues and the cache.
    """
    found = flatten([source])
    if not any(isinstance(each, Provider) for each in found):
        _check([each.name for each in found if not isinstance(each, Provider)], faults)
    return [_faulty(each, faults) for each in found]


def _faulty(source: Source, faults: Faults) -> Source:
    match source:
        case Provider():
            return Wrapped(source, partial(_of_provider, source, faults), lambda name: name)
        case LazyTool():
            return LazyTool(source.name, partial(_when_made, source, faults))
        case _:
            handler = source.handler
            return source if handler is None else _with_fault(source, source.name, faults, handler.compile)


async def _when_made(source: LazyTool, faults: Faults) -> Source:
    return _faulty(await source.resolve(), faults)


def _of_provider(provider: Provider, faults: Faults, tools: Sequence[Tool[..., Any]]) -> list[Tool[..., Any]]:
    return [
        _with_fault(tool, qualified(provider.namespace, tool.name), faults, partial(_work_of, provider, tool))
        for tool in tools
    ]


def _work_of(provider: Provider, tool: Tool[..., Any]) -> Start:
    if tool.handler is not None:
        return tool.handler.compile()
    name = tool.name
    return lambda running: provider.invoke(replace(cast(Invocation, running).call, tool=name), Context(running))


def _with_fault(tool: Tool[..., Any], name: str, faults: Faults, work: Callable[[], Start]) -> Tool[..., Any]:
    fault = next((fault for glob, fault in faults.items() if fnmatchcase(name, glob)), None)
    return tool if fault is None else tool.evolve(handler=FaultyHandler(fault, work))


class FaultyHandler:
    """A handler that a fault stands in for."""

    suspends = True  # whatever the real one does: a fault may wait, and so needs a deadline

    def __init__(self, fault: Fault, work: Callable[[], Start]) -> None:
        self._fault, self._work = fault, work

    def compile(self) -> Start:
        """Make the real handler ready too."""
        fault, work = self._fault, self._work()
        return lambda running: fault(running, work)


def _check(names: list[str], faults: Faults) -> None:
    """A fault that hits nothing would make a test pass for the wrong reason."""
    for glob in faults:
        if not any(fnmatchcase(name, glob) for name in names):
            fix = f"did you mean {near[0]!r}?" if (near := nearest(glob, names, 1)) else f"use {', '.join(names)}."
            raise DefinitionError(f"No tool is called {glob!r}, so its fault would never happen.", fix=fix)
