"""Deadlocks: calls that hold something, such as a slot of a queue, and would wait for each other without end.

A running call keeps its holds in a context variable, where its nested calls find them. The stages `queue` and `cache`
declare what a call is about to wait for, and refuse to wait if that could never end. Only calls of this process are
known.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from typing import Protocol


class HeldResource(Protocol):
    """Something that calls hold and wait for: a queue, the turn of nested calls in one slot, or a shared result."""

    def busy_holds(self) -> Collection[Hold] | None:
        """The holds that keep others waiting; None if it is free, or becomes free without any of them."""
        ...


class Hold:
    """What a running call holds of a resource until it ends."""

    __slots__ = ("is_released", "outer_hold", "waits_for")

    def __init__(self, outer_hold: Hold | None) -> None:
        self.outer_hold = outer_hold
        """The hold of an outer call."""
        self.is_released = False
        """Whether the call has ended; a task that it left running holds nothing."""
        self.waits_for: list[HeldResource] = []
        """What nested calls of this one wait for. The hold is not released before they end."""


CURRENT_HOLD: ContextVar[Hold | None] = ContextVar("surehand_current_hold", default=None)


def current_holds() -> Iterator[Hold]:
    """What the current call and its outer calls hold, the innermost first."""
    hold = CURRENT_HOLD.get()
    while hold is not None:
        if not hold.is_released:
            yield hold
        hold = hold.outer_hold


_WAIT_WITHOUT_HOLDS = nullcontext(False)


def waiting_for(resource: HeldResource) -> AbstractContextManager[bool]:
    """Declare that the current call waits; yields whether that could never end, so that it must not wait."""
    if CURRENT_HOLD.get() is None:  # most calls: nothing waits for them
        return _WAIT_WITHOUT_HOLDS
    return _declare_wait(resource)


@contextmanager
def _declare_wait(resource: HeldResource) -> Iterator[bool]:
    holds = list(current_holds())
    for hold in holds:
        hold.waits_for.append(resource)
    try:
        yield bool(holds) and not _becomes_free(resource, ())
    finally:
        for hold in holds:
            hold.waits_for.remove(resource)


def _becomes_free(resource: HeldResource, path: tuple[HeldResource, ...]) -> bool:
    """Whether some hold of the resource can be released, given what each of them waits for."""
    holds = resource.busy_holds()
    if holds is None:
        return True
    if any(resource is each for each in path):
        return False
    path = (*path, resource)
    return any(all(_becomes_free(each, path) for each in hold.waits_for) for hold in holds)
