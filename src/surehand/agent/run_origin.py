"""RunOrigin: which run's call or which space started a run, and the agents from the top down to it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from surehand.store.serialization import JSON

if TYPE_CHECKING:
    from surehand.store.tables.runs import RunRow


@dataclass(frozen=True, slots=True)
class RunOrigin:
    """Where a run comes from; it is stored as the run's context."""

    parent_run: str | None
    """The run whose call started this one; None at the top."""
    path: tuple[str, ...]
    """The names of the agents from the top, this run's last."""
    space: str | None = None
    """The space whose message started the run."""

    @classmethod
    def from_row(cls, row: RunRow) -> Self:
        """Read the origin of a stored run."""
        context = row.context or {}
        return cls(context.get("parent_run"), tuple(context.get("path") or (row.agent,)), context.get("space"))

    def to_json(self) -> JSON:
        """Write it for the store; no path for a run at the top."""
        space = {} if self.space is None else {"space": self.space}
        if self.parent_run is None and len(self.path) < 2:
            return space
        return {"parent_run": self.parent_run, "path": list(self.path), **space}
