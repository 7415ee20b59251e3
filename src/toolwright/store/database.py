"""Database: writes as values and reads, the same on SQLite and on PostgreSQL."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

Value: TypeAlias = str | int | float | bytes | None
Row: TypeAlias = dict[str, Any]

LARGEST = 1 << 63


class StoreError(Exception):
    """The store could not do what it was asked; nothing of that write is kept."""


class Unexpected(StoreError):
    """A statement changed another number of rows than the write relies on: somebody else was first."""


class Unstorable(StoreError):
    """A value that not every database can hold."""


class StoreUnavailable(StoreError):
    """The database cannot be reached, or its disk is full or broken. A write in doubt may have been kept."""


@dataclass(frozen=True, slots=True)
class Statement:
    """One step of a write. Its decisions are made in SQL, so that one body serves both databases.

    `:name` stands for a parameter, `{now}` for the database's own time in seconds, `{tx}` for the number of the
    transaction; rows whose `tx` is below `{horizon}` are all there. `{announce}` tells other processes to look.
    """

    sql: str
    params: Mapping[str, Value] = field(default_factory=dict)
    expect: int | None = None
    """How many rows it must change or return; any other number undoes the whole write."""


class Database(Protocol):
    """Two verbs, and what processes that share it need to know of each other."""

    async def write(self, statements: Sequence[Statement]) -> list[list[Row]]:
        """Carry out the statements in one transaction, all or nothing, kept on disk; gives the rows that each returned.

        A caller that is cancelled hears of it only when its write is decided.
        """
        ...

    async def read(self, sql: str, params: Mapping[str, Value] | None = None) -> list[Row]:
        """Rows as they are now."""
        ...

    async def hold(self, owner: str) -> None:
        """Take the lock of this owner, to be had while the process lives."""
        ...

    async def let_go(self, owner: str) -> None:
        """Give the lock back."""
        ...

    async def alive(self, owners: Collection[str]) -> set[str]:
        """Which of them hold their lock now. In doubt, they do: leases decide."""
        ...

    def on_announce(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call back when any process may have announced something; gives what ends it."""
        ...

    async def vacuum(self) -> None:
        """Give the space of what was deleted back."""
        ...

    async def size(self) -> int:
        """Bytes of the whole database."""
        ...

    async def close(self) -> None:
        """Finish what was asked, then let go."""
        ...


def checked(params: Mapping[str, Value]) -> Mapping[str, Value]:
    """Refuse what one of the two databases would refuse, so that both give the same verdict."""
    for name, value in params.items():
        if isinstance(value, str):
            if "\0" in value or not value.isascii():
                _check_text(name, value)
        elif isinstance(value, int) and not -LARGEST <= value < LARGEST:
            raise Unstorable(f"{name} is an integer of more than 64 bits.")
    return params


def _check_text(name: str, value: str) -> None:
    if "\0" in value:
        raise Unstorable(f"{name} holds a NUL character.")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise Unstorable(f"{name} holds a lone surrogate.") from None


def check_expected(statement: Statement, count: int) -> None:
    """Undo the write where the world is not as it relies on."""
    if statement.expect is not None and count != statement.expect:
        raise Unexpected(f"{count} rows where {statement.expect} were expected: {statement.sql.split(maxsplit=3)[:3]}")
