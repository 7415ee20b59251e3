"""Run: what a caller gets of one run of an agent."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from surehand.agent.conversation import whole_conversation
from surehand.agent.models.base import Message
from surehand.agent.run_state import RunState
from surehand.agent.run_waits import pending_calls_of_run
from surehand.runtime.pending.pending_call import PendingCall

if TYPE_CHECKING:
    from surehand.runtime.scope import Scope

RunStatus: TypeAlias = Literal["done", "waiting", "stopped", "failed"]


@dataclass(frozen=True, slots=True)
class RunUsage:
    """What a run has used, over all processes that drove it, with the runs of the agents that it called."""

    requests: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    cost: float | None = None
    """US dollars; None if no model reported its price."""
    calls: int = 0


@dataclass(frozen=True, slots=True)
class Run:
    """One run of an agent: its end, or what it waits for."""

    id: str
    agent: str
    status: RunStatus
    text: str = ""
    """The last text of the model."""
    output: Any = None
    """The text as a value of the agent's `output` type; always set if the run is done."""
    waiting: tuple[PendingCall, ...] = ()
    """The calls of this run, and of the runs that it waits for, that wait for an answer."""
    usage: RunUsage = RunUsage()
    messages: list[Message] = field(default_factory=list)
    """The conversation, in the form of OpenAI's Chat Completions API."""
    reason: str = ""
    """Why the run was stopped or failed, or what it waits for."""


async def build_run(scope: Scope, state: RunState, status: RunStatus, *, reason: str = "", output: Any = None) -> Run:
    """The run as it stands, with the calls that wait."""
    waiting = await pending_calls_of_run(scope, state) if status == "waiting" else ()
    total = state.spent.total
    return Run(
        id=state.run_id,
        agent=state.agent,
        status=status,
        text=state.last_text,
        output=output,
        waiting=tuple(waiting),
        usage=RunUsage(total.requests, total.tokens_in, total.tokens_out, total.cost, total.calls),
        messages=whole_conversation(state.prompt, state.steps),
        reason=reason,
    )
