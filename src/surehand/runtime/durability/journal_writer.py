"""Logbook: the ends of calls that need no transaction of their own, written together a moment later."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from surehand.store.database import Statement, StoreError

if TYPE_CHECKING:
    from surehand.runtime.pipeline.reaper import Reaper
    from surehand.store.store import Store

log = logging.getLogger("surehand")
MAX_BUFFERED_ENTRIES, ENTRIES_PER_WRITE = 10_000, 500


class JournalWriter:
    """Lines on their way to the journal. What a call has done is never only here: that is in the ledger."""

    def __init__(self, store: Store, reaper: Reaper) -> None:
        self._store, self._reaper = store, reaper
        self._buffered_entries: list[list[Statement]] = []
        self._is_writing = False

    def add(self, entry: list[Statement]) -> None:
        """Write a line soon; where the store will not take them, the oldest are given up."""
        self._buffered_entries.append(entry)
        if len(self._buffered_entries) > MAX_BUFFERED_ENTRIES:
            del self._buffered_entries[:ENTRIES_PER_WRITE]
        if not self._is_writing:
            self._is_writing = True
            _ = self._reaper.spawn(self._flush_in_background())

    async def _flush_in_background(self) -> None:
        try:
            await self.flush()
        finally:
            self._is_writing = False

    async def flush(self) -> None:
        """Write what there is."""
        while lines := self._buffered_entries[:ENTRIES_PER_WRITE]:
            # Taken out first: whoever is cancelled in here, or flushes at the same time, must not write them twice.
            del self._buffered_entries[: len(lines)]
            try:
                await self._store.write([step for line in sorted(lines, key=_stream_name) for step in line])
            except StoreError as error:
                self._buffered_entries[:0] = lines
                log.warning("%d lines of the journal wait to be written: %s", len(self._buffered_entries), error)
                return


def _stream_name(entry: list[Statement]) -> str:
    """In one order, whoever writes: two processes must not each wait for a stream that the other one has."""
    return str(entry[1].params["stream"]) if len(entry) > 1 else ""
