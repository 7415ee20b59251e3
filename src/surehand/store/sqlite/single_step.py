"""Single-step transactions: a group of writes as one SQLite statement, from its first lock to its commit.

Python's `sqlite3` gives the GIL up while SQLite executes a statement, and needs it again before the next one. Between
`BEGIN` and `COMMIT`, a handler that holds the GIL (a regular expression, a large sort) would keep SQLite's write lock
that long, and stop every other process on the file. One statement outside of a transaction commits by itself, in the
same call, so no handler can come between.

The statement inserts rows into a temporary view, one for each write. The view has a trigger for each kind of write,
which executes its statements. The parameters are passed as one JSON text. `group_commit.py` executes the groups that do
not fit in this form.
"""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Callable, Iterable, Sequence
from itertools import count
from typing import NamedTuple, TypeAlias

from surehand.store.database import SqlValue, Statement
from surehand.store.sqlite.dialect import CLOCK_FUNCTION, returns_no_rows, sqlite_sql

MAX_TRIGGERS = 32
"""Triggers of a connection: every row asks each of them whether it is meant."""
MAX_STATEMENTS_PER_TRIGGER = 4
"""The statements of a longer write get a row each, because such writes are seldom equal."""
_NO_OPERATION = "{announce}"
"""Other processes poll a SQLite file, so there is nothing to announce."""
_NAMED_PARAMETER = re.compile(r"(?<!:):([a-z_]\w*)")
# Temporary names come before those of the file: the view must not be called like one of its tables.
_CREATE_VIEW = "CREATE TEMP VIEW IF NOT EXISTS single_steps AS SELECT 0 AS number, 0.0 AS now, '' AS params"
_INSERT_STEPS = """INSERT INTO temp.single_steps (number, now, params)
    SELECT json_extract(value, '$[0]'), ?2, json_extract(value, '$[1]') FROM json_each(?1)"""

TriggerKey: TypeAlias = tuple[tuple[str, int | None], ...]
"""The SQL text and the expected row count of each statement."""


class Trigger(NamedTuple):
    """The trigger that executes certain statements."""

    number: int
    parameter_names: tuple[tuple[str, ...], ...]
    """Of each statement, in the order in which the values are passed."""


class SingleStepWriter:
    """Executes the statements of many writes in one step, on the connection of the writer thread."""

    def __init__(self, connection: sqlite3.Connection, now: Callable[[], float]) -> None:
        self._connection = connection
        self._now = now
        self._triggers: dict[TriggerKey, Trigger | None] = {}
        """None for statements that cannot be executed by a trigger."""

    def encode(self, writes: Iterable[Sequence[Statement]]) -> str | None:
        """Encode writes as the parameter of `execute`; None if one of them does not fit."""
        steps: list[tuple[int, list[SqlValue]]] = []
        for statements in writes:
            size = len(statements) if len(statements) <= MAX_STATEMENTS_PER_TRIGGER else 1
            for start in range(0, len(statements), size or 1):
                part = [each for each in statements[start : start + size] if each.sql != _NO_OPERATION]
                trigger = self._find_trigger(tuple([(each.sql, each.expect) for each in part]))
                if trigger is None:
                    return None
                values = [
                    each.params[name]
                    for each, names in zip(part, trigger.parameter_names, strict=True)
                    for name in names
                ]
                steps.append((trigger.number, values))
        try:
            return json.dumps(steps, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        except (TypeError, ValueError):  # bytes, or a number that JSON does not have
            return None

    def execute(self, steps: str) -> None:
        """Execute and commit encoded writes; raises, and changes nothing, if one fails or is not as expected."""
        self._connection.execute(_INSERT_STEPS, (steps, self._now()))

    def drop_triggers(self) -> None:
        """Drop all triggers before the tables change: SQLite would rewrite them, or refuse the change."""
        if self._triggers:
            self._connection.execute("DROP VIEW IF EXISTS temp.single_steps")
            self._triggers.clear()

    def _find_trigger(self, key: TriggerKey) -> Trigger | None:
        try:
            return self._triggers[key]
        except KeyError:
            trigger = self._triggers[key] = self._create_trigger(key)
            return trigger

    def _create_trigger(self, key: TriggerKey) -> Trigger | None:
        number = len(self._triggers) + 1
        if number > MAX_TRIGGERS or not returns_no_rows(tuple([sql for sql, _ in key])):
            return None
        body: list[str] = []
        all_names: list[tuple[str, ...]] = []
        value_index = count()
        for sql, expected in key:
            text = sqlite_sql(sql)
            names = tuple(dict.fromkeys(_NAMED_PARAMETER.findall(text)))
            values = {name: f"json_extract(NEW.params, '$[{next(value_index)}]')" for name in names}
            text = _NAMED_PARAMETER.sub(lambda match, values=values: values[match[1]], text)  # type: ignore[misc]
            # The clock is a Python function: calling it in the middle of the statement would need the GIL.
            body.append(text.replace(f"{CLOCK_FUNCTION}()", "NEW.now"))
            if expected is not None:
                body.append(f"SELECT RAISE(ABORT, 'unexpected row count') WHERE changes() <> {int(expected)}")
            all_names.append(names)
        self._connection.execute(_CREATE_VIEW)
        self._connection.execute(
            f"CREATE TEMP TRIGGER step_{number} INSTEAD OF INSERT ON single_steps WHEN NEW.number = {number} "
            f"BEGIN {'; '.join(body or ['SELECT 1'])}; END"
        )
        return Trigger(number, tuple(all_names))
