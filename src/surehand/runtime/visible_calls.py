"""Visible calls: selects the spaces in which calls are shown as messages, and links messages to the ledger's writes."""

from __future__ import annotations

import logging
from functools import cached_property
from typing import TYPE_CHECKING, Literal, TypeAlias

from surehand.core.outcome import Failed, Outcome, Pending
from surehand.core.spaces import SpaceWriter

if TYPE_CHECKING:
    from surehand.runtime.durability.call_messages import CallMessages
    from surehand.runtime.invocation.invocation import Invocation
    from surehand.runtime.scope import Scope
    from surehand.runtime.services import RuntimeServices
    from surehand.store.database import Statement

OnNoSpace: TypeAlias = Literal["warn", "error"]
"""What happens to a visible call while no space is active."""
log = logging.getLogger("surehand")


class VisibleCalls:
    """Shows calls in the spaces of a host application, or in those of a configured store; else nowhere."""

    def __init__(self, services: RuntimeServices, host_spaces: SpaceWriter | None, on_no_space: OnNoSpace) -> None:
        self._services = services
        self._host_spaces = host_spaces
        self.on_no_space = on_no_space
        self.has_entered_space = False
        """Whether an agent has entered a space; until then no stack looks for one."""
        self._has_warned_without_store = False

    @cached_property
    def _call_messages(self) -> CallMessages | None:
        if self._host_spaces is not None or not self._services.is_durable:
            return None
        from surehand.runtime.durability.call_messages import CallMessages  # keeps the store tables off the import path

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

    def set_active_space(self, scope: Scope, space: str | None) -> None:
        """Activate a space for the agent (or else user) and session of a scope, until the host activates another."""
        scope.state[_active_space_key(scope)] = (space, scope.host_space)
        if not self.has_entered_space:
            self.has_entered_space = True
            self._services.rebuild_stacks()

    def scope_in_active_space(self, scope: Scope) -> Scope:
        """The same scope in the space that its agent entered; the scope itself if it is in that space."""
        entered, host_space = scope.state.get(_active_space_key(scope), (scope.host_space, scope.host_space))
        space = entered if host_space == scope.host_space else scope.host_space
        if space == scope.principal.space:
            return scope
        moved = scope.scope_in_entered_space
        if moved is None or moved.principal.space != space:
            moved = scope.scope(space=space)
            moved.host_space = scope.host_space
            scope.scope_in_entered_space = moved
        return moved

    def warn_without_store(self, space: str) -> None:
        """Warn, once, that calls in a space are shown nowhere because the runtime keeps no spaces."""
        if self.spaces is None and not self._has_warned_without_store:
            self._has_warned_without_store = True
            log.warning(
                "Visible calls in space %r are shown nowhere: the runtime has no store. "
                "Pass store=... or spaces=... to Runtime.",
                space,
            )

    @property
    def can_post_with_wait(self) -> bool:
        """Whether a message can be written in the transaction that stores the wait of its call."""
        return self._call_messages is not None

    async def post_statements(self, invocation: Invocation) -> list[Statement]:
        """Statements that post a call's message in the transaction that stores its wait; none if it has one."""
        if not invocation.posts_when_stored or invocation.message_id is not None or self._call_messages is None:
            return []
        return await self._call_messages.post_statements(invocation)

    def amend_statements(self, invocation: Invocation, outcome: Outcome) -> list[Statement]:
        """Statements that update a call's message, for the transaction that stores its outcome."""
        if invocation.message_id is None or self._call_messages is None:
            return []
        return self._call_messages.amend_statements(invocation, outcome)

    def mark_written(self, invocation: Invocation, outcome: Outcome) -> None:
        """Note that the transaction with the message's update was committed."""
        if invocation.message_id is not None and self._call_messages is not None:
            invocation.message_status = to_message_status(outcome)


def _active_space_key(scope: Scope) -> str:
    # Several agents of one session may be in different spaces.
    return f"active_space:{scope.principal.agent or scope.principal.user}"


def to_message_status(outcome: Outcome) -> str:
    """The status word that a message shows for an outcome."""
    if isinstance(outcome, Pending):
        return "requires_action"
    return "error" if isinstance(outcome, Failed) else "complete"
