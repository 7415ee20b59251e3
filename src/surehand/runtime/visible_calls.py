"""Visible calls: selects the spaces in which calls are shown as messages, and links messages to the ledger's writes."""

from __future__ import annotations

import logging
from functools import cached_property
from typing import TYPE_CHECKING, Literal, TypeAlias

from surehand.core.outcome import Failed, Outcome, Pending
from surehand.core.spaces import SpaceWriter
from surehand.store.errors import StoreError

if TYPE_CHECKING:
    from surehand.runtime.call_messages import CallMessages
    from surehand.runtime.pipeline.invocation import Invocation
    from surehand.runtime.scope import Scope
    from surehand.runtime.services import RuntimeServices
    from surehand.store.database import Statement
    from surehand.store.store import Store

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

    def set_active_space(self, scope: Scope, space: str | None) -> None:
        """Activate a space for the agent (or else user) and session of a scope, until the host activates another."""
        scope.state[_active_space_key(scope)] = (space, scope.host_space)
        if not self.has_entered_space:
            self.has_entered_space = True
            self._services.rebuild_stacks()

    async def enter_space(self, scope: Scope, space: str | None) -> None:
        """The same, and store it, so that the calls of other processes in the session are made there too."""
        member = self._find_member(scope)
        if member is not None:
            store = await self._services.open_store()
            await store.active_spaces.enter(member, space, scope.host_space)
        self.set_active_space(scope, space)

    async def load_active_space(self, scope: Scope) -> None:
        """Learn which space the agent of a scope has entered in another process, if it has entered one since."""
        member = self._find_member(scope)
        if member is None:
            return
        try:
            active = await (await self._services.open_store()).active_spaces.find(member)
        except StoreError as error:
            log.warning("The active space of %s is not known, because the store failed: %s", member[-1], error)
            return
        key = _active_space_key(scope)
        if active is not None and active != scope.state.get(f"stored {key}"):
            scope.state[f"stored {key}"] = active
            scope.state[key] = active

    def _find_member(self, scope: Scope) -> tuple[str | None, str, str] | None:
        """User, session and member whose space is stored; None without a configured store, a session, or a name."""
        principal = scope.principal
        name = principal.agent or principal.user
        if not self._services.is_durable or principal.session is None or not name:
            return None
        return principal.user, principal.session, name

    async def look_for_entered_spaces(self, store: Store) -> None:
        """Look whether an agent has entered a space in another process, as long as none has in this one."""
        if not self.has_entered_space and not await store.active_spaces.is_empty():
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
