"""Visible calls: selects the spaces in which calls are shown as messages, and links messages to the ledger's writes."""

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
    """Shows calls in the spaces of a host application, or in those of a configured store; else nowhere."""

    def __init__(self, services: RuntimeServices, host_spaces: SpaceWriter | None) -> None:
        self._services = services
        self._host_spaces = host_spaces

    @cached_property
    def _call_messages(self) -> CallMessages | None:
        if self._host_spaces is not None or not self._services.is_durable:
            return None
        from surehand.runtime.call_messages import CallMessages  # keeps the store tables off the import path

        return CallMessages(self._services)

    @property
    def spaces(self) -> SpaceWriter | None:
        """The spaces to which calls are posted."""
        return self._host_spaces or self._call_messages

    @property
    def has_spaces(self) -> bool:
        """Whether any space exists."""
        store = self._services.store
        return self._host_spaces is not None or (store is not None and store.spaces.has_spaces)

    def amend_statements(self, invocation: Invocation, outcome: Outcome) -> list[Statement]:
        """Statements that update a call's message, for the transaction that stores its outcome."""
        if invocation.message_id is None or self._call_messages is None:
            return []
        return self._call_messages.amend_statements(invocation, outcome)

    def mark_written(self, invocation: Invocation, outcome: Outcome) -> None:
        """Note that the transaction with the message's update was committed."""
        if invocation.message_id is not None and self._call_messages is not None:
            invocation.message_status = to_message_status(outcome)


def to_message_status(outcome: Outcome) -> str:
    """The status word that a message shows for an outcome."""
    if isinstance(outcome, Pending):
        return "requires_action"
    return "error" if isinstance(outcome, Failed) else "complete"
