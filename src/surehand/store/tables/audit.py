"""The tables `audit` and `seals`: who decided and did what, under a hash chain that reveals later changes."""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from pydantic_core import PydanticSerializationError, to_json

from surehand.core.call import CallIdentity
from surehand.store.database import (
    INT64_LIMIT,
    Database,
    Row,
    SqlValue,
    Statement,
    UnexpectedRowCount,
    to_storable_name,
)
from surehand.store.history_filter import DEFAULT_LIMIT, FlushBuffers, HistoryFilter, Moment, flush_no_buffers
from surehand.store.queries import load_queries
from surehand.store.serialization import dump_json
from surehand.store.stored_identity import dump_identity, load_identity

if TYPE_CHECKING:
    from hashlib import _Hash

AuditKind: TypeAlias = Literal[
    "intent", "outcome", "wait", "answer", "denied", "conflict", "refused", "recovered", "granted", "revoked"
]  # fmt: skip
"""What happened: `sql/schema.sql` lists them."""
AuditPosition: TypeAlias = tuple[int, int]
"""Transaction and id of a row: rows are sealed and verified in this order."""

MAX_ROWS_PER_SEAL = 500
ROWS_PER_READ = 125
"""Rows that the sealer reads at once, on the event loop's thread in SQLite."""
VERIFY_PAGE_ROWS = 1_000

_SQL = load_queries("audit")
_COLUMNS = ("id", "tx", "at", "kind", "call_id", "tool", "user_id", "by_whom", "detail")
_LATER_COLUMNS = ("session", "identity")
"""Columns that a migration added. They are sealed by name, and only where they hold something, so that the seals of
older rows stay valid and the next column changes none of them."""


@dataclass(frozen=True, slots=True)
class AuditRow:
    """Who did what to a call, and when."""

    at: float
    """Seconds since the epoch, by the database's clock."""
    kind: AuditKind
    call_id: str
    """Empty for grants and revocations, which belong to no call."""
    tool: str
    user: str | None
    """The user that the call belongs to."""
    session: str | None
    by: str | None
    """Who answered, granted or revoked; None where that is the caller."""
    detail: Mapping[str, Any]
    """Codes and digests, never the values."""
    agent: str | None = None
    space: str | None = None
    turn: str | None = None
    task: str | None = None
    parent: str | None = None
    model_id: str | None = None
    intent: str | None = None
    display: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class AuditVerification:
    """The result of verifying the chain."""

    rows: int
    """Number of audit rows."""
    seals: int
    """Number of valid seals, from the first one on."""
    unsealed: int
    """Number of rows after the last valid seal."""
    head: str
    """The hash of that seal. Only a copy of it elsewhere can reveal that the end of the chain was cut off."""
    problem: str | None = None
    """The first difference between the rows and their seals, if any."""


@dataclass(frozen=True, slots=True)
class _Seal:
    """Covers the rows after the previous seal. Its hash is over those rows and its other fields."""

    position: int = 0
    last_tx: int = -INT64_LIMIT
    last_id: int = -INT64_LIMIT
    rows_sealed: int = 0
    previous: str = ""
    hash: str = ""
    sealed_at: float = 0.0

    @property
    def end_position(self) -> AuditPosition:
        return self.last_tx, self.last_id

    def start_hash(self) -> _Hash:
        """Start the hash with the fields of the seal; the rows follow."""
        return sha256(_encode_row([self.previous, self.position, *self.end_position, self.rows_sealed, self.sealed_at]))


class AuditTable:
    """Writes audit rows, seals them and verifies the chain."""

    def __init__(self, database: Database, flush_buffers: FlushBuffers = flush_no_buffers) -> None:
        self._database = database
        self._flush_buffers = flush_buffers

    def row_statement(
        self,
        kind: AuditKind,
        call_id: str,
        tool: str,
        *,
        user: str | None = None,
        session: str | None = None,
        by: str | None = None,
        detail: Mapping[str, Any],
        identity: CallIdentity | None = None,
    ) -> Statement:
        """Build the statement for a row; it belongs into the transaction of the audited action.

        Args:
            identity: whose call it is, instead of `user` and `session`.
        """
        if identity is not None:
            user, session = identity.user, identity.session
        params: dict[str, SqlValue] = {
            "kind": kind, "call_id": call_id, "tool": tool, "user": to_storable_name(user), "by": to_storable_name(by),
            "detail": dump_json(detail), "session": to_storable_name(session),
            "identity": None if identity is None else dump_identity(identity),
        }  # fmt: skip
        return Statement(_SQL["insert_audit_row"], params, 1)

    async def seal(self) -> int:
        """Seal the unsealed rows and return their number. Stops if another process has sealed them first."""
        last_rows = await self._database.read(_SQL["find_last_seal"])
        last = _Seal(**last_rows[0]) if last_rows else _Seal()
        sealed = 0
        while rows := await self._read_unsealed(last.end_position):
            [(now,)] = await self._database.quick_read(_SQL["read_clock"])
            last = _build_next_seal(last, rows, float(now))
            try:
                await self._database.write([Statement(_SQL["insert_seal"], asdict(last), expect=1)])
            except UnexpectedRowCount:
                break
            sealed += len(rows)
            if len(rows) < MAX_ROWS_PER_SEAL:  # rows written meanwhile wait for the next time, or sealing never ends
                break
        return sealed

    async def _read_unsealed(self, position: AuditPosition) -> list[tuple[Any, ...]]:
        """Read the rows of the next seal in small parts: on SQLite `quick_read` blocks the event loop."""
        rows: list[tuple[Any, ...]] = []
        while len(rows) < MAX_ROWS_PER_SEAL:
            # Callers whose write has just ended run first, and write again. While those writes wait for the disk, the
            # event loop is free for this read.
            for _ in range(3):
                await asyncio.sleep(0)
            part = await self._database.quick_read(
                _SQL["list_audit_rows_after"], _after_params(position, ROWS_PER_READ)
            )
            rows += part
            if len(part) < ROWS_PER_READ:
                break
            position = part[-1][1], part[-1][0]
        return rows

    async def verify(self) -> AuditVerification:
        """Verify the chain from its beginning, to its end or to the first problem."""
        chain = _ChainVerifier(self._database)
        problem = await chain.find_problem()
        last = chain.last_valid
        [counts] = await self._database.read(_SQL["count_audit_rows"], {"tx": last.last_tx, "id": last.last_id})
        return AuditVerification(counts["present"], last.position, counts["unsealed"], last.hash, problem)

    async def find_seal(self, hash: str, *, last: int) -> int | None:
        """The position of the seal with this hash; None if none up to the position `last` has it."""
        rows = await self._database.read(_SQL["find_seal"], {"hash": hash, "position": last})
        return int(rows[0]["position"]) if rows else None

    async def list(
        self,
        *,
        call: str | None = None,
        tool: str | None = None,
        user: str | None = None,
        session: str | None = None,
        since: Moment | None = None,
        until: Moment | None = None,
        limit: int = DEFAULT_LIMIT,
    ) -> Sequence[AuditRow]:
        """Read the rows that match every given filter, newest first."""
        await self._flush_buffers()
        sql = _SQL["list_rows"] if call is None else _SQL["list_rows_of_call"]
        filter = HistoryFilter(call=call, tool=tool, user=user, session=session, since=since, until=until, limit=limit)
        return [_row_from_columns(row) for row in await self._database.read(sql, filter.params())]


class _ChainVerifier:
    """Recomputes one seal after the other; reads rows by page, however many a seal covers."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.last_valid = _Seal()
        self._page: deque[Row] = deque()
        self._read_position = self.last_valid.end_position

    async def find_problem(self) -> str | None:
        """Verify to the end of the chain; returns the first problem."""
        while seals := await self._database.read(_SQL["list_seals_after"], {"position": self.last_valid.position}):
            for seal in [_Seal(**row) for row in seals]:
                if problem := await self._check_seal(seal):
                    return problem
                self.last_valid = seal
        return None

    async def _check_seal(self, seal: _Seal) -> str | None:
        before = self.last_valid.position
        number = seal.position
        if not all(isinstance(value, int) for value in (number, *seal.end_position, seal.rows_sealed)):
            return f"Seal {before + 1} was changed: it holds something else where numbers belong."
        if number != before + 1:
            return f"Seal {before + 1} is missing: after seal {before} comes seal {number}."
        if seal.previous != self.last_valid.hash:
            return f"Seal {number} was changed, or the one before it was: it does not follow from that one's hash."
        count, hash = await self._recompute_hash(seal)
        if count != seal.rows_sealed:
            what = "a row is missing" if count < seal.rows_sealed else "a row was added"
            return (
                f"Seal {number} covers {seal.rows_sealed} rows and there are {count}: {what}, or the seal was changed."
            )
        if hash != seal.hash:
            return f"Seal {number} has another hash than its {count} rows give: a row was changed, or the seal was."
        return None

    async def _recompute_hash(self, seal: _Seal) -> tuple[int, str]:
        """Count and hash the rows up to the end of a seal."""
        hashing = seal.start_hash()
        count = 0
        # The same bytes as `_encode_rows` gives: a JSON list without its closing bracket.
        while (row := await self._peek_row()) and (row["tx"], row["id"]) <= seal.end_position:
            hashing.update(b"," if count else b"[")
            hashing.update(_encode_row(_sealed_values([*self._page.popleft().values()])))
            count += 1
        return count, hashing.hexdigest()

    async def _peek_row(self) -> Row | None:
        """Return the next row without consuming it."""
        if not self._page:
            params = _after_params(self._read_position, VERIFY_PAGE_ROWS)
            self._page.extend(await self._database.read(_SQL["list_audit_rows_after"], params))
            if not self._page:
                return None
            self._read_position = self._page[-1]["tx"], self._page[-1]["id"]
        return self._page[0]


def _after_params(position: AuditPosition, limit: int) -> Mapping[str, SqlValue]:
    return {"tx": position[0], "id": position[1], "limit": limit}


def _build_next_seal(last: _Seal, rows: Sequence[tuple[Any, ...]], sealed_at: float) -> _Seal:
    last_row = dict(zip((*_COLUMNS, *_LATER_COLUMNS), rows[-1], strict=True))
    seal = _Seal(last.position + 1, last_row["tx"], last_row["id"], len(rows), last.hash, sealed_at=sealed_at)
    hashing = seal.start_hash()
    hashing.update(_encode_rows([*map(_sealed_values, rows)]))
    return replace(seal, hash=hashing.hexdigest())


def _sealed_values(row: Sequence[Any]) -> Sequence[Any]:
    """Return the values of a row that its seal covers: those of later columns by name, where they hold something."""
    values = [*row[: len(_COLUMNS)]]
    for name, value in zip(_LATER_COLUMNS, row[len(_COLUMNS) :], strict=True):
        if value is not None:
            values += (name, value)
    return values


def _row_from_columns(row: Row) -> AuditRow:
    return AuditRow(
        row["at"], row["kind"], row["call_id"], row["tool"], row["user_id"], row["session"], row["by_whom"],
        json.loads(row["detail"]), **load_identity(row["identity"]),
    )  # fmt: skip


def _encode_rows(rows: Sequence[Sequence[Any]]) -> bytes:
    """Encode all rows at once: the same bytes as row by row, a JSON list without its closing bracket."""
    try:
        return to_json(rows)[:-1]
    except PydanticSerializationError:
        return b"[" + b",".join(map(_encode_row, rows))


def _encode_row(values: Sequence[Any]) -> bytes:
    """Encode values as canonical JSON: different values never give the same bytes."""
    # SQLite does not enforce column types: bytes in a text column are a change to report, not a crash.
    return to_json([{"bytes": bytes(each).hex()} if isinstance(each, bytes) else each for each in values])
