"""RunFamily: a run, and the runs that its calls started, as far as their events were seen."""

from __future__ import annotations

from surehand.core.events import CatalogueChanged, Event, Missed, RunStarted


class RunFamily:
    """Tells the events of a run, and of the runs below it, from those of others. It must see every event."""

    def __init__(self, run_id: str | None = None) -> None:
        self.run_ids: set[str | None] = set() if run_id is None else {run_id}

    def includes(self, event: Event) -> bool:
        """Whether an event belongs to the run or to one below it."""
        if isinstance(event, (CatalogueChanged, Missed)):
            return False
        if isinstance(event, RunStarted) and event.parent_run in self.run_ids:
            self.run_ids.add(event.run_id)
        return event.run_id in self.run_ids
