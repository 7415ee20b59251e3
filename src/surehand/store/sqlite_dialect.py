"""The SQL of a statement as SQLite wants it, and its rows as everybody wants them."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from itertools import chain
from operator import itemgetter

from surehand.store.database import Row, Value

CLOCK = "surehand_now"
"""The function behind `{now}`; each connection brings it along."""

_PLAIN = re.compile(r"INSERT INTO \w+ \([\w\s,]+\)\s+VALUES |UPDATE ledger SET .*\sWHERE call_id = :call_id", re.DOTALL)
_PARAMETER = re.compile(r"(?<!:):([a-z_]\w*)")
_NUMBER = re.compile(r"\?(\d+)")
TOGETHER = 8
"""Rows that one statement puts in; more would gain little, and each other number is another statement to prepare."""
PATIENCE = 30.0
"""Seconds to wait for another process that holds the file."""
_WORDS = {
    "{now}": f"{CLOCK}()",
    "{serial}": "INTEGER PRIMARY KEY AUTOINCREMENT",
    "{blob}": "BLOB",
    "{real}": "REAL",
    "{tx}": "0",  # one writer: numbers are given in the order in which they are kept
    "{horizon}": "9223372036854775807",
    "{after}": "id > :id",
    "{order}": "id",
    "{order_down}": "id DESC",
    "{if_unordered}": "--",
    "{announce}": "SELECT 1 WHERE 1 = 0",  # others look from time to time
}


def execute(connection: sqlite3.Connection, sql: str, params: Mapping[str, Value]) -> sqlite3.Cursor:
    """Run one statement, written for both databases, on this one."""
    text, values = numbered(sql)
    return connection.execute(text, values(params))


def execute_each(connection: sqlite3.Connection, sql: str, params: Sequence[Mapping[str, Value]]) -> int:
    """Run one statement for each of many sets of parameters; how many rows that has put in or changed."""
    text, values = numbered(sql, _absent(params))
    rows = [*map(values, params)]
    count, several = 0, _of_several(text)
    while several is not None and len(rows) >= TOGETHER:
        count += connection.execute(several, [*chain.from_iterable(rows[:TOGETHER])]).rowcount
        del rows[:TOGETHER]
    return count + connection.executemany(text, rows).rowcount if rows else count


def _absent(params: Sequence[Mapping[str, Value]]) -> tuple[str, ...]:
    """What none of them has: to bind nothing costs Python's `sqlite3` ten times as much as to bind something."""
    unset = [name for name, value in params[0].items() if value is None]
    return tuple([name for name in unset if all([row[name] is None for row in params])])  # noqa: C419 - faster


def rows_of(cursor: sqlite3.Cursor) -> list[Row]:
    """Each row by the names of its columns."""
    if cursor.description is None:
        return []
    names = [column[0] for column in cursor.description]
    return [dict(zip(names, row, strict=True)) for row in cursor]


@lru_cache(maxsize=1024)
def native(sql: str) -> str:
    for word, meaning in _WORDS.items():
        sql = sql.replace(word, meaning)
    return sql


@lru_cache(maxsize=1024)
def numbered(sql: str, absent: tuple[str, ...] = ()) -> tuple[str, Callable[[Mapping[str, Value]], tuple[Value, ...]]]:
    """With numbers for names, and what gives the values in that order: each name costs more than its value."""
    names = [name for name in dict.fromkeys(_PARAMETER.findall(native(sql))) if name not in absent]
    places = {name: f"?{number}" for number, name in enumerate(names, 1)}
    text = _PARAMETER.sub(lambda found: places.get(found[1], "NULL"), native(sql))
    if len(names) > 1:
        return text, itemgetter(*names)
    return text, lambda params: tuple([params[name] for name in names])


@lru_cache(maxsize=1024)
def _of_several(text: str) -> str | None:
    """A statement that puts in several rows at once, where it puts in one: most of its cost is not the row."""
    start, values, row = text.partition("VALUES ")
    if not start.startswith("INSERT") or not values or "SELECT" in row:
        return None
    width = max([int(number) for number in _NUMBER.findall(row)], default=0)
    shifted = lambda by: _NUMBER.sub(lambda found: f"?{int(found[1]) + by * width}", row)  # noqa: E731
    return f"{start}VALUES {', '.join(map(shifted, range(TOGETHER)))}"


@lru_cache(maxsize=1024)
def light(shape: tuple[str, ...]) -> bool:
    """Whether statements only put in, change or look up a few rows."""
    return all(sql.startswith(("INSERT", "UPDATE", "SELECT")) for sql in shape)


@lru_cache(maxsize=1024)
def silent(shape: tuple[str, ...]) -> bool:
    """Whether each statement puts in or changes one row, by its key, and gives nothing back."""
    return all(_PLAIN.match(sql) and "RETURNING" not in sql and "ON CONFLICT" not in sql for sql in shape)
