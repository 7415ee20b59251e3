"""Statistics: how often tools were called, and how that went."""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias


@dataclass(slots=True)
class ToolStats:
    """One tool's calls."""

    count: int = 0
    failures: int = 0
    seconds: float = 0.0

    @property
    def avg_duration(self) -> float:
        """Milliseconds per call."""
        return self.seconds * 1000 / self.count if self.count else 0.0


@dataclass(frozen=True, slots=True)
class Stats:
    """A runtime's statistics at one moment."""

    total: int
    """Tools in the catalogue."""
    by_category: dict[str, int]
    calls: dict[str, ToolStats]
    running: int = 0
    """Calls that are suspended somewhere in the pipeline."""
    abandoned: int = 0
    """Threads still running a sync handler whose time was up."""
    pending: int = 0
    """Calls that wait for somebody."""
    artifacts: int = 0


class MemoryJournalEntry(NamedTuple):
    """One call in the journal: what happened, without arguments or outcome."""

    call_id: str
    tool: str
    started_at: float
    latency_ms: float
    status: str
    """`ok`, `pending`, or the failure's code."""


MemoryJournalRow: TypeAlias = tuple[str, str, float, float, str]


class MemoryJournal:
    """The last calls, in memory; rows become entries when somebody reads them."""

    def __init__(self, size: int = 10_000) -> None:
        self._rows: deque[MemoryJournalRow] = deque(maxlen=size)
        self.append = self._rows.append

    def entries(self) -> list[MemoryJournalEntry]:
        """Oldest first."""
        offset = time.time() - time.perf_counter()
        return [
            MemoryJournalEntry(id, tool, began + offset, took * 1000, status)
            for id, tool, began, took, status in self._rows
        ]
