"""Recorder: lets the work be done, and writes down what became of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from surehand.core.events import CallProgress, Event
from surehand.core.outcome import Done, Outcome, Pending
from surehand.runtime.pipeline.invocation import Invocation
from surehand.runtime.pipeline.pipeline import Proceed
from surehand.testing.cassettes.recording import Recording
from surehand.testing.cassettes.serialization import ToJSON, outcome_to_json


class CassetteRecorder:
    """Recordings in the order in which the calls began."""

    def __init__(self, to_json: ToJSON) -> None:
        self.recordings: list[Recording] = []
        self.open_calls: dict[str, Recording] = {}
        """The calls that have not ended yet, by id."""
        self._to_json = to_json

    async def __call__(self, invocation: Invocation, proceed: Proceed) -> Outcome:
        """Record one pass of a call; one that waits for somebody passes again with the answer."""
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
        if invocation.answer_value is None or not recording.waits:
            return
        if not invocation.is_resumed:
            recording.waits.pop()  # its caller was kept waiting, and never saw that the call was pending
        elif isinstance(invocation.answer_value, Done):
            recording.waits[-1]["answer"] = self._to_json(invocation.answer_value.data)

    def _record_outcome(self, recording: Recording, invocation: Invocation, outcome: Outcome) -> None:
        if isinstance(outcome, Pending) and outcome.call_id == invocation.id:
            return  # only told that the same call runs already, and that one is being recorded
        told = outcome_to_json(outcome, self._to_json)
        if isinstance(outcome, Pending):
            recording.waits.append(told)
        else:
            recording.outcome = told
            self.open_calls.pop(invocation.id, None)


@contextmanager
def _record_progress(invocation: Invocation, recording: Recording, to_json: ToJSON) -> Iterator[None]:
    def hear(event: Event) -> None:
        if isinstance(event, CallProgress) and event.call_id == invocation.id:
            told = {"message": event.message, "fraction": event.fraction, "title": event.title, **event.data}
            recording.progress.append(to_json({name: value for name, value in told.items() if value is not None}))

    stop = invocation.scope.listen(hear)
    try:
        yield
    finally:
        stop()
