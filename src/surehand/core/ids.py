"""Call ids: time-ordered and unguessable, made only when somebody needs one."""

from __future__ import annotations

import os
from time import time

_CHUNK, _POOL = 12, 256


class _Ids:
    """Random bytes are fetched many at a time: one request to the system costs more than all the rest of an id."""

    def __init__(self) -> None:
        self.forget()
        os.register_at_fork(after_in_child=self.forget)  # a child that inherited them would make the same ids

    def forget(self) -> None:
        self._left: list[str] = []
        self._since = self._until = 0.0
        self._prefix = ""

    def _fetch(self) -> None:
        drawn = os.urandom(_CHUNK * _POOL).hex()
        self._left += [drawn[start : start + 2 * _CHUNK] for start in range(0, len(drawn), 2 * _CHUNK)]

    def new(self) -> str:
        """48 bits of milliseconds and 96 random bits, as 36 hexadecimal digits."""
        if not self._since <= (moment := time()) < self._until:
            milliseconds = int(moment * 1000)
            self._since, self._until = milliseconds / 1000, (milliseconds + 1) / 1000
            self._prefix = f"{milliseconds:012x}"
        try:
            return self._prefix + self._left.pop()
        except IndexError:
            self._fetch()
            return self.new()


new_id = _Ids().new
