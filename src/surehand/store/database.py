"""The database interface: writes as lists of statements, and reads, the same on SQLite and on PostgreSQL.

The tables use it, `sqlite/` and `postgres/` implement it. It touches no database itself.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol, TypeAlias

from surehand.store.errors import StoreError as StoreError
from surehand.store.errors import StoreUnavailable as StoreUnavailable
from surehand.store.errors import UnexpectedRowCount as UnexpectedRowCount
from surehand.store.errors import UnstorableValue as UnstorableValue

SqlValue: TypeAlias = str | int | float | bytes | None
Row: TypeAlias = dict[str, Any]

INT64_LIMIT = 1 << 63
MAX_NAME_LENGTH = 1_000
"""Names in the journal and the audit are cut to this many characters."""
_OWNER_PATTERN = re.compile(r"[0-9a-f]+")


class Statement(NamedTuple):
    """One statement of a write. Its decisions are made in SQL, so that one text serves both databases.

    `:name` is a parameter. Words in braces are replaced by each database's own SQL: `{now}` is its time in seconds,
    `{tx}` the number of the transaction. No transaction can still add a row with a `tx` below `{horizon}`; `{after}`
    selects the rows after the position `:tx, :id`, and `{order}` sorts by it. `{announce}` notifies other processes.
    `{lock}` holds the lock `:name` until the end of the transaction. `{parent}` is the text `parent` in the column
    `context`, which is JSON.
    """

    sql: str
    params: Mapping[str, SqlValue] = MappingProxyType({})
    expect: int | None = None
    """How many rows the statement must change or return; any other number undoes the whole write."""
    validated_size: int | None = None
    """Characters and bytes of the parameters, if they are known to be valid: they are not validated again."""


class Database(Protocol):
    """Reads and writes, owner locks, and notifications between the processes that share the database."""

    def write(self, statements: Sequence[Statement]) -> Coroutine[Any, Any, list[list[Row]]]:
        """Execute the statements in one durable transaction, all or nothing; returns the rows of each.

        A cancelled caller is interrupted when its write was committed, rolled back or withdrawn, or when the database
        does not say which in time: then the write is in doubt, as after a crash.
        """
        ...

    async def write_without_limit(self, statements: Sequence[Statement]) -> list[list[Row]]:
        """Like `write`, for migrations: however long it takes."""
        ...

    @property
    def is_read_only(self) -> bool:
        """Whether every write is refused."""
        ...

    @property
    def is_stalled(self) -> bool:
        """Whether the last request got no reply in time; a write that can be repeated later should be."""
        ...

    async def read(self, sql: str, params: Mapping[str, SqlValue] | None = None) -> list[Row]:
        """Read rows as dictionaries."""
        ...

    async def quick_read(self, sql: str, params: Mapping[str, SqlValue] | None = None) -> list[tuple[Any, ...]]:
        """Read a few rows by an index, as tuples; SQLite does it on the event loop, which is faster than a thread."""
        ...

    async def acquire_owner_lock(self, owner: str) -> None:
        """Acquire the lock of an owner; the system releases it when the process ends."""
        ...

    async def release_owner_lock(self, owner: str) -> None:
        """Release the lock of an owner."""
        ...

    async def live_owners(self, owners: Collection[str]) -> set[str]:
        """Return the owners that hold their lock. In doubt an owner counts as live, and its lease decides."""
        ...

    def on_announce(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call back when a process may have announced something; returns a function that unsubscribes."""
        ...

    def on_write(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call back when a process may have written announced rows; returns a function that unsubscribes."""
        ...

    async def vacuum(self) -> None:
        """Return the space of deleted rows to the file system."""
        ...

    async def size_bytes(self) -> int:
        """Return the size of the whole database."""
        ...

    async def close(self) -> None:
        """Finish the requested work, then close all connections."""
        ...


def read_only_error() -> StoreUnavailable:
    """Build the error for a write to a database that was opened read-only."""
    return StoreUnavailable("The store is read-only.")


def validate_params(params: Mapping[str, SqlValue]) -> int:
    """Reject values that either database would reject, so that both behave alike; returns their size."""
    size = 0
    for name, value in params.items():
        if value.__class__ is str:  # comparing classes is faster than isinstance, and this runs for every parameter
            size += len(value)
            if "\0" in value or not value.isascii():
                _validate_text(name, value)
        elif value is not None and value.__class__ is not float:
            size += _validate_non_text(name, value)
    return size


def _validate_non_text(name: str, value: SqlValue) -> int:
    if isinstance(value, str):  # a subclass of str
        _validate_text(name, value)
    elif isinstance(value, int):
        if not -INT64_LIMIT <= value < INT64_LIMIT:
            raise UnstorableValue(f"{name} is an integer of more than 64 bits.")
        return 0
    return len(value) if isinstance(value, (str, bytes)) else 0


def _validate_text(name: str, value: str) -> None:
    if "\0" in value:
        raise UnstorableValue(f"{name} holds a NUL character.")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise UnstorableValue(f"{name} holds a lone surrogate.") from None


def to_storable_name(text: str | None) -> str | None:
    """Make any name storable in the journal and the audit: cut it, and escape characters that cannot be stored."""
    if text is None:
        return None
    text = str(text)  # callers pass values of other types too
    # PostgreSQL stores no NUL in a text, and UTF-8 has no lone surrogates.
    if text.isascii() and "\0" not in text:
        return text[:MAX_NAME_LENGTH]
    try:
        _validate_text("", text)
    except UnstorableValue:
        return ascii(text)[:MAX_NAME_LENGTH]
    return text[:MAX_NAME_LENGTH]


AGENTS_PER_READ = 8


def agent_parameters(agents: Collection[str]) -> list[dict[str, SqlValue]]:
    """Parameters for reads of the rows of some agents: `:agent_0` to `:agent_7` of as many reads as it takes.

    Always the same number of parameters, so that the database prepares one statement.
    """
    names = sorted(agents)
    batches = [names[start : start + AGENTS_PER_READ] for start in range(0, len(names), AGENTS_PER_READ)]
    return [
        {f"agent_{number}": batch[min(number, len(batch) - 1)] for number in range(AGENTS_PER_READ)}
        for batch in batches
    ]


def validate_owner(owner: str) -> str:
    """Return a valid owner: hexadecimal digits alone, because it becomes part of a file name."""
    if not _OWNER_PATTERN.fullmatch(owner):
        raise ValueError(f"An owner consists of hexadecimal digits, got {owner!r}.")
    return owner


def check_row_count(statement: Statement, row_count: int) -> None:
    """Raise if a statement changed or returned another number of rows than it expects."""
    if statement.expect is not None and row_count != statement.expect:
        start = " ".join(statement.sql.split(maxsplit=3)[:3])
        raise UnexpectedRowCount(f"Expected {statement.expect} rows, got {row_count}: {start}")
