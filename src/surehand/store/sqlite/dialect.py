"""The SQLite dialect: placeholders of the portable SQL, numbered parameters, and statements for several rows."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from itertools import chain
from operator import itemgetter

from surehand.store.database import Row, SqlValue

CLOCK_FUNCTION = "surehand_now"
"""The SQL function behind `{now}`, registered on every connection."""

_SINGLE_ROW_CHANGE = re.compile(
    r"INSERT INTO \w+ \([\w\s,]+\)\s+VALUES |UPDATE ledger SET .*\sWHERE call_id = :call_id", re.DOTALL
)
_NAMED_PARAMETER = re.compile(r"(?<!:):([a-z_]\w*)")
_NUMBERED_PARAMETER = re.compile(r"\?(\d+)")
ROWS_PER_INSERT = 8
"""Rows of one INSERT; more would gain little, and every other number would be another statement to prepare."""
BUSY_TIMEOUT_SECONDS = 30.0
"""How long to wait for another process that has locked the file."""
_PLACEHOLDERS = {
    "{now}": f"{CLOCK_FUNCTION}()",
    "{serial}": "INTEGER PRIMARY KEY AUTOINCREMENT",
    "{blob}": "BLOB",
    "{real}": "REAL",
    "{tx}": "0",  # one writer at a time: ids are assigned in commit order
    "{horizon}": "9223372036854775807",
    "{after}": "id > :id",
    "{order}": "id",
    "{order_down}": "id DESC",
    "{if_unordered}": "--",  # a comment: the rest of the line is for PostgreSQL, where ids are not in commit order
    "{announce}": "SELECT 1 WHERE 1 = 0",  # other processes poll
    "{lock}": "SELECT 1 WHERE 1 = 0",  # one writer at a time
    "{parent}": "json_extract(context, '$.parent')",
}


def execute_statement(connection: sqlite3.Connection, sql: str, params: Mapping[str, SqlValue]) -> sqlite3.Cursor:
    """Execute one portable statement."""
    text, values = number_parameters(sql)
    return connection.execute(text, values(params))


def execute_many(connection: sqlite3.Connection, sql: str, params: Sequence[Mapping[str, SqlValue]]) -> int:
    """Execute one statement for many sets of parameters; returns the number of inserted or changed rows."""
    text, values = number_parameters(sql, _null_parameters(params))
    rows = [*map(values, params)]
    count = 0
    insert = _multi_row_insert(text)
    while insert is not None and len(rows) >= ROWS_PER_INSERT:
        count += connection.execute(insert, [*chain.from_iterable(rows[:ROWS_PER_INSERT])]).rowcount
        del rows[:ROWS_PER_INSERT]
    if rows:
        count += connection.executemany(text, rows).rowcount
    return count


def _null_parameters(params: Sequence[Mapping[str, SqlValue]]) -> tuple[str, ...]:
    """Return the names that are None in every set: binding None costs Python's `sqlite3` ten times a value."""
    candidates = [name for name, value in params[0].items() if value is None]
    return tuple([name for name in candidates if all([row[name] is None for row in params])])  # noqa: C419 - faster


def fetch_rows(cursor: sqlite3.Cursor) -> list[Row]:
    """Fetch all rows as dictionaries."""
    if cursor.description is None:
        return []
    names = [column[0] for column in cursor.description]
    return [dict(zip(names, row, strict=True)) for row in cursor]


@lru_cache(maxsize=1024)
def sqlite_sql(sql: str) -> str:
    """Replace the words in braces by SQLite's own SQL."""
    for word, meaning in _PLACEHOLDERS.items():
        sql = sql.replace(word, meaning)
    return sql


@lru_cache(maxsize=1024)
def number_parameters(
    sql: str, null_names: tuple[str, ...] = ()
) -> tuple[str, Callable[[Mapping[str, SqlValue]], tuple[SqlValue, ...]]]:
    """Replace named by numbered parameters, which bind faster; returns the SQL and a function that orders values."""
    names = [name for name in dict.fromkeys(_NAMED_PARAMETER.findall(sqlite_sql(sql))) if name not in null_names]
    numbers = {name: f"?{number}" for number, name in enumerate(names, 1)}
    text = _NAMED_PARAMETER.sub(lambda match: numbers.get(match[1], "NULL"), sqlite_sql(sql))
    if len(names) > 1:
        return text, itemgetter(*names)
    return text, lambda params: tuple([params[name] for name in names])


@lru_cache(maxsize=1024)
def _multi_row_insert(text: str) -> str | None:
    """Turn an INSERT of one row into one of several: most of its cost is per statement, not per row."""
    start, values, row = text.partition("VALUES ")
    if not start.startswith("INSERT") or not values or "SELECT" in row:
        return None
    width = max([int(number) for number in _NUMBERED_PARAMETER.findall(row)], default=0)

    def renumber(index: int) -> str:
        return _NUMBERED_PARAMETER.sub(lambda match: f"?{int(match[1]) + index * width}", row)

    return f"{start}VALUES {', '.join(map(renumber, range(ROWS_PER_INSERT)))}"


@lru_cache(maxsize=1024)
def touches_few_rows(sql_texts: tuple[str, ...]) -> bool:
    """Whether the statements only insert, update or select, which takes little time."""
    return all(sql.startswith(("INSERT", "UPDATE", "SELECT")) for sql in sql_texts)


@lru_cache(maxsize=1024)
def can_run_in_bulk(sql_texts: tuple[str, ...]) -> bool:
    """Whether each statement inserts or updates one row by its key and returns nothing."""
    return all(
        _SINGLE_ROW_CHANGE.match(sql) and "RETURNING" not in sql and "ON CONFLICT" not in sql for sql in sql_texts
    )


@lru_cache(maxsize=1024)
def returns_no_rows(sql_texts: tuple[str, ...]) -> bool:
    """Whether the statements only change rows: none of them selects or returns any."""
    return all(
        sql == "{announce}" or (sql.startswith(("INSERT", "UPDATE", "DELETE")) and "RETURNING" not in sql)
        for sql in sql_texts
    )


@lru_cache(maxsize=1024)
def changes_tables(sql_texts: tuple[str, ...]) -> bool:
    """Whether a statement creates, changes or drops a table, as a migration does."""
    return any(sql.lstrip().startswith(("CREATE", "ALTER", "DROP")) for sql in sql_texts)
