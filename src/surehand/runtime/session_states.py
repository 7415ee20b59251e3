"""Session states: the values that the calls of one user's session share as `Context.state`."""

from __future__ import annotations

from typing import Any

from surehand.core.call import Principal

MAX_SESSION_STATES = 10_000
"""Limit on sessions whose `Context.state` is kept; the least recently used one is dropped."""


class SessionStates:
    """The states by user and session, the least recently used first."""

    def __init__(self) -> None:
        self._states: dict[tuple[str | None, str | None], dict[str, Any]] = {}

    def get(self, principal: Principal) -> dict[str, Any]:
        """The state that calls of one user and session share."""
        key = (principal.user, principal.session)
        state = self._states.pop(key, {})
        self._states[key] = state
        while len(self._states) > MAX_SESSION_STATES:
            del self._states[next(iter(self._states))]
        return state
