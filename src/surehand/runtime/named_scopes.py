"""Named scopes: scopes of agents, which have tools of their own and are rebuilt by the agent's name.

A call that waits stores the name of its scope. When it is answered, a runtime that has the agent builds the scope again
and finds the tool there; a runtime without it leaves the call for another one.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

if TYPE_CHECKING:
    from surehand.store.tables.ledger import LedgerRow

SCOPE_KEY = "scope"
"""The key of a scope's name in the stored context of a call."""
OWN_TOOL_KEY = "own_tool"
"""The key that says, in the stored context of a call, that its tool belongs to the scope alone."""


class NamedScope(Protocol):
    """A scope that other processes can build again by its name."""

    scope_name: str | None
    base_scope: Any
    """The scope that was narrowed to the agent's tools: the runs of its sub-agents are made there."""


S = TypeVar("S", bound=NamedScope)


class NamedScopes(Generic[S]):
    """The scopes that a runtime can build, by name."""

    def __init__(self) -> None:
        self._builders: dict[str, Callable[[S], S]] = {}

    def register(self, name: str, build: Callable[[S], S]) -> Callable[[], None]:
        """Build scopes of this name from now on; returns a function that undoes this.

        Args:
            build: narrows a scope, which has the principal of a call, to the agent's tools and values.
        """
        self._builders[name] = build

        def unregister() -> None:
            if self._builders.get(name) is build:
                del self._builders[name]

        return unregister

    def __contains__(self, name: object) -> bool:
        return name in self._builders

    def build(self, name: str, scope: S) -> S:
        """The scope of this name for the principal of the given scope; raises `KeyError` for an unknown name."""
        return name_scope(self._builders[name](scope), name, scope)

    def rebuild(self, call: LedgerRow, scope: S) -> S:
        """The scope that a stored call was made in, if it has a name that is known here; else the given one."""
        name = json.loads(call.context).get(SCOPE_KEY)
        return self.build(name, scope) if name in self._builders else scope

    def missing_agent(self, call: LedgerRow) -> str | None:
        """The agent whose own tool a stored call is for, if this runtime does not have the agent."""
        context = json.loads(call.context)
        name = context.get(SCOPE_KEY)
        return name if context.get(OWN_TOOL_KEY) and name not in self._builders else None


def name_scope(built: S, name: str, scope: S) -> S:
    """Name a scope that was built from another one."""
    built.scope_name = name
    built.base_scope = None if built is scope else scope
    return built
