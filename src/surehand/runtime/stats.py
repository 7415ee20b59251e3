"""Statistics: counts and durations of calls by tool, and the journal in memory."""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeAlias


@dataclass(slots=True)
class ToolStats:
    """Counts and total duration of one tool's calls."""

    count: int = 0
    failures: int = 0
    seconds: float = 0.0

    @property
    def avg_duration(self) -> float:
        """Average milliseconds per call."""
        return self.seconds * 1000 / self.count if self.count else 0.0


class StatsTable:
    """The statistics of a runtime by tool."""

    def __init__(self) -> None:
        self._by_tool: dict[str, ToolStats] = {}

    def of_tool(self, name: str) -> ToolStats:
        """The statistics of one tool, which its calls change."""
        return self._by_tool.setdefault(name, ToolStats())

    def snapshot(self) -> dict[str, ToolStats]:
        """Copies of the statistics of all tools that were called."""
        return {name: replace(counter) for name, counter in self._by_tool.items() if counter.count}


@dataclass(frozen=True, slots=True)
class Stats:
    """A snapshot of a runtime's statistics."""

    total: int
    """Number of tools in the catalogue."""
    by_category: dict[str, int]
    calls: dict[str, ToolStats]
    running: int = 0
    """Calls that are awaiting something in the pipeline."""
    abandoned: int = 0
    """Threads that still run a sync handler after its timeout."""
    pending: int = 0
    """Pending calls."""
    artifacts: int = 0


class MemoryJournalEntry(NamedTuple):
    """One call in the journal in memory, without arguments and outcome."""

    call_id: str
    tool: str
    started_at: float
    latency_ms: float
    status: str
    """`ok`, `pending`, or the failure's code."""


MemoryJournalRow: TypeAlias = tuple[str, str, float, float, str]


class MemoryJournal:
    """The last calls, in memory. Calls append plain tuples; reading turns them into entries."""

    def __init__(self, size: int = 10_000) -> None:
        self._rows: deque[MemoryJournalRow] = deque(maxlen=size)
        self.append = self._rows.append

    def entries(self) -> list[MemoryJournalEntry]:
        """The entries, oldest first."""
        offset = time.time() - time.perf_counter()
        return [
            MemoryJournalEntry(id, tool, began + offset, took * 1000, status)
            for id, tool, began, took, status in self._rows
        ]
