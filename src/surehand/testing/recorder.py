"""Recorder: lets the work be done, and writes down what became of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from surehand.core.events import CallProgress, Event
from surehand.core.outcome import Done, Outcome, Pending
from surehand.runtime.invocation import Invocation
from surehand.runtime.pipeline import Proceed
from surehand.testing.notation import Plain, written
from surehand.testing.recording import Recording


class Recorder:
    """Recordings in the order in which the calls began."""

    def __init__(self, plain: Plain) -> None:
        self.recordings: list[Recording] = []
        self.open: dict[str, Recording] = {}
        """The calls that have not ended yet, by id."""
        self._plain = plain

    async def __call__(self, invocation: Invocation, proceed: Proceed) -> Outcome:
        """Record one pass of a call; one that waits for somebody passes again with the answer."""
        recording = self.open.get(invocation.id) or self._begin(invocation)
        self._note_answer(recording, invocation)
        try:
            with _heard(invocation, recording, self._plain):
                outcome = await proceed(invocation)
        except BaseException:
            self.open.pop(invocation.id, None)
            raise
        self._note_outcome(recording, invocation, outcome)
        return outcome

    def _begin(self, invocation: Invocation) -> Recording:
        recording = Recording.of(invocation, self._plain)
        self.open[invocation.id] = recording
        self.recordings.append(recording)
        return recording

    def _note_answer(self, recording: Recording, invocation: Invocation) -> None:
        if invocation.answer is None or not recording.waits:
            return
        if not invocation.resumed:
            recording.waits.pop()  # its caller was kept waiting, and never saw that the call was pending
        elif isinstance(invocation.answer, Done):
            recording.waits[-1]["answer"] = self._plain(invocation.answer.data)

    def _note_outcome(self, recording: Recording, invocation: Invocation, outcome: Outcome) -> None:
        if isinstance(outcome, Pending) and outcome.call_id == invocation.id:
            return  # only told that the same call runs already, and that one is being recorded
        told = written(outcome, self._plain)
        if isinstance(outcome, Pending):
            recording.waits.append(told)
        else:
            recording.outcome = told
            self.open.pop(invocation.id, None)


@contextmanager
def _heard(invocation: Invocation, recording: Recording, plain: Plain) -> Iterator[None]:
    def hear(event: Event) -> None:
        if isinstance(event, CallProgress) and event.call_id == invocation.id:
            told = {"message": event.message, "fraction": event.fraction, "title": event.title, **event.data}
            recording.progress.append(plain({name: value for name, value in told.items() if value is not None}))

    stop = invocation.scope.listen(hear)
    try:
        yield
    finally:
        stop()
