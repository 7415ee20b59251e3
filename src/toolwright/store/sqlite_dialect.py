"""The SQL of a statement as SQLite wants it, and its rows as everybody wants them."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from operator import itemgetter

from toolwright.store.database import Row, Value

CLOCK = "toolwright_now"
"""The function behind `{now}`; each connection brings it along."""

_PLAIN = re.compile(r"INSERT INTO \w+ \([\w\s,]+\)\s+VALUES |UPDATE ledger SET .*\sWHERE call_id = :call_id", re.DOTALL)
_PARAMETER = re.compile(r"(?<!:):([a-z_]\w*)")
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


def executemany(connection: sqlite3.Connection, sql: str, params: Sequence[Mapping[str, Value]]) -> sqlite3.Cursor:
    """Run one statement for each of many sets of parameters."""
    text, values = numbered(sql)
    return connection.executemany(text, map(values, params))


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
def numbered(sql: str) -> tuple[str, Callable[[Mapping[str, Value]], tuple[Value, ...]]]:
    """With numbers for names, and what gives the values in that order: each name costs more than its value."""
    names = list(dict.fromkeys(_PARAMETER.findall(native(sql))))
    text = _PARAMETER.sub(lambda found: f"?{names.index(found[1]) + 1}", native(sql))
    if len(names) > 1:
        return text, itemgetter(*names)
    return text, lambda params: tuple([params[name] for name in names])


@lru_cache(maxsize=1024)
def light(shape: tuple[str, ...]) -> bool:
    """Whether statements only put in, change or look up a few rows."""
    return all(sql.startswith(("INSERT", "UPDATE", "SELECT")) for sql in shape)


@lru_cache(maxsize=1024)
def silent(shape: tuple[str, ...]) -> bool:
    """Whether each statement puts in or changes one row, by its key, and gives nothing back."""
    return all(_PLAIN.match(sql) and "RETURNING" not in sql and "ON CONFLICT" not in sql for sql in shape)
