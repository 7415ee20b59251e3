"""Which operations each session has looked up: these are shown to its model, in the order of the look-ups."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import TypeAlias

from surehand.core.call import Principal

MAX_SESSIONS = 10_000
"""Sessions that are remembered; the least recently used one is dropped."""
MAX_LOOKED_UP = 100
"""Operations of one session that are shown beside the search tools; further ones are called by their names."""
SessionKey: TypeAlias = tuple[str | None, str | None]


class LookedUpOperations:
    """The names of looked-up operations by user and session. A list only grows, so that prompt caches hold."""

    def __init__(self) -> None:
        self._names: OrderedDict[SessionKey, dict[str, None]] = OrderedDict()

    def add(self, principal: Principal, name: str) -> None:
        """Remember that an operation was looked up."""
        key = _key(principal)
        names = self._names.setdefault(key, {})
        self._names.move_to_end(key)
        if len(names) < MAX_LOOKED_UP:
            names[name] = None
        if len(self._names) > MAX_SESSIONS:
            self._names.popitem(last=False)

    def names_for(self, principal: Principal) -> Sequence[str]:
        """The names that this user and session have looked up, oldest first."""
        return tuple(self._names.get(_key(principal), ()))


def _key(principal: Principal) -> SessionKey:
    return principal.user, principal.session
