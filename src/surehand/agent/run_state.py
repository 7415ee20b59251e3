"""The state of a run in memory: the prompt, the steps so far, and what was spent."""

from __future__ import annotations

from dataclasses import dataclass, field

from surehand.agent.limits import Spent
from surehand.agent.models.base import Message
from surehand.agent.steps import Step


@dataclass(slots=True)
class RunState:
    """A run as its loop sees it."""

    run_id: str
    agent: str
    user: str | None
    session: str | None
    prompt: list[Message]
    steps: list[Step] = field(default_factory=list)
    spent: Spent = field(default_factory=Spent)

    @property
    def last_text(self) -> str:
        """The last text that the model wrote."""
        return next((step.answer.text for step in reversed(self.steps) if step.answer.text), "")
