"""Hooks of a run: functions of `(data, ctx)` that the loop calls at the moments that their names say.

Tools bring them in their facet `hooks`, and an agent has its own. A hook that raises is logged and changes nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from inspect import isawaitable
from typing import Any, TypeAlias

from surehand.agent.models.base import ModelCall, Usage
from surehand.core.facets import HOOK_NAMES

log = logging.getLogger("surehand")
Hook: TypeAlias = Callable[[Any, "RunContext"], Any]


@dataclass(frozen=True, slots=True)
class RunContext:
    """What a hook knows about the run."""

    run_id: str
    agent: str
    user: str | None = None
    session: str | None = None
    state: dict[str, Any] = field(default_factory=dict)
    """Values that the hooks of this run share, as long as one process drives it."""


@dataclass(frozen=True, slots=True)
class Tick:
    """One request to the model: its number from 1, and after it, the answer."""

    tick: int
    text: str = ""
    calls: tuple[ModelCall, ...] = ()
    usage: Usage = field(default_factory=Usage)


class HookTable:
    """The hooks of an agent. They can be added and removed while it runs."""

    def __init__(self, hooks: Mapping[str, Hook] | None = None) -> None:
        self._hooks: list[tuple[str, Hook]] = []
        for name, hook in (hooks or {}).items():
            self.add(name, hook)

    def add(self, name: str, hook: Hook) -> Callable[[], None]:
        """Add a hook; returns the function that removes it."""
        if name not in HOOK_NAMES:
            raise ValueError(f"There is no hook {name!r}. Use one of: {', '.join(HOOK_NAMES)}.")
        if not callable(hook):
            raise TypeError(f"The hook {name} must be a function of (data, ctx), not {type(hook).__name__}.")
        entry = (name, hook)
        self._hooks.append(entry)

        def remove() -> None:
            self._hooks = [each for each in self._hooks if each is not entry]

        return remove

    def __len__(self) -> int:
        return len(self._hooks)

    def find(self, name: str) -> list[Hook]:
        """The hooks of a moment, in the order in which they were added."""
        return [hook for each, hook in self._hooks if each == name]


class RunHooks:
    """Calls the hooks of an agent and of its tools, for one run."""

    def __init__(self, context: RunContext, table: HookTable) -> None:
        self.context = context
        self._table = table
        self.find_tool_hooks: Callable[[], Iterable[Mapping[str, Hook]]] = tuple
        """Finds the hooks of the tools that the agent has now; none before its scope is open."""
        self._tool_hooks: list[Mapping[str, Hook]] | None = None
        """Those of the tools that the agent has at this tick; None before the first one."""

    async def call(self, name: str, data: Any) -> list[Any]:
        """Call the hooks of a moment one after another; returns what they returned, without None."""
        if self._tool_hooks is None or name in ("on_start", "on_tick_start"):
            self._tool_hooks = list(self.find_tool_hooks())
        if not self._tool_hooks and not self._table:
            return []
        hooks = [*self._table.find(name), *(each[name] for each in self._tool_hooks if name in each)]
        returned = []
        for hook in hooks:
            try:
                value = hook(data, self.context)
                value = await value if isawaitable(value) else value
            except Exception:
                log.exception("The hook %s raised in run %s", name, self.context.run_id)
                continue
            if value is not None:
                returned.append(value)
        return returned
