"""The SQL of a statement as SQLite wants it, and its rows as everybody wants them."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from itertools import chain
from operator import itemgetter

from surehand.store.database import Row, SqlValue

CLOCK_FUNCTION = "surehand_now"
"""The function behind `{now}`; each connection brings it along."""

_SINGLE_ROW_CHANGE = re.compile(
    r"INSERT INTO \w+ \([\w\s,]+\)\s+VALUES |UPDATE ledger SET .*\sWHERE call_id = :call_id", re.DOTALL
)
_NAMED_PARAMETER = re.compile(r"(?<!:):([a-z_]\w*)")
_NUMBERED_PARAMETER = re.compile(r"\?(\d+)")
ROWS_PER_INSERT = 8
"""Rows that one statement puts in; more would gain little, and each other number is another statement to prepare."""
BUSY_TIMEOUT_SECONDS = 30.0
"""Seconds to wait for another process that holds the file."""
_PLACEHOLDERS = {
    "{now}": f"{CLOCK_FUNCTION}()",
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


def execute_statement(connection: sqlite3.Connection, sql: str, params: Mapping[str, SqlValue]) -> sqlite3.Cursor:
    """Run one statement, written for both databases, on this one."""
    text, values = number_parameters(sql)
    return connection.execute(text, values(params))


def execute_many(connection: sqlite3.Connection, sql: str, params: Sequence[Mapping[str, SqlValue]]) -> int:
    """Run one statement for each of many sets of parameters; how many rows that has put in or changed."""
    text, values = number_parameters(sql, _null_parameters(params))
    rows = [*map(values, params)]
    count, several = 0, _multi_row_insert(text)
    while several is not None and len(rows) >= ROWS_PER_INSERT:
        count += connection.execute(several, [*chain.from_iterable(rows[:ROWS_PER_INSERT])]).rowcount
        del rows[:ROWS_PER_INSERT]
    return count + connection.executemany(text, rows).rowcount if rows else count


def _null_parameters(params: Sequence[Mapping[str, SqlValue]]) -> tuple[str, ...]:
    """What none of them has: to bind nothing costs Python's `sqlite3` ten times as much as to bind something."""
    unset = [name for name, value in params[0].items() if value is None]
    return tuple([name for name in unset if all([row[name] is None for row in params])])  # noqa: C419 - faster


def fetch_rows(cursor: sqlite3.Cursor) -> list[Row]:
    """Each row by the names of its columns."""
    if cursor.description is None:
        return []
    names = [column[0] for column in cursor.description]
    return [dict(zip(names, row, strict=True)) for row in cursor]


@lru_cache(maxsize=1024)
def sqlite_sql(sql: str) -> str:
    for word, meaning in _PLACEHOLDERS.items():
        sql = sql.replace(word, meaning)
    return sql


@lru_cache(maxsize=1024)
def number_parameters(
    sql: str, null_names: tuple[str, ...] = ()
) -> tuple[str, Callable[[Mapping[str, SqlValue]], tuple[SqlValue, ...]]]:
    """With numbers for names, and what gives the values in that order: each name costs more than its value."""
    names = [name for name in dict.fromkeys(_NAMED_PARAMETER.findall(sqlite_sql(sql))) if name not in null_names]
    places = {name: f"?{number}" for number, name in enumerate(names, 1)}
    text = _NAMED_PARAMETER.sub(lambda found: places.get(found[1], "NULL"), sqlite_sql(sql))
    if len(names) > 1:
        return text, itemgetter(*names)
    return text, lambda params: tuple([params[name] for name in names])


@lru_cache(maxsize=1024)
def _multi_row_insert(text: str) -> str | None:
    """A statement that puts in several rows at once, where it puts in one: most of its cost is not the row."""
    start, values, row = text.partition("VALUES ")
    if not start.startswith("INSERT") or not values or "SELECT" in row:
        return None
    width = max([int(number) for number in _NUMBERED_PARAMETER.findall(row)], default=0)
    shifted = lambda by: _NUMBERED_PARAMETER.sub(lambda found: f"?{int(found[1]) + by * width}", row)  # noqa: E731
    return f"{start}VALUES {', '.join(map(shifted, range(ROWS_PER_INSERT)))}"


@lru_cache(maxsize=1024)
def touches_few_rows(sql_texts: tuple[str, ...]) -> bool:
    """Whether statements only put in, change or look up a few rows."""
    return all(sql.startswith(("INSERT", "UPDATE", "SELECT")) for sql in sql_texts)


@lru_cache(maxsize=1024)
def can_run_in_bulk(sql_texts: tuple[str, ...]) -> bool:
    """Whether each statement puts in or changes one row, by its key, and gives nothing back."""
    return all(
        _SINGLE_ROW_CHANGE.match(sql) and "RETURNING" not in sql and "ON CONFLICT" not in sql for sql in sql_texts
    )
