"""Points: the numbered moments of a process's life, at one of which it is killed.

Nothing in the product knows of them: a process that may be killed connects to SQLite, or speaks to PostgreSQL, through
a connection that counts first.
"""

from __future__ import annotations

import os
import signal
import sqlite3
from collections import Counter
from collections.abc import Callable
from functools import partial
from threading import Lock
from typing import Any

import psycopg

_connect, _execute = sqlite3.connect, psycopg.AsyncConnection.execute


class Points:
    """Counts the points that are reached, and kills the process, or another one, at one of them."""

    def __init__(
        self,
        deadly: int | str | None = None,
        *,
        victims: tuple[int, ...] = (),
        last_words: Callable[[str], None] | None = None,
    ) -> None:
        self.names: list[str] = []
        self._deadly, self._victims, self._last_words = deadly, victims, last_words
        self._lock = Lock()

    def reach(self, name: str) -> None:
        """Here it may end. Nothing is flushed, closed or undone."""
        with self._lock:
            self.names.append(name)
            if self._deadly is not None and self._deadly in (len(self.names), numbered(self.names)[-1]):
                if self._last_words is not None:
                    self._last_words(name)
                for victim in self._victims or (os.getpid(),):
                    os.kill(victim or os.getpid(), signal.SIGKILL)

    def watch(self) -> None:
        """Count what this process asks of a database, from now on and in place of those who counted before."""
        sqlite3.connect = partial(_connect, factory=partial(_Watched, self))
        psycopg.AsyncConnection.execute = _watched(self, _execute)


def numbered(names: list[str]) -> list[str]:
    """Each point by its name and how often that was reached: the same however other threads come in between."""
    seen: Counter[str] = Counter()
    return [f"{name} ({seen.update([name]) or seen[name]})" for name in names]


class _Watched(sqlite3.Connection):
    """Every statement of a transaction is a point, and so is the moment after it is kept. Reading changes nothing."""

    def __init__(self, points: Points, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._points = points

    def execute(self, sql: str, *params: Any) -> sqlite3.Cursor:
        if sql.startswith("BEGIN") or self.in_transaction:
            self._points.reach(f"before {_brief(sql)}")
        cursor = super().execute(sql, *params)
        if sql.startswith("COMMIT"):
            self._points.reach("after COMMIT")
        return cursor


def _watched(points: Points, execute: Any) -> Any:
    async def counted(connection: Any, query: Any, *args: Any, **options: Any) -> Any:
        points.reach(f"before {_brief(str(query))}")
        cursor = await execute(connection, query, *args, **options)
        points.reach(f"after {_brief(str(query))}")
        return cursor

    return counted


def _brief(sql: str) -> str:
    return " ".join(sql.split()[:3])
