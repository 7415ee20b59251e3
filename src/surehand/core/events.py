"""Events: what happened to a call, as one typed union with one-argument listeners."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias

from surehand.core.outcome import Outcome, WaitingFor

_NO_DATA: Mapping[str, Any] = MappingProxyType({})


class CallStarted(NamedTuple):
    """A call has begun."""

    call_id: str
    tool: str
    arguments: Any = None
    parent: str | None = None
    display: Mapping[str, Any] = _NO_DATA
    at: float = 0.0


class CallQueued(NamedTuple):
    """A call waits for a slot."""

    call_id: str
    tool: str
    queue: str
    position: int
    at: float = 0.0


class CallProgress(NamedTuple):
    """A handler reported progress."""

    call_id: str
    tool: str
    message: str | None = None
    fraction: float | None = None
    title: str | None = None
    data: Mapping[str, Any] = _NO_DATA
    at: float = 0.0


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


class CallSettled(NamedTuple):
    """A wait is over: somebody answered, or nobody did in time."""

    call_id: str
    tool: str
    verdict: str
    """`approve`, `reject`, `settle`, `expire` or `cancel`."""
    waiting_for: WaitingFor
    by: str | None = None
    always: bool = False
    reason: str = ""
    at: float = 0.0


class CallResumed(NamedTuple):
    """A call that waited goes on."""

    call_id: str
    tool: str
    at: float = 0.0


class CallEnded(NamedTuple):
    """A call has an outcome; a Pending one goes on later under the same id."""

    call_id: str
    tool: str
    outcome: Outcome
    at: float = 0.0


class CatalogueChanged(NamedTuple):
    """Tools came or went."""

    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Missed:
    """A reader of events was too slow: so many were dropped."""

    count: int


CallEvent: TypeAlias = CallStarted | CallQueued | CallProgress | CallPending | CallSettled | CallResumed | CallEnded
Event: TypeAlias = CallEvent | CatalogueChanged | Missed
Listener: TypeAlias = Callable[[Event], object]
