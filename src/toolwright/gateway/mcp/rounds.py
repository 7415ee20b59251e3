"""Rounds: what has been answered of the questions of tasks, which may be answered one by one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from toolwright.gateway.mcp.questions import Answers, Question

MOST = 1_000
"""Rounds of which it is known here what has been answered."""


@dataclass(slots=True)
class _Round:
    answers: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    complaint: str = ""
    tries: int = 0


class Rounds:
    """Answers that came before others to the same round, or that did not fit."""

    def __init__(self) -> None:
        self._rounds: dict[tuple[str, int], _Round] = {}

    def open(self, question: Question) -> Question:
        """What is left of a question; no two of a task have a key in common."""
        found = self._rounds.get((question.call_id, question.round), _Round())
        if found.complaint:
            question = question.again(found.complaint)
        left = {key: each for key, each in question.requests.items() if key not in found.answers}
        tries = f".{found.tries}" if found.tries else ""
        return question._replace(requests=left, suffix=f"-{question.round}{tries}")

    def take(self, question: Question, given: Answers) -> Answers | None:
        """Answers to what is left of a question; all of them, once none is missing."""
        place = (question.call_id, question.round)
        found = self._rounds.setdefault(place, _Round())
        found.answers.update({key: value for key, value in given.items() if key not in found.answers})
        if complaint := question.complaint(found.answers):
            self._rounds[place] = _Round(complaint=complaint, tries=found.tries + 1)
            return None
        if len(self._rounds) > MOST:
            del self._rounds[next(iter(self._rounds))]
        if not question.requests.keys() <= found.answers.keys():
            return None
        # Nobody asks for them again, whatever is read of the call until it has gone on.
        self._rounds[place] = _Round({key: {} for key in found.answers})
        return found.answers

    def forget(self, call_id: str, round: int) -> None:
        """The answers changed nothing: the same is asked once more."""
        self._rounds.pop((call_id, round), None)
