"""Rounds: the questions of tasks, which may be answered one by one, and by whatever process is asked."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple, Self

from surehand.gateway.mcp.questions import Answers, Question

MOST = 1_000
"""Rounds of which it is known here that they were answered, until the call has gone on."""


class Heard(NamedTuple):
    """What is known of a round whose answers are not all there, or did not fit. It is kept with the wait."""

    answers: Mapping[str, Mapping[str, Any]] = {}
    complaint: str = ""
    tries: int = 0

    @classmethod
    def read(cls, noted: str) -> Self:
        """As it was written down."""
        return cls(**json.loads(noted)) if noted else cls()

    @property
    def text(self) -> str:
        """To be written down."""
        return json.dumps(self._asdict())

    def left(self, question: Question) -> Question:
        """What is still asked; no two questions of a task have a key in common."""
        left = {key: each for key, each in question.requests.items() if key not in self.answers}
        tries = f".{self.tries}" if self.tries else ""
        shown = question.again(self.complaint) if self.complaint else question
        asked = {key: shown.requests[key] for key in left}
        return question._replace(requests=asked, suffix=f"-{question.round}{tries}")

    def with_more(self, question: Question, given: Answers) -> Heard:
        """The same with answers to what was left; those that do not fit are asked for again."""
        answers = {**self.answers, **given}
        if complaint := question.complaint(answers):
            return Heard(complaint=complaint, tries=self.tries + 1)
        return self._replace(answers=answers)


class Rounds:
    """Rounds that were answered: nobody is asked again, whatever is read of the call until it has gone on."""

    def __init__(self) -> None:
        self._answered: dict[tuple[str, int], None] = {}

    def __contains__(self, question: Question) -> bool:
        return (question.call_id, question.round) in self._answered

    def add(self, question: Question) -> None:
        """All answers are there."""
        self._answered[question.call_id, question.round] = None
        if len(self._answered) > MOST:
            del self._answered[next(iter(self._answered))]

    def remove(self, question: Question) -> None:
        """They changed nothing: the same is asked once more."""
        self._answered.pop((question.call_id, question.round), None)
