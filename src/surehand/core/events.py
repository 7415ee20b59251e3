"""Events of calls, of runs of agents and of the catalogue, as one typed union. A listener is a function of one event.

They are named tuples, because creating a tuple takes a fraction of the time of creating a frozen dataclass. Every event
of a call ends with the fields of `CallIdentity`, which say whose call it is: a named tuple cannot inherit them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias

from surehand.core.outcome import Outcome, WaitingFor

_NO_DATA: Mapping[str, Any] = MappingProxyType({})


class CallStarted(NamedTuple):
    """A call started."""

    call_id: str
    tool: str
    arguments: Any = None
    parent: str | None = None
    display: Mapping[str, Any] = _NO_DATA
    at: float = 0.0
    model_id: str | None = None
    intent: str | None = None
    user: str | None = None
    session: str | None = None
    agent: str | None = None
    space: str | None = None
    turn: str | None = None
    task: str | None = None

    @property
    def run_id(self) -> str | None:
        """The run of an agent that the call belongs to, which is its turn."""
        return self.turn


class CallQueued(NamedTuple):
    """A call waits for a slot of its queue."""

    call_id: str
    tool: str
    queue: str
    position: int
    at: float = 0.0
    parent: str | None = None
    model_id: str | None = None
    intent: str | None = None
    display: Mapping[str, Any] = _NO_DATA
    user: str | None = None
    session: str | None = None
    agent: str | None = None
    space: str | None = None
    turn: str | None = None
    task: str | None = None

    @property
    def run_id(self) -> str | None:
        """The run of an agent that the call belongs to, which is its turn."""
        return self.turn


class CallProgress(NamedTuple):
    """A handler reported progress."""

    call_id: str
    tool: str
    message: str | None = None
    fraction: float | None = None
    title: str | None = None
    data: Mapping[str, Any] = _NO_DATA
    at: float = 0.0
    parent: str | None = None
    model_id: str | None = None
    intent: str | None = None
    display: Mapping[str, Any] = _NO_DATA
    user: str | None = None
    session: str | None = None
    agent: str | None = None
    space: str | None = None
    turn: str | None = None
    task: str | None = None

    @property
    def run_id(self) -> str | None:
        """The run of an agent that the call belongs to, which is its turn."""
        return self.turn


class CallPending(NamedTuple):
    """A call waits for a person, a browser or a webhook."""

    call_id: str
    tool: str
    waiting_for: WaitingFor
    message: str = ""
    request: Any = None
    arguments: Any = None
    expires_at: float | None = None
    at: float = 0.0
    parent: str | None = None
    model_id: str | None = None
    intent: str | None = None
    display: Mapping[str, Any] = _NO_DATA
    user: str | None = None
    session: str | None = None
    agent: str | None = None
    space: str | None = None
    turn: str | None = None
    task: str | None = None

    @property
    def run_id(self) -> str | None:
        """The run of an agent that the call belongs to, which is its turn."""
        return self.turn


class CallSettled(NamedTuple):
    """A pending call was answered, expired or was cancelled."""

    call_id: str
    tool: str
    verdict: str
    """`approve`, `reject`, `settle`, `expire` or `cancel`."""
    waiting_for: WaitingFor
    by: str | None = None
    always: bool = False
    reason: str = ""
    at: float = 0.0
    parent: str | None = None
    model_id: str | None = None
    intent: str | None = None
    display: Mapping[str, Any] = _NO_DATA
    user: str | None = None
    session: str | None = None
    agent: str | None = None
    space: str | None = None
    turn: str | None = None
    task: str | None = None

    @property
    def run_id(self) -> str | None:
        """The run of an agent that the call belongs to, which is its turn."""
        return self.turn


class CallResumed(NamedTuple):
    """A pending call resumed after its answer."""

    call_id: str
    tool: str
    at: float = 0.0
    parent: str | None = None
    model_id: str | None = None
    intent: str | None = None
    display: Mapping[str, Any] = _NO_DATA
    user: str | None = None
    session: str | None = None
    agent: str | None = None
    space: str | None = None
    turn: str | None = None
    task: str | None = None

    @property
    def run_id(self) -> str | None:
        """The run of an agent that the call belongs to, which is its turn."""
        return self.turn


class CallEnded(NamedTuple):
    """A call has an outcome. A call with a Pending outcome can resume later, under the same id."""

    call_id: str
    tool: str
    outcome: Outcome
    at: float = 0.0
    parent: str | None = None
    model_id: str | None = None
    intent: str | None = None
    display: Mapping[str, Any] = _NO_DATA
    user: str | None = None
    session: str | None = None
    agent: str | None = None
    space: str | None = None
    turn: str | None = None
    task: str | None = None

    @property
    def run_id(self) -> str | None:
        """The run of an agent that the call belongs to, which is its turn."""
        return self.turn


class RunStarted(NamedTuple):
    """A run of an agent started, or goes on after it waited."""

    run_id: str
    agent: str = ""
    user: str | None = None
    session: str | None = None
    at: float = 0.0
    parent_run: str | None = None
    """The run whose call started this one, for a run of a sub-agent."""


class TextDelta(NamedTuple):
    """A piece of the text that a model is writing."""

    text: str
    run_id: str = ""
    agent: str = ""
    user: str | None = None
    session: str | None = None
    at: float = 0.0


class ToolInputDelta(NamedTuple):
    """A piece of the arguments that a model is writing for a call; the first one is empty: the call begins."""

    text: str
    tool: str
    position: int
    """The number of the call in the model's answer, from 0."""
    call_id: str | None = None
    """The id that the call will have; None without a store, where it gets one when it is made."""
    model_id: str | None = None
    run_id: str = ""
    agent: str = ""
    user: str | None = None
    session: str | None = None
    at: float = 0.0
    space: str | None = None
    """The space in which the call will be shown; None for a tool that is not visible, or without an active space."""


class SpaceMessageDelta(NamedTuple):
    """A piece of the text of a message to a space, which a model is writing; the first one is empty: it begins."""

    text: str
    space: str
    call_id: str
    """The call that will post the message; the posted message has it as its `streamId`."""
    run_id: str = ""
    agent: str = ""
    user: str | None = None
    session: str | None = None
    at: float = 0.0


class SpaceMessagePosted(NamedTuple):
    """A message was posted whose text was told while a model wrote it."""

    space: str
    call_id: str
    run_id: str = ""
    agent: str = ""
    user: str | None = None
    session: str | None = None
    at: float = 0.0


class SpaceMessageFailed(NamedTuple):
    """A message whose text was told while a model wrote it was not posted there: that text is void."""

    reason: str
    space: str
    call_id: str
    run_id: str = ""
    agent: str = ""
    user: str | None = None
    session: str | None = None
    at: float = 0.0


class ModelRetried(NamedTuple):
    """A request to the model failed and is made again: the text and arguments that it has streamed are void."""

    reason: str
    delay: float = 0.0
    """Seconds until the next attempt."""
    run_id: str = ""
    agent: str = ""
    user: str | None = None
    session: str | None = None
    at: float = 0.0


class RunEnded(NamedTuple):
    """A run of an agent is done, stopped or failed, or waits. It is the last event of a run's stream."""

    run: Any
    """The `Run`."""
    user: str | None = None
    session: str | None = None
    at: float = 0.0

    @property
    def run_id(self) -> str:
        """The id of the run."""
        return str(self.run.id)


class AgentActive(NamedTuple):
    """A run of an agent begins to work in a space: a message of the space started it, or the agent is in the space."""

    space: str
    run_id: str = ""
    agent: str = ""
    user: str | None = None
    session: str | None = None
    at: float = 0.0


class AgentInactive(NamedTuple):
    """A run of an agent no longer works in a space: it has ended, or waits, or the agent has left the space."""

    space: str
    run_id: str = ""
    agent: str = ""
    user: str | None = None
    session: str | None = None
    at: float = 0.0


class CatalogueChanged(NamedTuple):
    """Tools were added to the catalogue or removed from it."""

    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Missed:
    """A reader of `runtime.events()` was too slow, and this many events were dropped."""

    count: int


CallEvent: TypeAlias = CallStarted | CallQueued | CallProgress | CallPending | CallSettled | CallResumed | CallEnded
SpaceMessageEvent: TypeAlias = SpaceMessageDelta | SpaceMessagePosted | SpaceMessageFailed
RunEvent: TypeAlias = (
    RunStarted | AgentActive | TextDelta | ToolInputDelta | SpaceMessageEvent | ModelRetried | AgentInactive | RunEnded
)
Event: TypeAlias = CallEvent | RunEvent | CatalogueChanged | Missed
Listener: TypeAlias = Callable[[Event], object]
