"""World: what lies outside of a process and outlives it. Two files, lines appended, and nobody cleans up."""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from surehand import Outcome, Pending
from surehand.store.serialization import serialize_outcome
from tests.crash.points import Points

END = " ;"
"""Of who was killed while it wrote a line over the end of a page, half of it may be left: without this, and no line."""


@dataclass
class World:
    """What a process can do to the world. Effects are the judge's own record of what has happened, and how often."""

    folder: Path = Path()
    points: Points = field(default_factory=Points)
    part: str = ""
    """Which process this is: told in every line."""

    def happen(self, call_id: str, tool: str, arguments: Any) -> None:
        """The effect of a call."""
        self.points.reach("before the effect")
        self._append("effects", {"call_id": call_id, "tool": tool, "arguments": arguments})
        self.points.reach("after the effect")

    def told(self, verb: str, outcome: Outcome, call_id: str | None = None) -> Outcome:
        """Whoever called or answered has been told this: from here on it must be so."""
        self.points.reach(f"before {verb} is told")
        line = {"call_id": call_id or outcome.meta.call_id, "verb": verb, "part": self.part, "at": time.time()}
        if isinstance(outcome, Pending):
            self._append("told", {**line, "outcome": None, "waiting_for": outcome.waiting_for})
        else:
            self._append("told", {**line, "outcome": serialize_outcome(outcome)})
        self.points.reach(f"after {verb} is told")
        return outcome

    def note(self, name: str, value: Any) -> None:
        """Anything else that the judge should know."""
        self._append(name, value)

    def has_happened(self, call_id: str) -> bool:
        """What somebody finds out who goes and looks."""
        return self.effects()[call_id] > 0

    def effects(self) -> Counter[str]:
        """How often each call has happened."""
        return Counter(line["call_id"] for line in self.lines("effects"))

    def lines(self, name: str) -> list[Any]:
        """All lines of a file. One over the end of a page may be seen before it is whole, and is not yet."""
        try:
            text = (self.folder / name).read_text()
        except FileNotFoundError:
            return []
        lines = text[: text.rfind("\n") + 1].splitlines()
        return [json.loads(line.removesuffix(END)) for line in lines if line.endswith(END)]

    def _append(self, name: str, value: Any) -> None:
        file = os.open(self.folder / name, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        os.write(file, f"\n{json.dumps(value)}{END}\n".encode())
        os.close(file)
