"""`call_log(runtime)`: records the events of a runtime for a test to inspect."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from surehand.core.events import CallEnded, CallProgress, CallStarted, Event
from surehand.core.outcome import Outcome
from surehand.runtime.scope import Scope


@dataclass(slots=True)
class CallLog:
    """Recorded events in order."""

    events: list[Event] = field(default_factory=list)
    stop: Callable[[], None] = field(default=lambda: None, repr=False)
    """Stops recording."""

    def of(self, tool: str) -> CallLog:
        """Return the events so far of the tools whose name matches a glob."""
        return CallLog([event for event in self.events if fnmatchcase(getattr(event, "tool", ""), tool)])

    def call(self, call_id: str) -> CallLog:
        """Return the events so far of one call."""
        return CallLog([event for event in self.events if getattr(event, "call_id", None) == call_id])

    @property
    def ids(self) -> list[str]:
        """The ids of the calls, in order of their start."""
        return [event.call_id for event in self.events if isinstance(event, CallStarted)]

    @property
    def tools(self) -> list[str]:
        """The names of the called tools, in the same order."""
        return [event.tool for event in self.events if isinstance(event, CallStarted)]

    @property
    def outcomes(self) -> list[Outcome]:
        """The outcomes in order; a call that waited has one for each pass."""
        return [event.outcome for event in self.events if isinstance(event, CallEnded)]

    @property
    def progress(self) -> list[CallProgress]:
        """The progress that handlers reported."""
        return [event for event in self.events if isinstance(event, CallProgress)]

    @property
    def kinds(self) -> list[str]:
        """The names of the events: `CallStarted`, `CallPending`, ..."""
        return [type(event).__name__ for event in self.events]


def call_log(runtime: Scope) -> CallLog:
    """Record every event of a runtime from now on."""
    log = CallLog()
    log.stop = runtime.listen(log.events.append)
    return log
