"""Recordings: what became of calls, found again by tool and arguments."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from difflib import SequenceMatcher

from surehand.core.canonical_json import canonical_json
from surehand.core.names import nearest_names
from surehand.runtime.pipeline.invocation import Invocation
from surehand.testing.cassettes.serialization import JSON, ToJSON


@dataclass(slots=True)
class Recording:
    """One call and what became of it, as plain values."""

    tool: str
    arguments: JSON
    progress: list[JSON] = field(default_factory=list)
    waits: list[JSON] = field(default_factory=list)
    """The waits that the caller was told of, each with the answer if there was one."""
    outcome: JSON = None

    @classmethod
    def from_invocation(cls, invocation: Invocation, to_json: ToJSON) -> Recording:
        """A call of which nothing more is known yet."""
        return cls(invocation.listing.name, dict(sorted(to_json(dict(invocation.arguments)).items())))

    @property
    def is_replayable(self) -> bool:
        """Whether there is anything to replay; a call that was cancelled has nothing."""
        return bool(self.outcome or self.waits)

    def as_dict(self) -> dict[str, JSON]:
        """As it is kept; what is empty is left out."""
        rest = {"progress": self.progress, "waits": self.waits, "outcome": self.outcome}
        kept = {name: value for name, value in rest.items() if value}
        return {"tool": self.tool, "arguments": self.arguments, **kept}

    def __str__(self) -> str:
        return f"{self.tool}({canonical_json(self.arguments)})"


class RecordingLibrary:
    """Recordings in order; each is given once."""

    def __init__(self, recordings: Iterable[Recording]) -> None:
        self._all = list(recordings)
        self.unused = list(self._all)
        """Those that no call has asked for yet."""

    def take(self, wanted: Recording) -> Recording | None:
        """The next recording of an equal call."""
        found = next((each for each in self.unused if str(each) == str(wanted)), None)
        if found is not None:
            self.unused = [each for each in self.unused if each is not found]
        return found

    def explain_miss(self, wanted: Recording) -> str:
        """What there is in place of a call that is not there."""
        if times := sum(str(each) == str(wanted) for each in self._all):
            return f"It was recorded {'once' if times == 1 else f'{times} times'}, and is called more often now."
        if near := self._nearest_calls(wanted):
            return f"Nearest recorded: {', '.join(near)}."
        others = list(dict.fromkeys(each.tool for each in self._all))
        meant = nearest_names(wanted.tool, others, 1) or others
        return f"No call of {wanted.tool} is, only of {', '.join(meant)}." if meant else "Nothing is."

    def _nearest_calls(self, wanted: Recording, count: int = 3) -> list[str]:
        same_tool = dict.fromkeys(str(each) for each in self._all if each.tool == wanted.tool)
        return sorted(same_tool, key=lambda one: -SequenceMatcher(None, one, str(wanted)).ratio())[:count]
