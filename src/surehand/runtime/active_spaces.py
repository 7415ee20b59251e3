"""Active spaces: in which space the calls of an agent are shown, and what happens while there is none."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Literal, TypeAlias

from surehand.core.spaces import SpaceWriter
from surehand.runtime.invocation.invocation import CallScope
from surehand.runtime.runtime_store import RuntimeStore
from surehand.store.errors import StoreError

OnNoSpace: TypeAlias = Literal["warn", "error"]
"""What happens to a visible call while no space is active."""
log = logging.getLogger("surehand")


class ActiveSpaces:
    """The spaces that agents have entered, in a host application or in the store; calls are shown there."""

    def __init__(
        self,
        store: RuntimeStore,
        host_spaces: SpaceWriter | None,
        on_no_space: OnNoSpace,
        *,
        on_first_entered: Callable[[], None],
    ) -> None:
        self._store = store
        self.host_spaces = host_spaces
        self.on_no_space = on_no_space
        self.has_entered_space = False
        """Whether an agent has entered a space; until then no stack looks for one."""
        self._on_first_entered = on_first_entered
        self._has_warned_without_store = False

    @property
    def has_spaces(self) -> bool:
        """Whether any space exists."""
        store = self._store.current
        return self.host_spaces is not None or (store is not None and store.spaces.has_spaces)

    @property
    def is_stored(self) -> bool:
        """Whether the spaces that agents enter are known in every process on a store."""
        return self._store.is_durable

    def set_active(self, scope: CallScope, space: str | None) -> None:
        """Activate a space for the agent (or else user) and session of a scope, until the host activates another."""
        scope.state[_active_space_key(scope)] = (space, scope.host_space)
        if not self.has_entered_space:
            self.has_entered_space = True
            self._on_first_entered()

    async def enter(self, scope: CallScope, space: str | None) -> None:
        """The same, and store it, so that the calls of other processes in the session are made there too."""
        member = self._find_member(scope)
        if member is not None:
            store = await self._store.open()
            await store.active_spaces.enter(member, space, scope.host_space)
        self.set_active(scope, space)

    async def load(self, scope: CallScope) -> None:
        """Learn which space the agent of a scope has entered in another process, if it has entered one since."""
        member = self._find_member(scope)
        if member is None:
            return
        try:
            active = await (await self._store.open()).active_spaces.find(member)
        except StoreError as error:
            log.warning("The active space of %s is not known, because the store failed: %s", member[-1], error)
            return
        key = _active_space_key(scope)
        if active is not None and active != scope.state.get(f"stored {key}"):
            scope.state[f"stored {key}"] = active
            scope.state[key] = active

    async def load_if_entered(self, scope: CallScope) -> None:
        """The same, unless no agent has entered a space yet."""
        if self.has_entered_space:
            await self.load(scope)

    def _find_member(self, scope: CallScope) -> tuple[str | None, str, str] | None:
        """User, session and member whose space is stored; None without a configured store, a session, or a name."""
        principal = scope.principal
        name = principal.agent or principal.user
        if not self._store.is_durable or principal.session is None or not name:
            return None
        return principal.user, principal.session, name

    async def look_for_entered_spaces(self) -> None:
        """Look whether an agent has entered a space in another process, as long as none has in this one."""
        store = self._store.current
        if store is not None and not self.has_entered_space and not await store.active_spaces.is_empty():
            self.has_entered_space = True
            self._on_first_entered()

    def scope_in_active_space(self, scope: CallScope) -> CallScope:
        """The same scope in the space that its agent entered; the scope itself if it is in that space."""
        entered, host_space = scope.state.get(_active_space_key(scope), (scope.host_space, scope.host_space))
        space = entered if host_space == scope.host_space else scope.host_space
        if space == scope.principal.space:
            return scope
        moved = scope.scope_in_entered_space
        if moved is None or moved.principal.space != space:
            moved = scope.in_space(space)
            moved.host_space = scope.host_space
            scope.scope_in_entered_space = moved
        return moved

    def warn_without_store(self, space: str) -> None:
        """Warn, once, that calls in a space are shown nowhere because the runtime keeps no spaces."""
        if self.host_spaces is None and not self._store.is_durable and not self._has_warned_without_store:
            self._has_warned_without_store = True
            log.warning(
                "Visible calls in space %r are shown nowhere: the runtime has no store. "
                "Pass store=... or spaces=... to Runtime.",
                space,
            )


def _active_space_key(scope: CallScope) -> str:
    # Several agents of one session may be in different spaces.
    return f"active_space:{scope.principal.agent or scope.principal.user}"
