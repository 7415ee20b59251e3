"""Rounds: the questions of tasks, which may be answered one by one, and by whatever process is asked."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple, Self

from surehand.gateway.mcp.elicitation import ElicitationAnswers, ElicitationQuestion

MAX_ANSWERED_ROUNDS = 1_000
"AnsweredRoundsds of which it is known here that they were answered, until the call has gone on."


class PartialAnswers(NamedTuple):
    """What is known of a round whose answers are not all there, or did not fit. It is kept with the wait."""

    answers: Mapping[str, Mapping[str, Any]] = {}
    complaint: str = ""
    tries: int = 0

    @classmethod
    def parse(cls, stored_text: str) -> Self:
        """As it was written down."""
        return cls(**json.loads(stored_text)) if stored_text else cls()

    @property
    def stored_text(self) -> str:
        """To be written down."""
        return json.dumps(self._asdict())

    def open_question(self, question: ElicitationQuestion) -> ElicitationQuestion:
        """What is still asked; no two questions of a task have a key in common."""
        left = {key: each for key, each in question.requests.items() if key not in self.answers}
        tries = f".{self.tries}" if self.tries else ""
        shown = question.with_error(self.complaint) if self.complaint else question
        asked = {key: shown.requests[key] for key in left}
        return question._replace(requests=asked, key_suffix=f"-{question.round}{tries}")

    def with_answers(self, question: ElicitationQuestion, new_answers: ElicitationAnswers) -> PartialAnswers:
        """The same with answers to what was left; those that do not fit are asked for again."""
        answers = {**self.answers, **new_answers}
        if complaint := question.validation_error(answers):
            return PartialAnswers(complaint=complaint, tries=self.tries + 1)
        return self._replace(answers=answers)


class AnsweredRounds:
    """Rounds that were answered: nobody is asked again, whatever is read of the call until it has gone on."""

    def __init__(self) -> None:
        self._answered: dict[tuple[str, int], None] = {}

    def __contains__(self, question: ElicitationQuestion) -> bool:
        return (question.call_id, question.round) in self._answered

    def add(self, question: ElicitationQuestion) -> None:
        """All answers are there."""
        self._answered[question.call_id, question.round] = None
        if len(self._answered) > MAX_ANSWERED_ROUNDS:
            del self._answered[next(iter(self._answered))]

    def remove(self, question: ElicitationQuestion) -> None:
        """They changed nothing: the same is asked once more."""
        self._answered.pop((question.call_id, question.round), None)
