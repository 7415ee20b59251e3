"""RunTree: a run and the runs of the sub-agents below it, which events and the store tell of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from surehand.gateway.api.run_details import find_any_run
from surehand.gateway.gateway import Gateway


@dataclass(slots=True)
class RunTree:
    """Runs by their ids. It grows while events are read: the run of a sub-agent starts with an event of its own."""

    top: str
    parents: dict[str, str] = field(default_factory=dict)
    """The run that started each of the others."""
    agents: dict[str, str] = field(default_factory=dict)
    """The agent of each of the others."""

    def __contains__(self, run_id: object) -> bool:
        return run_id == self.top or run_id in self.parents

    def includes(self, fields: Mapping[str, Any]) -> bool:
        """Whether an event is of one of the runs, or starts a further one."""
        run_id = run_of_event(fields)
        if fields["type"] == "RunStarted" and run_id not in self and fields.get("parent_run") in self:
            self._add(fields["run_id"], fields["agent"], fields["parent_run"])
        return run_id in self

    async def add_with_ancestors(self, gateway: Gateway, run_id: str) -> None:
        """Add a run below the one at the top, and the runs between them."""
        while run_id not in self:
            run = await find_any_run(gateway, run_id)
            if run is None or run.parent_run is None:
                return
            self._add(run_id, run.agent, run.parent_run)
            run_id = run.parent_run

    def _add(self, run_id: str, agent: str, parent: str) -> None:
        self.parents[run_id] = parent
        self.agents[run_id] = agent


def run_of_event(fields: Mapping[str, Any]) -> str | None:
    """The run that an event is of: the events of calls name it as their turn."""
    run_id: str | None = fields.get("run_id") or fields.get("turn")
    return run_id
