"""Player: gives recorded outcomes in place of the work."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeAlias

from surehand.core.canonical_json import canonical_json
from surehand.core.outcome import Done, Failed, Outcome, Pending
from surehand.runtime.pipeline.invocation import Invocation
from surehand.runtime.pipeline.pipeline import Proceed
from surehand.testing.cassettes.recording import Recording, RecordingLibrary
from surehand.testing.cassettes.serialization import ToJSON, outcome_from_json

ReportMiss: TypeAlias = Callable[[Recording, str], Failed]
"""Says that a call is not recorded as it was made."""


@dataclass(slots=True)
class Replay:
    """A recording on its way."""

    recording: Recording
    returned_waits: int = 0
    """How many of its waits its caller has been told of."""

    def next_outcome(self) -> Outcome | None:
        """The next wait, or the outcome; None where the recording ends before."""
        if self.returned_waits < len(self.recording.waits):
            self.returned_waits += 1
            return outcome_from_json(self.recording.waits[self.returned_waits - 1])
        return outcome_from_json(self.recording.outcome) if self.recording.outcome else None


class CassettePlayer:
    """Replays equal calls in the order in which they were recorded."""

    def __init__(self, recordings: Iterable[Recording], to_json: ToJSON, report_miss: ReportMiss) -> None:
        self.library = RecordingLibrary(recordings)
        self.open_calls: dict[str, Replay] = {}
        """The calls that have not ended yet, by id."""
        self._to_json, self._report_miss = to_json, report_miss

    async def __call__(self, invocation: Invocation, proceed: Proceed) -> Outcome:
        """Replay one pass of a call; one that waits for somebody passes again with the answer."""
        playing = self.open_calls.pop(invocation.id, None)
        if isinstance(invocation.answer_value, Failed):
            return await proceed(invocation)  # its wait was cancelled or has expired: no work is done for that
        wanted = Recording.from_invocation(invocation, self._to_json)
        playing = playing or self._start_replay(wanted, invocation)
        if playing is None:
            return self._report_miss(wanted, self.library.explain_miss(wanted))
        if problem := self._answer_mismatch(playing, invocation):
            return self._report_miss(wanted, problem)
        return self._advance(playing, invocation)

    def _start_replay(self, wanted: Recording, invocation: Invocation) -> Replay | None:
        if (found := self.library.take(wanted)) is None:
            return None
        for update in found.progress:
            invocation.report(update)
        return Replay(found)

    def _advance(self, replay: Replay, invocation: Invocation) -> Outcome:
        outcome = replay.next_outcome()
        if isinstance(outcome, Pending):
            self.open_calls[invocation.id] = replay
        return outcome or self._report_miss(replay.recording, "Nobody had answered it when it was recorded.")

    def _answer_mismatch(self, replay: Replay, invocation: Invocation) -> str:
        """What is wrong with an answer; to settle with nothing means as it was recorded."""
        if not isinstance(invocation.answer_value, Done) or not replay.returned_waits:
            return ""
        given, wait = self._to_json(invocation.answer_value.data), replay.recording.waits[replay.returned_waits - 1]
        if given is None or "answer" not in wait or wait["answer"] == given:
            return ""
        return f"It was answered with {canonical_json(given)}, and recorded with the answer {canonical_json(wait['answer'])}."
