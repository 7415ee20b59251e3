"""Recordings: what became of calls, found again by tool and arguments."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from difflib import SequenceMatcher

from surehand.core.canonical import canonical
from surehand.core.names import nearest
from surehand.runtime.invocation import Invocation
from surehand.testing.notation import JSON, Plain


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
    def of(cls, invocation: Invocation, plain: Plain) -> Recording:
        """A call of which nothing more is known yet."""
        return cls(invocation.listing.name, dict(sorted(plain(dict(invocation.arguments)).items())))

    @property
    def tells(self) -> bool:
        """Whether there is anything to replay; a call that was cancelled has nothing."""
        return bool(self.outcome or self.waits)

    def written(self) -> dict[str, JSON]:
        """As it is kept; what is empty is left out."""
        rest = {"progress": self.progress, "waits": self.waits, "outcome": self.outcome}
        kept = {name: value for name, value in rest.items() if value}
        return {"tool": self.tool, "arguments": self.arguments, **kept}

    def __str__(self) -> str:
        return f"{self.tool}({canonical(self.arguments)})"


class Shelf:
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

    def why_not(self, wanted: Recording) -> str:
        """What there is in place of a call that is not there."""
        if times := sum(str(each) == str(wanted) for each in self._all):
            return f"It was recorded {'once' if times == 1 else f'{times} times'}, and is called more often now."
        if near := self._nearest(wanted):
            return f"Nearest recorded: {', '.join(near)}."
        others = list(dict.fromkeys(each.tool for each in self._all))
        meant = nearest(wanted.tool, others, 1) or others
        return f"No call of {wanted.tool} is, only of {', '.join(meant)}." if meant else "Nothing is."

    def _nearest(self, wanted: Recording, count: int = 3) -> list[str]:
        same_tool = dict.fromkeys(str(each) for each in self._all if each.tool == wanted.tool)
        return sorted(same_tool, key=lambda one: -SequenceMatcher(None, one, str(wanted)).ratio())[:count]
