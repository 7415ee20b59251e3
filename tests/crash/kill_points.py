"""Kill points: the numbered moments of a process at which the harness can kill it.

The product does not know them: a process under test uses a connection to SQLite or PostgreSQL that counts statements.
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
    """Counts the points that the process reaches, and kills it, or other processes, at one of them."""

    def __init__(
        self,
        kill_at: int | str | None = None,
        *,
        victims: tuple[int, ...] = (),
        before_kill: Callable[[str], None] | None = None,
    ) -> None:
        self.names: list[str] = []
        self._counts: Counter[str] = Counter()
        self._kill_at = kill_at
        self._victims = victims
        self._before_kill = before_kill
        self._lock = Lock()

    def reach(self, name: str) -> None:
        """Count a point, and kill if it is the chosen one. SIGKILL flushes, closes and undoes nothing."""
        with self._lock:
            self.names.append(name)
            self._counts[name] += 1
            if self._kill_at in (len(self.names), _numbered_point(name, self._counts[name])):
                if self._before_kill is not None:
                    self._before_kill(name)
                for victim in self._victims or (os.getpid(),):
                    os.kill(victim or os.getpid(), signal.SIGKILL)

    def install(self) -> None:
        """Count the statements of this process from now on, in place of an earlier counter."""
        sqlite3.connect = partial(_connect, factory=partial(_CountingConnection, self))
        psycopg.AsyncConnection.execute = _count_statements(self, _execute)


def number_points(names: list[str]) -> list[str]:
    """Each point as its name and its number among points of that name, which does not depend on other threads."""
    seen: Counter[str] = Counter()
    return [_numbered_point(name, seen.update([name]) or seen[name]) for name in names]


def _numbered_point(name: str, number: int) -> str:
    return f"{name} ({number})"


class _CountingConnection(sqlite3.Connection):
    """Every statement of a transaction is a point, and so is the moment after a commit. Reads outside one are not.

    A group of writes in a single step is one statement, which commits by itself.
    """

    def __init__(self, points: Points, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._points = points

    def execute(self, sql: str, *params: Any) -> sqlite3.Cursor:
        is_single_step = sql.startswith("INSERT INTO temp.single_steps")
        if sql.startswith("BEGIN") or self.in_transaction or is_single_step:
            self._points.reach(f"before {_first_words(sql)}")
        cursor = super().execute(sql, *params)
        if sql.startswith("COMMIT") or is_single_step:
            self._points.reach("after COMMIT")
        return cursor


def _count_statements(points: Points, execute: Any) -> Any:
    async def execute_and_count(connection: Any, query: Any, *args: Any, **options: Any) -> Any:
        points.reach(f"before {_first_words(str(query))}")
        cursor = await execute(connection, query, *args, **options)
        points.reach(f"after {_first_words(str(query))}")
        return cursor

    return execute_and_count


def _first_words(sql: str) -> str:
    return " ".join(sql.split()[:3])
