"""Offered tools: tools that a session's client brings for that session alone (`scope.offer`)."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from surehand.catalogue.catalogue import Catalogue
from surehand.catalogue.listing import Listing
from surehand.core.call import Principal
from surehand.core.errors import DefinitionError
from surehand.core.tool import Tool
from surehand.runtime.pipeline.stacks import StackTable

if TYPE_CHECKING:
    from surehand.runtime.services import RuntimeServices

MAX_OFFERING_SESSIONS = 10_000
"""Limit on sessions with tools of their own; the tools of the one that offered longest ago are dropped."""


@dataclass(frozen=True, slots=True, eq=False)
class SessionTools:
    """The tools of one session, and their stacks."""

    catalogue: Catalogue
    stack_table: StackTable


class OfferedTools:
    """The offered tools of a runtime, by user and session."""

    def __init__(self, services: RuntimeServices) -> None:
        self._services = services
        self._tables: dict[tuple[str | None, str | None], SessionTools] = {}
        self._sessions_by_name: Counter[str] = Counter()
        """How many sessions offer a tool under a name or alias, so that other names need no lookup."""

    def has_name(self, name: str) -> bool:
        """Whether any session offers a tool under this name."""
        return self._sessions_by_name[name] > 0

    def table_for(self, principal: Principal) -> SessionTools | None:
        """The tools that the session of a principal offers."""
        return self._tables.get((principal.user, principal.session))

    def find(self, name: str, principal: Principal) -> Listing | None:
        """Find a tool that the session of a principal offers."""
        table = self.table_for(principal) if self.has_name(name) else None
        return None if table is None else table.catalogue.find(name)

    def add(self, principal: Principal, tools: tuple[Tool[..., Any], ...]) -> None:
        """Add tools to a session, in place of its own tools of the same name. Raises if the runtime has the name."""
        for tool in tools:
            taken = next((name for name in (tool.name, *tool.aliases) if name in self._services.catalogue), None)
            if taken is not None:
                raise DefinitionError(
                    f"A session cannot offer {taken!r}: the runtime has a tool of that name.",
                    fix="give it another name.",
                    where=tool.where,
                )
            tool.compile()
        key = (principal.user, principal.session)
        before = self._tables.pop(key, None)
        catalogue = Catalogue(check=self._services.validate_tool)
        catalogue.add(*(listing.tool for listing in before.catalogue) if before is not None else ())
        catalogue.add(*tools, on_conflict="replace")
        self._tables[key] = SessionTools(catalogue, self._services.stack_table_for(catalogue))
        self._count_names(before, -1)
        self._count_names(self._tables[key], 1)
        while len(self._tables) > MAX_OFFERING_SESSIONS:
            self._count_names(self._tables.pop(next(iter(self._tables))), -1)

    def _count_names(self, table: SessionTools | None, change: int) -> None:
        for listing in table.catalogue if table is not None else ():
            for name in {listing.name, listing.wire_name, *listing.tool.aliases}:
                self._sessions_by_name[name] += change
                if not self._sessions_by_name[name]:
                    del self._sessions_by_name[name]
