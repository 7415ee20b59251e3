"""Player: gives recorded outcomes in place of the work."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeAlias

from surehand.core.canonical import canonical
from surehand.core.outcome import Done, Failed, Outcome, Pending
from surehand.runtime.invocation import Invocation
from surehand.runtime.pipeline import Proceed
from surehand.testing.notation import Plain, read
from surehand.testing.recording import Recording, Shelf

Miss: TypeAlias = Callable[[Recording, str], Failed]
"""Says that a call is not recorded as it was made."""


@dataclass(slots=True)
class Playing:
    """A recording on its way."""

    recording: Recording
    told: int = 0
    """How many of its waits its caller has been told of."""

    def next(self) -> Outcome | None:
        """The next wait, or the outcome; None where the recording ends before."""
        if self.told < len(self.recording.waits):
            self.told += 1
            return read(self.recording.waits[self.told - 1])
        return read(self.recording.outcome) if self.recording.outcome else None


class Player:
    """Replays equal calls in the order in which they were recorded."""

    def __init__(self, recordings: Iterable[Recording], plain: Plain, miss: Miss) -> None:
        self.shelf = Shelf(recordings)
        self.open: dict[str, Playing] = {}
        """The calls that have not ended yet, by id."""
        self._plain, self._miss = plain, miss

    async def __call__(self, invocation: Invocation, proceed: Proceed) -> Outcome:
        """Replay one pass of a call; one that waits for somebody passes again with the answer."""
        playing = self.open.pop(invocation.id, None)
        if isinstance(invocation.answer, Failed):
            return await proceed(invocation)  # its wait was cancelled or has expired: no work is done for that
        wanted = Recording.of(invocation, self._plain)
        playing = playing or self._begin(wanted, invocation)
        if playing is None:
            return self._miss(wanted, self.shelf.why_not(wanted))
        if problem := self._other_answer(playing, invocation):
            return self._miss(wanted, problem)
        return self._go_on(playing, invocation)

    def _begin(self, wanted: Recording, invocation: Invocation) -> Playing | None:
        if (found := self.shelf.take(wanted)) is None:
            return None
        for update in found.progress:
            invocation.report(update)
        return Playing(found)

    def _go_on(self, playing: Playing, invocation: Invocation) -> Outcome:
        outcome = playing.next()
        if isinstance(outcome, Pending):
            self.open[invocation.id] = playing
        return outcome or self._miss(playing.recording, "Nobody had answered it when it was recorded.")

    def _other_answer(self, playing: Playing, invocation: Invocation) -> str:
        """What is wrong with an answer; to settle with nothing means as it was recorded."""
        if not isinstance(invocation.answer, Done) or not playing.told:
            return ""
        given, wait = self._plain(invocation.answer.data), playing.recording.waits[playing.told - 1]
        if given is None or "answer" not in wait or wait["answer"] == given:
            return ""
        return f"It was answered with {canonical(given)}, and recorded with the answer {canonical(wait['answer'])}."
