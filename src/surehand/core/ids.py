"""Call ids: time-ordered and unguessable, made only when somebody needs one."""

from __future__ import annotations

import os
from time import time

_RANDOM_BYTES_PER_ID, _IDS_PER_FETCH = 12, 256


class _IdGenerator:
    """Random bytes are fetched many at a time: one request to the system costs more than all the rest of an id."""

    def __init__(self) -> None:
        self.reset()
        os.register_at_fork(after_in_child=self.reset)  # a child that inherited them would make the same ids

    def reset(self) -> None:
        self._random_parts: list[str] = []
        self._prefix_valid_from = self._prefix_valid_until = 0.0
        self._prefix = ""

    def _fetch_random_parts(self) -> None:
        drawn = os.urandom(_RANDOM_BYTES_PER_ID * _IDS_PER_FETCH).hex()
        self._random_parts += [
            drawn[start : start + 2 * _RANDOM_BYTES_PER_ID] for start in range(0, len(drawn), 2 * _RANDOM_BYTES_PER_ID)
        ]

    def new(self) -> str:
        """48 bits of milliseconds and 96 random bits, as 36 hexadecimal digits."""
        if not self._prefix_valid_from <= (moment := time()) < self._prefix_valid_until:
            milliseconds = int(moment * 1000)
            self._prefix_valid_from, self._prefix_valid_until = milliseconds / 1000, (milliseconds + 1) / 1000
            self._prefix = f"{milliseconds:012x}"
        try:
            return self._prefix + self._random_parts.pop()
        except IndexError:
            self._fetch_random_parts()
            return self.new()


new_id = _IdGenerator().new
