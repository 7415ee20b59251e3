"""Pending call: what a person or program that answers calls is shown of one."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from surehand.core.outcome import Pending, WaitingFor


@dataclass(frozen=True, slots=True)
class PendingCall:
    """A pending call with its open question."""

    call_id: str
    tool: str
    arguments: Mapping[str, Any]
    waiting_for: WaitingFor
    message: str
    request: Any
    expires_at: float | None
    created_at: float = 0.0
    user: str | None = None
    session: str | None = None
    round: int = 1
    agent: str | None = None
    space: str | None = None
    turn: str | None = None
    task: str | None = None
    parent: str | None = None
    model_id: str | None = None
    intent: str | None = None
    display: Mapping[str, Any] = field(default_factory=dict)
    path: tuple[str, ...] = ()
    """The agents whose runs wait for the call, from the top; set in `Run.waiting`."""
    missing_agent: str | None = None
    """The agent whose own tool this is, if the call was answered and waits for a process that has the agent."""

    @property
    def run(self) -> str | None:
        """The run of an agent that the call belongs to, which is its turn."""
        return self.turn

    @property
    def cursor(self) -> str:
        """Continue the list after this call with `pending(after=cursor)`, also if the call was answered since."""
        return f"{self.created_at!r}:{self.call_id}"

    @property
    def is_following(self) -> bool:
        """Whether the call repeats another one and ends with its outcome; `request["follows"]` is that call's id."""
        return isinstance(self.request, Mapping) and "follows" in self.request

    def to_outcome(self) -> Pending:
        """The same as an outcome."""
        return Pending(self.waiting_for, self.call_id, self.message, self.request, self.expires_at)


def absent_agent_message(tool: str, agent: str) -> str:
    """Say where a call of an agent's own tool goes on."""
    return (
        f"{tool} is a tool of the agent {agent}, which is not here: the call goes on in a process that has the agent."
    )


Approver: TypeAlias = Callable[[PendingCall], Awaitable[Any]]
"""Decides about a call at once: it returns True, False, an `Approval`, or None for "not now"."""
