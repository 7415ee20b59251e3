"""Shown: where the visible calls of a runtime are shown, and what is written for it."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from surehand.core.outcome import Failed, Outcome, Pending
from surehand.core.spaces import Spaces

if TYPE_CHECKING:
    from surehand.runtime.board import Board
    from surehand.runtime.invocation import Invocation
    from surehand.runtime.parts import Parts
    from surehand.store.database import Statement


class Shown:
    """The spaces that a host application keeps, or those of the store that was asked for; else nowhere."""

    def __init__(self, parts: Parts, host: Spaces | None) -> None:
        self._parts, self._host = parts, host

    @cached_property
    def _board(self) -> Board | None:
        if self._host is not None or not self._parts.durable:
            return None
        from surehand.runtime.board import Board  # loaded by those alone who have a store

        return Board(self._parts)

    @property
    def spaces(self) -> Spaces | None:
        """Where calls are posted."""
        return self._host or self._board

    @property
    def in_use(self) -> bool:
        """Whether there are any spaces at all."""
        store = self._parts.store
        return self._host is not None or (store is not None and store.spaces.in_use)

    def statements(self, invocation: Invocation, outcome: Outcome) -> list[Statement]:
        """What shows an outcome, to be put into the transaction that keeps it."""
        if invocation.posted is None or self._board is None:
            return []
        return self._board.showing(invocation, outcome)

    def written(self, invocation: Invocation, outcome: Outcome) -> None:
        """That transaction is kept: the message says so."""
        if invocation.posted is not None and self._board is not None:
            invocation.shown = status_of(outcome)


def status_of(outcome: Outcome) -> str:
    """How a message says what a call has come to."""
    if isinstance(outcome, Pending):
        return "requires_action"
    return "error" if isinstance(outcome, Failed) else "complete"
