"""The log of a run: files of appended lines that outlive every process, and that the invariants are checked against."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from surehand import Outcome, Pending
from surehand.store.serialization import serialize_outcome
from tests.crash.kill_points import Points
from tests.crash.run_log_file import append_line, read_lines


@dataclass
class RunLog:
    """Appends effects, replies and notes of a process to files. Effects show what happened, and how often."""

    folder: Path = Path()
    points: Points = field(default_factory=Points)
    part: str = ""
    """The part that this process runs: written into every reply."""

    def record_effect(self, call_id: str, tool: str, arguments: Any) -> None:
        """Record the effect of a call."""
        self.points.reach("before the effect")
        self._append("effects", {"call_id": call_id, "tool": tool, "arguments": arguments})
        self.points.reach("after the effect")

    def record_reply(self, verb: str, outcome: Outcome, call_id: str | None = None) -> Outcome:
        """Record that the caller got this reply: from here on, the store must agree with it."""
        self.points.reach(f"before the reply to {verb}")
        line = {"call_id": call_id or outcome.meta.call_id, "verb": verb, "part": self.part, "at": time.time()}
        if isinstance(outcome, Pending):
            self._append("replies", {**line, "outcome": None, "waiting_for": outcome.waiting_for})
        else:
            self._append("replies", {**line, "outcome": serialize_outcome(outcome)})
        self.points.reach(f"after the reply to {verb}")
        return outcome

    def note(self, name: str, value: Any) -> None:
        """Record any other fact for the checks."""
        self._append(name, value)

    def has_happened(self, call_id: str) -> bool:
        """Whether the call had an effect, as a person would find out."""
        return self.effects()[call_id] > 0

    def effects(self) -> Counter[str]:
        """How often each call had its effect."""
        return Counter(line["call_id"] for line in self.lines("effects"))

    def lines(self, name: str) -> list[Any]:
        """All whole lines of a file."""
        return read_lines(self.folder / name)

    def _append(self, name: str, value: Any) -> None:
        append_line(self.folder / name, value)
