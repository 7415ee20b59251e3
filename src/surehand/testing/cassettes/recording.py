"""Recorded calls with their outcomes, found again by tool and arguments."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from difflib import SequenceMatcher

from surehand.core.canonical_json import canonical_json
from surehand.core.names import nearest_names
from surehand.runtime.invocation.invocation import Invocation
from surehand.testing.cassettes.serialization import JSON, ToJSON


@dataclass(slots=True)
class Recording:
    """One recorded call as JSON values. The field names are the keys in the file."""

    tool: str
    arguments: JSON
    progress: list[JSON] = field(default_factory=list)
    waits: list[JSON] = field(default_factory=list)
    """The pending outcomes that the caller received, each with the answer if there was one."""
    outcome: JSON = None

    @classmethod
    def from_invocation(cls, invocation: Invocation, to_json: ToJSON) -> Recording:
        """Start a recording with the tool and arguments of a call."""
        return cls(invocation.listing.name, dict(sorted(to_json(dict(invocation.arguments)).items())))

    @property
    def is_replayable(self) -> bool:
        """Whether there is an outcome to replay; a cancelled call has none."""
        return bool(self.outcome or self.waits)

    def as_dict(self) -> dict[str, JSON]:
        """Return the recording as it is written to the file, without empty fields."""
        rest = {"progress": self.progress, "waits": self.waits, "outcome": self.outcome}
        non_empty = {name: value for name, value in rest.items() if value}
        return {"tool": self.tool, "arguments": self.arguments, **non_empty}

    def __str__(self) -> str:
        return f"{self.tool}({canonical_json(self.arguments)})"


class RecordingLibrary:
    """Recordings in order; each is replayed once."""

    def __init__(self, recordings: Iterable[Recording]) -> None:
        self._all = list(recordings)
        self.unused = list(self._all)
        """Recordings that no call has replayed yet."""

    def take(self, wanted: Recording) -> Recording | None:
        """Take the next recording of an equal call."""
        found = next((recording for recording in self.unused if str(recording) == str(wanted)), None)
        if found is not None:
            self.unused = [recording for recording in self.unused if recording is not found]
        return found

    def explain_miss(self, wanted: Recording) -> str:
        """Explain why a call has no recording, with the nearest recorded calls."""
        count = sum(str(recording) == str(wanted) for recording in self._all)
        if count:
            times = "once" if count == 1 else f"{count} times"
            return f"It was recorded {times}, and is called more often now."
        near = self._nearest_calls(wanted)
        if near:
            return f"Nearest recorded: {', '.join(near)}."
        recorded_tools = list(dict.fromkeys(recording.tool for recording in self._all))
        suggestions = nearest_names(wanted.tool, recorded_tools, 1) or recorded_tools
        if not suggestions:
            return "The cassette is empty."
        return f"No call of {wanted.tool} is recorded, only of {', '.join(suggestions)}."

    def _nearest_calls(self, wanted: Recording, count: int = 3) -> list[str]:
        same_tool = dict.fromkeys(str(recording) for recording in self._all if recording.tool == wanted.tool)
        return sorted(same_tool, key=lambda call: -SequenceMatcher(None, call, str(wanted)).ratio())[:count]
