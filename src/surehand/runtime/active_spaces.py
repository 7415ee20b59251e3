"""Active spaces: in which space the calls of an agent are shown, and what happens while there is none."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Literal, TypeAlias

from surehand.core.spaces import SpaceWriter
from surehand.runtime.invocation.invocation import CallScope
from surehand.runtime.runtime_store import RuntimeStore

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

    def enter(self, scope: CallScope, space: str | None) -> None:
        """Activate a space for the agent (or else user) and session of a scope, until the host activates another."""
        scope.state[_active_space_key(scope)] = (space, scope.host_space)
        if not self.has_entered_space:
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
