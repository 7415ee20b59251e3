"""Journal writer: writes journal entries of ended calls in batches, in the background."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from surehand.store.database import Statement, StoreError

if TYPE_CHECKING:
    from surehand.runtime.pipeline.reaper import Reaper
    from surehand.store.store import Store

log = logging.getLogger("surehand")
MAX_BUFFERED_ENTRIES = 10_000
ENTRIES_PER_WRITE = 500


class JournalWriter:
    """Buffers journal entries; losing them loses no outcome, because outcomes are in the ledger."""

    def __init__(self, store: Store, reaper: Reaper) -> None:
        self._store = store
        self._reaper = reaper
        self._buffered_entries: list[list[Statement]] = []
        self._is_writing = False

    def add(self, entry: list[Statement]) -> None:
        """Buffer an entry; if the store stays unavailable, the oldest entries are dropped."""
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
        """Write all buffered entries."""
        while entries := self._buffered_entries[:ENTRIES_PER_WRITE]:
            # Remove them before the write: a cancelled or a concurrent flush must not write them twice.
            del self._buffered_entries[: len(entries)]
            statements = [statement for entry in sorted(entries, key=_stream_name) for statement in entry]
            try:
                await self._store.write(statements)
            except StoreError as error:
                self._buffered_entries[:0] = entries
                log.warning("%d journal entries could not be written yet: %s", len(self._buffered_entries), error)
                return


def _stream_name(entry: list[Statement]) -> str:
    """Sort key: all processes lock the rows of streams in the same order, so that they cannot deadlock."""
    return str(entry[1].params["stream"]) if len(entry) > 1 else ""
