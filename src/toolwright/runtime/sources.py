"""Sources: everything that tools can be given as."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from types import ModuleType
from typing import Any

from toolwright.core.define import LazyTool, tool
from toolwright.core.errors import DefinitionError
from toolwright.core.provider import Provider
from toolwright.core.tool import Tool


def flatten(sources: Iterable[Any]) -> list[Tool[..., Any] | Provider | LazyTool]:
    """Tools, providers and lazy tools out of lists, classes, instances, modules and plain functions."""
    found: list[Tool[..., Any] | Provider | LazyTool] = []
    for source in sources:
        found.extend(_of(source))
    return found


def _of(source: Any) -> list[Any]:
    if isinstance(source, (Tool, Provider, LazyTool)):
        return [source]
    if isinstance(source, (list, tuple, set, frozenset)):
        return flatten(source)
    if isinstance(source, ModuleType):
        return [value for value in vars(source).values() if isinstance(value, (Tool, LazyTool, Provider))]
    if inspect.isroutine(source):
        return [tool(source)]
    return _methods(source)


def _methods(source: Any) -> list[Any]:
    """The tools of an instance, or of a class that can be made without arguments."""
    cls = source if isinstance(source, type) else type(source)
    names = [name for name in dir(cls) if isinstance(inspect.getattr_static(cls, name, None), (Tool, staticmethod))]
    if not any(isinstance(getattr(cls, name), Tool) for name in names):
        raise DefinitionError(
            f"{source!r} holds no tools.",
            fix="give a tool, a list of tools, a provider, or a class or module with tools in it.",
        )
    instance = source() if isinstance(source, type) else source
    found = [getattr(instance, name) for name in names]
    return [item for item in found if isinstance(item, Tool)]
