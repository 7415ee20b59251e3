"""The questions of tasks. A client may answer the requests of one question in several `tasks/update` requests.

Answers that are not complete yet are stored with the pending call, so that any process can accept the rest.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple, Self

from surehand.gateway.mcp.elicitation import ElicitationAnswers, ElicitationQuestion

MAX_ANSWERED_ROUNDS = 1_000
"""Answered rounds that are remembered until their calls have resumed."""


class PartialAnswers(NamedTuple):
    """The answers to a question so far. The field names are part of the stored form."""

    answers: Mapping[str, Mapping[str, Any]] = {}
    complaint: str = ""
    """Why the last answers were invalid."""
    tries: int = 0
    """How often answers were invalid."""

    @classmethod
    def parse(cls, stored_text: str) -> Self:
        """Parse the stored form; an empty text has no answers."""
        return cls(**json.loads(stored_text)) if stored_text else cls()

    @property
    def stored_text(self) -> str:
        """The form in which the answers are stored."""
        return json.dumps(self._asdict())

    def open_question(self, question: ElicitationQuestion) -> ElicitationQuestion:
        """The requests that have no answer yet. Their keys are unique among all questions of the task."""
        open_keys = [key for key in question.requests if key not in self.answers]
        asked_question = question.with_error(self.complaint) if self.complaint else question
        requests = {key: asked_question.requests[key] for key in open_keys}
        attempt = f".{self.tries}" if self.tries else ""
        return question._replace(requests=requests, key_suffix=f"-{question.round}{attempt}")

    def with_answers(self, question: ElicitationQuestion, new_answers: ElicitationAnswers) -> PartialAnswers:
        """Add answers. If they are invalid, all are dropped, and the whole question is asked again."""
        answers = {**self.answers, **new_answers}
        error = question.validation_error(answers)
        if error:
            return PartialAnswers(complaint=error, tries=self.tries + 1)
        return self._replace(answers=answers)


class AnsweredRounds:
    """Rounds whose answers are complete. Their questions are not asked again while their calls resume."""

    def __init__(self) -> None:
        self._answered: dict[tuple[str, int], None] = {}

    def __contains__(self, question: ElicitationQuestion) -> bool:
        return (question.call_id, question.round) in self._answered

    def add(self, question: ElicitationQuestion) -> None:
        """Record that the question has all its answers."""
        self._answered[question.call_id, question.round] = None
        if len(self._answered) > MAX_ANSWERED_ROUNDS:
            del self._answered[next(iter(self._answered))]

    def remove(self, question: ElicitationQuestion) -> None:
        """Forget a round: the answers left the call pending, so the same question is asked again."""
        self._answered.pop((question.call_id, question.round), None)
