"""`CassetteRecorder`: lets calls run and records their progress, waits and outcomes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from surehand.core.events import CallProgress, Event
from surehand.core.outcome import Done, Outcome, Pending
from surehand.runtime.invocation.invocation import Invocation, NextStage
from surehand.testing.cassettes.recording import Recording
from surehand.testing.cassettes.serialization import ToJSON, outcome_to_json


class CassetteRecorder:
    """Recordings in the order in which the calls started."""

    def __init__(self, to_json: ToJSON) -> None:
        self.recordings: list[Recording] = []
        self.open_calls: dict[str, Recording] = {}
        """Recordings of calls that have not ended, by call id."""
        self._to_json = to_json

    async def __call__(self, invocation: Invocation, proceed: NextStage) -> Outcome:
        """Record one pass of a call; a pending call passes again with its answer."""
        recording = self.open_calls.get(invocation.id) or self._start_recording(invocation)
        self._record_answer(recording, invocation)
        try:
            with _record_progress(invocation, recording, self._to_json):
                outcome = await proceed(invocation)
        except BaseException:
            self.open_calls.pop(invocation.id, None)
            raise
        self._record_outcome(recording, invocation, outcome)
        return outcome

    def _start_recording(self, invocation: Invocation) -> Recording:
        recording = Recording.from_invocation(invocation, self._to_json)
        self.open_calls[invocation.id] = recording
        self.recordings.append(recording)
        return recording

    def _record_answer(self, recording: Recording, invocation: Invocation) -> None:
        if invocation.answer is None or not recording.waits:
            return
        if not invocation.is_resumed:
            recording.waits.pop()  # its caller waited for the answer, and never received the pending outcome
        elif isinstance(invocation.answer, Done):
            recording.waits[-1]["answer"] = self._to_json(invocation.answer.data)

    def _record_outcome(self, recording: Recording, invocation: Invocation, outcome: Outcome) -> None:
        if isinstance(outcome, Pending) and outcome.call_id == invocation.id:
            return  # a repeated call: the first one is being recorded
        recorded = outcome_to_json(outcome, self._to_json)
        if isinstance(outcome, Pending):
            recording.waits.append(recorded)
        else:
            recording.outcome = recorded
            self.open_calls.pop(invocation.id, None)


@contextmanager
def _record_progress(invocation: Invocation, recording: Recording, to_json: ToJSON) -> Iterator[None]:
    def on_event(event: Event) -> None:
        if isinstance(event, CallProgress) and event.call_id == invocation.id:
            update = {"message": event.message, "fraction": event.fraction, "title": event.title, **event.data}
            recording.progress.append(to_json({name: value for name, value in update.items() if value is not None}))

    stop = invocation.scope.listen(on_event)
    try:
        yield
    finally:
        stop()
