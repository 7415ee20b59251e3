"""Last results: the newest outcomes of each session, in memory, for `runtime.last_results`."""

from __future__ import annotations

from collections import deque
from itertools import chain
from typing import TypeAlias

from surehand.core.call import Principal
from surehand.core.outcome import Outcome

MAX_RESULTS_PER_SESSION = 10
MAX_SESSIONS = 1_000
"""Limit on sessions whose results are kept; the one that was quiet longest is dropped."""

SessionKey: TypeAlias = tuple[str | None, str | None]
NumberedResult: TypeAlias = tuple[int, str, Outcome]
"""A number that grows with time, the tool and the outcome."""


class LastResults:
    """Outcomes by user and session. Calls without a session are not kept."""

    def __init__(self) -> None:
        self._results: dict[SessionKey, deque[NumberedResult]] = {}
        self._count = 0

    def add(self, principal: Principal, tool: str, outcome: Outcome) -> None:
        """Keep the outcome of a call that has just ended, without a reference to the call."""
        key = (principal.user, principal.session)
        results = self._results.pop(key, None)
        if results is None:
            results = deque(maxlen=MAX_RESULTS_PER_SESSION)
        self._count += 1
        results.append((self._count, tool, outcome.evolve()))
        self._results[key] = results
        while len(self._results) > MAX_SESSIONS:
            del self._results[next(iter(self._results))]

    def newest(self, session: str, user: str | None, limit: int) -> list[tuple[str, Outcome]]:
        """The results of a session, newest first; of all its users if no user is given."""
        own = (
            results
            for (owner, owner_session), results in self._results.items()
            if owner_session == session and user in (None, owner)
        )
        newest_first = sorted(chain.from_iterable(own), key=lambda result: -result[0])
        return [(tool, outcome) for _, tool, outcome in newest_first[: max(limit, 0)]]
