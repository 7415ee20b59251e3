"""Database: writes as values and reads, the same on SQLite and on PostgreSQL."""

from __future__ import annotations

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
"""Characters of a name that journal and audit keep."""


class Statement(NamedTuple):
    """One step of a write. Its decisions are made in SQL, so that one body serves both databases.

    `:name` stands for a parameter, `{now}` for the database's own time in seconds, `{tx}` for the number of the
    transaction; rows whose `tx` is below `{horizon}` are all there, and are read on `{after}` the place `:tx, :id` in
    their `{order}`. `{announce}` tells other processes to look.
    """

    sql: str
    params: Mapping[str, SqlValue] = MappingProxyType({})
    expect: int | None = None
    """How many rows it must change or return; any other number undoes the whole write."""
    validated_size: int | None = None
    """Its characters and bytes, where it is known already that either database can hold them."""


class Database(Protocol):
    """Two verbs, and what processes that share it need to know of each other."""

    def write(self, statements: Sequence[Statement]) -> Coroutine[Any, Any, list[list[Row]]]:
        """Carry out the statements in one transaction, all or nothing, kept on disk; gives the rows that each returned.

        A caller that is cancelled hears of it only when its write is decided.
        """
        ...

    async def read(self, sql: str, params: Mapping[str, SqlValue] | None = None) -> list[Row]:
        """Rows as they are now."""
        ...

    async def quick_read(self, sql: str, params: Mapping[str, SqlValue] | None = None) -> list[tuple[Any, ...]]:
        """A quick look at few rows by an index, without names: where a thread would cost more than it saves."""
        ...

    async def acquire_owner_lock(self, owner: str) -> None:
        """Take the lock of this owner, to be had while the process lives."""
        ...

    async def release_owner_lock(self, owner: str) -> None:
        """Give the lock back."""
        ...

    async def live_owners(self, owners: Collection[str]) -> set[str]:
        """Which of them hold their lock now. In doubt, they do: leases decide."""
        ...

    def on_announce(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call back when any process may have announced something; gives what ends it."""
        ...

    def on_write(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call back when any process may have written something that was announced; gives what ends it."""
        ...

    async def vacuum(self) -> None:
        """Give the space of what was deleted back."""
        ...

    async def size_bytes(self) -> int:
        """Bytes of the whole database."""
        ...

    async def close(self) -> None:
        """Finish what was asked, then let go."""
        ...


def validate_params(params: Mapping[str, SqlValue]) -> int:
    """Refuse what one of the two databases would refuse, so that both give the same verdict; gives the size."""
    size = 0
    for name, value in params.items():
        if value.__class__ is str:
            size += len(value)  # a class is compared faster than an instance is asked
            if "\0" in value or not value.isascii():
                _validate_text(name, value)
        elif value is not None and value.__class__ is not float:
            size += _validate_non_text(name, value)
    return size


def _validate_non_text(name: str, value: SqlValue) -> int:
    if isinstance(value, str):
        _validate_text(name, value)
    elif isinstance(value, int):
        if not -INT64_LIMIT <= value < INT64_LIMIT:
            raise UnstorableValue(f"{name} is an integer of more than 64 bits.")
        return 0
    return len(value) if isinstance(value, (str, bytes)) else 0


def to_storable_name(text: str | None) -> str | None:
    """A name for books that are kept whatever somebody calls himself: cut, and spelled out where it must be."""
    if text is None:
        return None
    text = str(text)  # callers give anything
    if text.isascii() and "\0" not in text:
        return text[:MAX_NAME_LENGTH]
    try:
        _validate_text("", text)
    except UnstorableValue:
        return ascii(text)[:MAX_NAME_LENGTH]
    return text[:MAX_NAME_LENGTH]


def _validate_text(name: str, value: str) -> None:
    if "\0" in value:
        raise UnstorableValue(f"{name} holds a NUL character.")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise UnstorableValue(f"{name} holds a lone surrogate.") from None


def check_row_count(statement: Statement, row_count: int) -> None:
    """Undo the write where the world is not as it relies on."""
    if statement.expect is not None and row_count != statement.expect:
        raise UnexpectedRowCount(
            f"{row_count} rows where {statement.expect} were expected: {statement.sql.split(maxsplit=3)[:3]}"
        )
