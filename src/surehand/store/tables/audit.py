"""Audit: who decided and did what, under a chain of seals that shows any later change."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from pydantic_core import PydanticSerializationError, to_json

from surehand.store.database import INT64_LIMIT, Database, Row, SqlValue, Statement, to_storable_name
from surehand.store.serialization import dump_json

if TYPE_CHECKING:
    from hashlib import _Hash

AuditKind: TypeAlias = Literal["intent", "outcome", "wait", "answer", "refused", "recovered", "granted", "revoked"]
AuditPosition: TypeAlias = tuple[int, int]

MAX_ROWS_PER_SEAL, ROWS_PER_READ, VERIFY_PAGE_ROWS = 500, 125, 1_000
"""Rows under one seal at most; so few of them are read at once, and so many where they are verified."""

_COLUMNS = ("id", "tx", "at", "kind", "call_id", "tool", "user_id", "by_whom", "detail")
_ADD = """INSERT INTO audit (tx, at, kind, call_id, tool, user_id, by_whom, detail)
    VALUES ({tx}, {now}, :kind, :call_id, :tool, :user, :by, :detail)"""
_ROWS = f"""SELECT {", ".join(_COLUMNS)} FROM audit
    WHERE {{after}} AND tx < {{horizon}} ORDER BY {{order}} LIMIT :most"""
_COUNTS = """SELECT count(*) AS present, count(*) FILTER (WHERE {after}) AS unsealed FROM audit"""
_SEAL = "position, last_tx, last_id, rows_sealed, previous, hash, sealed_at"
_ADD_SEAL = f"""INSERT INTO seals ({_SEAL})
    VALUES (:position, :last_tx, :last_id, :rows_sealed, :previous, :hash, :sealed_at)
    ON CONFLICT (position) DO NOTHING RETURNING position"""
_LAST_SEAL = f"SELECT {_SEAL} FROM seals ORDER BY position DESC LIMIT 1"
_NOW = "SELECT {now} AS moment"
_SEALS = f"SELECT {_SEAL} FROM seals WHERE position > :position ORDER BY position LIMIT {VERIFY_PAGE_ROWS}"


@dataclass(frozen=True, slots=True)
class AuditVerification:
    """What came of following the chain."""

    rows: int
    """How many there are."""
    seals: int
    """How many hold, from the first on."""
    unsealed: int
    """Rows after the last seal that holds."""
    head: str
    """The hash of that seal. Whoever notes it elsewhere can tell later whether the end was cut off."""
    problem: str | None = None
    """The first thing that is not as it was sealed."""


@dataclass(frozen=True, slots=True)
class _Seal:
    """Covers the rows after the seal before it. Its hash is over the rows and the rest of the seal."""

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
        """A hash of all but the rows."""
        return sha256(_encode_row([self.previous, self.position, *self.end_position, self.rows_sealed, self.sealed_at]))


class AuditTable:
    """Rows that are written once and sealed soon after."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def row_statement(
        self,
        kind: AuditKind,
        call_id: str,
        tool: str,
        *,
        user: str | None = None,
        by: str | None = None,
        detail: Mapping[str, Any],
    ) -> Statement:
        """A row, to be put into the transaction of the deed."""
        params: dict[str, SqlValue] = {
            "kind": kind, "call_id": call_id, "tool": tool, "user": to_storable_name(user), "by": to_storable_name(by),
            "detail": dump_json(detail),
        }  # fmt: skip
        return Statement(_ADD, params, 1)

    async def seal(self) -> int:
        """Seal what is not sealed yet; gives how many rows. Stops where another sealer was first."""
        found = await self._database.read(_LAST_SEAL)
        last, sealed = _Seal(**found[0]) if found else _Seal(), 0
        while rows := await self._read_unsealed(last.end_position):
            [(now,)] = await self._database.quick_read(_NOW)
            last = _build_next_seal(last, rows, float(now))
            [added] = await self._database.write([Statement(_ADD_SEAL, asdict(last))])
            if not added:
                break
            sealed += len(rows)
            if (
                len(rows) < MAX_ROWS_PER_SEAL
            ):  # what came meanwhile is for the next time, or a busy store is sealed all the time
                break
        return sealed

    async def _read_unsealed(self, position: AuditPosition) -> list[tuple[Any, ...]]:
        """The rows for the next seal, a few at a time: on SQLite they are read on the thread of the event loop."""
        rows: list[tuple[Any, ...]] = []
        while len(rows) < MAX_ROWS_PER_SEAL:
            for _ in range(3):  # callers who were just told run, ask again, and wait for the disk: that is the moment
                await asyncio.sleep(0)
            part = await self._database.quick_read(_ROWS, _after_params(position, ROWS_PER_READ))
            rows += part
            if len(part) < ROWS_PER_READ:
                break
            position = part[-1][1], part[-1][0]
        return rows

    async def verify(self) -> AuditVerification:
        """Follow the chain from its beginning, to its end or to the first problem."""
        chain = _ChainVerifier(self._database)
        problem = await chain.find_problem()
        tx, id = chain.last_valid.end_position
        [counts] = await self._database.read(_COUNTS, {"tx": tx, "id": id})
        return AuditVerification(
            counts["present"], chain.last_valid.position, counts["unsealed"], chain.last_valid.hash, problem
        )


class _ChainVerifier:
    """The chain as far as it was followed; rows are read a page at a time, however many a seal covers."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.last_valid = _Seal()
        """The last seal that holds."""
        self._page: deque[Row] = deque()
        self._read_position = self.last_valid.end_position

    async def find_problem(self) -> str | None:
        """Go on to the end; gives the first problem."""
        while seals := await self._database.read(_SEALS, {"position": self.last_valid.position}):
            for seal in [_Seal(**row) for row in seals]:
                if problem := await self._check_seal(seal):
                    return problem
                self.last_valid = seal
        return None

    async def _check_seal(self, seal: _Seal) -> str | None:
        before, number = self.last_valid.position, seal.position
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
        hashing, count = seal.start_hash(), 0
        while (row := await self._peek_row()) and (row["tx"], row["id"]) <= seal.end_position:
            hashing.update(b"," if count else b"[")
            hashing.update(_encode_row(list(self._page.popleft().values())))
            count += 1
        return count, hashing.hexdigest()

    async def _peek_row(self) -> Row | None:
        """The next row, left where it is."""
        if not self._page:
            self._page.extend(await self._database.read(_ROWS, _after_params(self._read_position, VERIFY_PAGE_ROWS)))
            if not self._page:
                return None
            self._read_position = self._page[-1]["tx"], self._page[-1]["id"]
        return self._page[0]


def _after_params(position: AuditPosition, limit: int) -> Mapping[str, SqlValue]:
    return {"tx": position[0], "id": position[1], "most": limit}


def _build_next_seal(last: _Seal, rows: Sequence[tuple[Any, ...]], sealed_at: float) -> _Seal:
    at = {name: rows[-1][place] for place, name in enumerate(_COLUMNS)}
    seal = _Seal(last.position + 1, at["tx"], at["id"], len(rows), last.hash, sealed_at=sealed_at)
    hashing = seal.start_hash()
    hashing.update(_encode_rows(rows))
    return replace(seal, hash=hashing.hexdigest())


def _encode_rows(rows: Sequence[tuple[Any, ...]]) -> bytes:
    """What the rows give one after the other, but all at once: as a list without its end."""
    try:
        return to_json(rows)[:-1]
    except PydanticSerializationError:
        return b"[" + b",".join(map(_encode_row, rows))


def _encode_row(values: Sequence[Any]) -> bytes:
    """Canonical JSON: no other list of values gives the same bytes."""
    # SQLite lets anyone put bytes into a column of text: a change, and no crash.
    return to_json([{"bytes": bytes(each).hex()} if isinstance(each, bytes) else each for each in values])
