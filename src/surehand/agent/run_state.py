"""The state of a run in memory: the prompt, the steps so far, and what was spent."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from surehand.agent.limits import Spent
from surehand.agent.models.base import Message
from surehand.agent.run_origin import RunOrigin
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
    origin: RunOrigin = field(default_factory=lambda: RunOrigin(None, ()))

    described_tools: tuple[tuple[dict[str, Any], ...], int] = ((), len("[]"))
    """The tools of the last request, and their characters: counted again if a tool was added, removed or replaced."""

    @property
    def path(self) -> tuple[str, ...]:
        """The agents from the top down to this one."""
        return self.origin.path or (self.agent,)

    @property
    def last_text(self) -> str:
        """The last text that the model wrote."""
        return next((step.answer.text for step in reversed(self.steps) if step.answer.text), "")
