"""`CassettePlayer`: returns recorded outcomes instead of doing the work."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeAlias

from surehand.core.canonical_json import canonical_json
from surehand.core.outcome import Done, Failed, Outcome, Pending
from surehand.runtime.invocation.invocation import Invocation, NextStage
from surehand.testing.cassettes.recording import Recording, RecordingLibrary
from surehand.testing.cassettes.serialization import ToJSON, outcome_from_json

ReportMiss: TypeAlias = Callable[[Recording, str], Failed]
"""Reports that a call has no matching recording."""


@dataclass(slots=True)
class Replay:
    """The replay of one recording."""

    recording: Recording
    returned_waits: int = 0
    """How many of its pending outcomes the caller has received."""

    def next_outcome(self) -> Outcome | None:
        """Return the next pending outcome, or the final one; None if the recording ends before."""
        if self.returned_waits < len(self.recording.waits):
            self.returned_waits += 1
            return outcome_from_json(self.recording.waits[self.returned_waits - 1])
        return outcome_from_json(self.recording.outcome) if self.recording.outcome else None


class CassettePlayer:
    """Replays equal calls in the order in which they were recorded."""

    def __init__(self, recordings: Iterable[Recording], to_json: ToJSON, report_miss: ReportMiss) -> None:
        self.library = RecordingLibrary(recordings)
        self.open_calls: dict[str, Replay] = {}
        """Replays of calls that have not ended, by call id."""
        self._to_json = to_json
        self._report_miss = report_miss

    async def __call__(self, invocation: Invocation, proceed: NextStage) -> Outcome:
        """Replay one pass of a call; a pending call passes again with its answer."""
        replay = self.open_calls.pop(invocation.id, None)
        if isinstance(invocation.answer, Failed):
            return await proceed(invocation)  # cancelled or expired while pending: that does no work
        wanted = Recording.from_invocation(invocation, self._to_json)
        replay = replay or self._start_replay(wanted, invocation)
        if replay is None:
            return self._report_miss(wanted, self.library.explain_miss(wanted))
        if problem := self._answer_mismatch(replay, invocation):
            return self._report_miss(wanted, problem)
        return self._advance(replay, invocation)

    def _start_replay(self, wanted: Recording, invocation: Invocation) -> Replay | None:
        recording = self.library.take(wanted)
        if recording is None:
            return None
        for update in recording.progress:
            invocation.report(update)
        return Replay(recording)

    def _advance(self, replay: Replay, invocation: Invocation) -> Outcome:
        outcome = replay.next_outcome()
        if isinstance(outcome, Pending):
            self.open_calls[invocation.id] = replay
        return outcome or self._report_miss(replay.recording, "It had no answer when it was recorded.")

    def _answer_mismatch(self, replay: Replay, invocation: Invocation) -> str:
        """Explain how an answer differs from the recorded one; settling with None means the recorded answer."""
        if not isinstance(invocation.answer, Done) or not replay.returned_waits:
            return ""
        given = self._to_json(invocation.answer.data)
        wait = replay.recording.waits[replay.returned_waits - 1]
        if given is None or "answer" not in wait or wait["answer"] == given:
            return ""
        recorded = canonical_json(wait["answer"])
        return f"It was answered with {canonical_json(given)}, and recorded with the answer {recorded}."
