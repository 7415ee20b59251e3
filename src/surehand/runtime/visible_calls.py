"""Shown: where the visible calls of a runtime are shown, and what is written for it."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from surehand.core.outcome import Failed, Outcome, Pending
from surehand.core.spaces import SpaceWriter

if TYPE_CHECKING:
    from surehand.runtime.call_messages import CallMessages
    from surehand.runtime.pipeline.invocation import Invocation
    from surehand.runtime.services import RuntimeServices
    from surehand.store.database import Statement


class VisibleCalls:
    """The spaces that a host application keeps, or those of the store that was asked for; else nowhere."""

    def __init__(self, services: RuntimeServices, host_spaces: SpaceWriter | None) -> None:
        self._services, self._host_spaces = services, host_spaces

    @cached_property
    def _call_messages(self) -> CallMessages | None:
        if self._host_spaces is not None or not self._services.is_durable:
            return None
        from surehand.runtime.call_messages import CallMessages  # loaded by those alone who have a store

        return CallMessages(self._services)

    @property
    def spaces(self) -> SpaceWriter | None:
        """Where calls are posted."""
        return self._host_spaces or self._call_messages

    @property
    def has_spaces(self) -> bool:
        """Whether there are any spaces at all."""
        store = self._services.store
        return self._host_spaces is not None or (store is not None and store.spaces.has_spaces)

    def amend_statements(self, invocation: Invocation, outcome: Outcome) -> list[Statement]:
        """What shows an outcome, to be put into the transaction that keeps it."""
        if invocation.message_id is None or self._call_messages is None:
            return []
        return self._call_messages.amend_statements(invocation, outcome)

    def mark_written(self, invocation: Invocation, outcome: Outcome) -> None:
        """That transaction is kept: the message says so."""
        if invocation.message_id is not None and self._call_messages is not None:
            invocation.message_status = to_message_status(outcome)


def to_message_status(outcome: Outcome) -> str:
    """How a message says what a call has come to."""
    if isinstance(outcome, Pending):
        return "requires_action"
    return "error" if isinstance(outcome, Failed) else "complete"
