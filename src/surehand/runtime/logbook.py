"""Logbook: the ends of calls that need no transaction of their own, written together a moment later."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from surehand.store.database import Statement, StoreError

if TYPE_CHECKING:
    from surehand.runtime.reaper import Reaper
    from surehand.store.store import Store

log = logging.getLogger("surehand")
MOST, TOGETHER = 10_000, 500


class Logbook:
    """Lines on their way to the journal. What a call has done is never only here: that is in the ledger."""

    def __init__(self, store: Store, reaper: Reaper) -> None:
        self._store, self._reaper = store, reaper
        self._lines: list[list[Statement]] = []
        self._writing = False

    def add(self, line: list[Statement]) -> None:
        """Write a line soon; where the store will not take them, the oldest are given up."""
        self._lines.append(line)
        if len(self._lines) > MOST:
            del self._lines[:TOGETHER]
        if not self._writing:
            self._writing = True
            _ = self._reaper.own(self._write())

    async def _write(self) -> None:
        try:
            await self.flush()
        finally:
            self._writing = False

    async def flush(self) -> None:
        """Write what there is."""
        while lines := self._lines[:TOGETHER]:
            # Taken out first: whoever is cancelled in here, or flushes at the same time, must not write them twice.
            del self._lines[: len(lines)]
            try:
                await self._store.write([step for line in sorted(lines, key=_stream) for step in line])
            except StoreError as error:
                self._lines[:0] = lines
                log.warning("%d lines of the journal wait to be written: %s", len(self._lines), error)
                return


def _stream(line: list[Statement]) -> str:
    """In one order, whoever writes: two processes must not each wait for a stream that the other one has."""
    return str(line[1].params["stream"]) if len(line) > 1 else ""
