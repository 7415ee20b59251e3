"""RunSpaces: tells listeners in which spaces a run works. The loop of the run uses it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from surehand.agent.run_state import RunState
from surehand.core.events import AgentActive, AgentInactive

if TYPE_CHECKING:
    from surehand.runtime.scope import Scope


class RunSpaces:
    """Emits `AgentActive` and `AgentInactive` as a run begins and ends to work in spaces."""

    def __init__(self, scope: Scope, state: RunState) -> None:
        self._scope = scope
        self._state = state
        self._spaces: tuple[str, ...] = ()

    def update(self) -> None:
        """Compare the spaces in which the run works now with those before."""
        spaces = (self._state.origin.space, self._scope.active_space)
        self._change(tuple(dict.fromkeys(space for space in spaces if space is not None)))

    def leave(self) -> None:
        """The run goes no further: it has ended, waits, or goes on elsewhere."""
        self._change(())

    def _change(self, spaces: tuple[str, ...]) -> None:
        state = self._state
        owner = (state.run_id, state.agent, state.user, state.session, self._scope.clock.time())
        for space in self._spaces:
            if space not in spaces:
                self._scope.emit(AgentInactive(space, *owner))
        for space in spaces:
            if space not in self._spaces:
                self._scope.emit(AgentActive(space, *owner))
        self._spaces = spaces
