"""Ids of calls, messages and other rows: ordered by time, and not guessable."""

from __future__ import annotations

import os
from time import time

_RANDOM_BYTES_PER_ID = 12
_IDS_PER_FETCH = 256
MAX_CALL_ID_LENGTH = 200
_RUN_SUFFIX = ".run"


class _IdGenerator:
    """Makes ids. It fetches random bytes for many ids at once: one system call costs more than the rest of an id."""

    def __init__(self) -> None:
        self.reset()
        # A forked child with the same random bytes would make the same ids as its parent.
        os.register_at_fork(after_in_child=self.reset)

    def reset(self) -> None:
        self._random_parts: list[str] = []
        self._prefix_valid_from = self._prefix_valid_until = 0.0
        self._prefix = ""

    def _fetch_random_parts(self) -> None:
        digits = os.urandom(_RANDOM_BYTES_PER_ID * _IDS_PER_FETCH).hex(" ", _RANDOM_BYTES_PER_ID)
        self._random_parts += digits.split()

    def new(self) -> str:
        """A new id: 48 bits of milliseconds and 96 random bits, as 36 hexadecimal digits."""
        # Most ids of a busy program are made within the same millisecond: their common prefix is formatted once.
        now = time()
        if not self._prefix_valid_from <= now < self._prefix_valid_until:
            milliseconds = int(now * 1000)
            self._prefix_valid_from = milliseconds / 1000
            self._prefix_valid_until = (milliseconds + 1) / 1000
            self._prefix = f"{milliseconds:012x}"
        try:
            return self._prefix + self._random_parts.pop()  # `pop` is atomic under the GIL: threads need no lock
        except IndexError:
            self._fetch_random_parts()
            return self.new()


new_id = _IdGenerator().new


def derive_call_id(run: str, step: int, position: int) -> str:
    """The id of a call in a run: the same for the same run, step and position, whatever id the model gave it."""
    call_id = f"{run}.{step}.{position}"
    if len(call_id) <= MAX_CALL_ID_LENGTH:
        return call_id
    from hashlib import sha256  # takes longer to import than the rest of the core

    return f"{sha256(run.encode()).hexdigest()}.{step}.{position}"


def derive_run_id(call_id: str) -> str:
    """The id of the run that a call of an agent starts: the same for the same call, however often it is made."""
    return f"{call_id}{_RUN_SUFFIX}"


def find_starting_call(run_id: str) -> str:
    """The id of the call that started the run of a sub-agent, from the id of the run."""
    return run_id.removesuffix(_RUN_SUFFIX)


def is_run_of_call(run_id: str) -> bool:
    """Whether a run may have been started by a call of an agent, which then waits for it."""
    return run_id.endswith(_RUN_SUFFIX)
