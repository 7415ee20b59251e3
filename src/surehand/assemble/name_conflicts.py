"""Tools of one name in a configuration: an error that names the line, unless the file says what to do (`on_conflict`).

Providers are not looked at: their tools have a namespace, and are known only once they have started.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from surehand.assemble.tool_sources import SourceItem
from surehand.config.errors import ConfigError
from surehand.core.define import LazyTool
from surehand.core.provider import OnConflict, Provider
from surehand.core.tool import Tool

_CONFLICT_FIX = "write on_conflict: replace or on_conflict: rename beside it, as in {example}, or rename one of them."


@dataclass(frozen=True, slots=True)
class ToolGroup:
    """The tools of one source, family or definition in the file."""

    items: Sequence[SourceItem]
    label: str
    """Where the tools come from, for messages."""
    error: Callable[[str, str], ConfigError]
    """Makes an error at the position of the group, from a problem and its fix."""
    example: str
    """How `on_conflict` is written beside it."""
    on_conflict: OnConflict = "error"


def resolve_name_conflicts(groups: Iterable[ToolGroup]) -> list[SourceItem]:
    """The tools of all groups under unique names; an object that several groups have is taken once."""
    resolver = _ConflictResolver()
    for group in groups:
        for item in group.items:
            resolver.add(item, group)
    return list(resolver.items.values())


class _ConflictResolver:
    """Adds tools one by one, and gives each a name of its own."""

    def __init__(self) -> None:
        self.items: dict[int, SourceItem] = {}
        """The tools and providers to use, by the identity of the object that was given."""
        self._owners: dict[str, tuple[int, ToolGroup]] = {}
        """The tool that has a name, and its group."""

    def add(self, item: SourceItem, group: ToolGroup) -> None:
        if id(item) in self.items:
            return
        if isinstance(item, Provider):
            if group.on_conflict != "error":
                item.on_conflict = group.on_conflict
            self.items[id(item)] = item
            return
        if not isinstance(item, (Tool, LazyTool)):  # an agent: the runtime checks its name
            self.items[id(item)] = item
            return
        name = item.name
        if name in self._owners:
            name = self._resolve(name, group)
        self._owners[name] = (id(item), group)
        self.items[id(item)] = item if name == item.name else _with_name(item, name)

    def _resolve(self, name: str, group: ToolGroup) -> str:
        """The name of a tool whose own name is taken."""
        key, owner = self._owners[name]
        if group.on_conflict == "replace":
            del self.items[key]
            return name
        if group.on_conflict == "error":
            problem = f"There is a tool {name!r} already, from {owner.label}."
            raise group.error(problem, _CONFLICT_FIX.format(example=group.example))
        number = 2
        while f"{name}_{number}" in self._owners:
            number += 1
        return f"{name}_{number}"


def _with_name(item: Tool[..., Any] | LazyTool, name: str) -> SourceItem:
    return item.evolve(name=name) if isinstance(item, Tool) else replace(item, name=name)
