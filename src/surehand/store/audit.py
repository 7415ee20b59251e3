"""Audit: who decided and did what, under a chain of seals that shows any later change."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from pydantic_core import PydanticSerializationError, to_json

from surehand.store.database import LARGEST, Database, Row, Statement, Value, storable_name
from surehand.store.outcomes import json_text

if TYPE_CHECKING:
    from hashlib import _Hash

Kind: TypeAlias = Literal["intent", "outcome", "wait", "answer", "refused", "recovered", "granted", "revoked"]
Place: TypeAlias = tuple[int, int]

BLOCK, PART, PAGE = 500, 125, 1_000
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
_SEALS = f"SELECT {_SEAL} FROM seals WHERE position > :position ORDER BY position LIMIT {PAGE}"


@dataclass(frozen=True, slots=True)
class Verification:
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
    last_tx: int = -LARGEST
    last_id: int = -LARGEST
    rows_sealed: int = 0
    previous: str = ""
    hash: str = ""
    sealed_at: float = 0.0

    @property
    def place(self) -> Place:
        return self.last_tx, self.last_id

    def hashing(self) -> _Hash:
        """A hash of all but the rows."""
        return sha256(_framed([self.previous, self.position, *self.place, self.rows_sealed, self.sealed_at]))


class Audit:
    """Rows that are written once and sealed soon after."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def row(
        self,
        kind: Kind,
        call_id: str,
        tool: str,
        *,
        user: str | None = None,
        by: str | None = None,
        detail: Mapping[str, Any],
    ) -> Statement:
        """A row, to be put into the transaction of the deed."""
        params: dict[str, Value] = {
            "kind": kind, "call_id": call_id, "tool": tool, "user": storable_name(user), "by": storable_name(by),
            "detail": json_text(detail),
        }  # fmt: skip
        return Statement(_ADD, params, 1)

    async def seal(self) -> int:
        """Seal what is not sealed yet; gives how many rows. Stops where another sealer was first."""
        found = await self._database.read(_LAST_SEAL)
        last, sealed = _Seal(**found[0]) if found else _Seal(), 0
        while rows := await self._unsealed(last.place):
            [(now,)] = await self._database.glance(_NOW)
            last = _next_seal(last, rows, float(now))
            [added] = await self._database.write([Statement(_ADD_SEAL, asdict(last))])
            if not added:
                break
            sealed += len(rows)
            if len(rows) < BLOCK:  # what came meanwhile is for the next time, or a busy store is sealed all the time
                break
        return sealed

    async def _unsealed(self, place: Place) -> list[tuple[Any, ...]]:
        """The rows for the next seal, a few at a time: on SQLite they are read on the thread of the event loop."""
        rows: list[tuple[Any, ...]] = []
        while len(rows) < BLOCK:
            for _ in range(3):  # callers who were just told run, ask again, and wait for the disk: that is the moment
                await asyncio.sleep(0)
            part = await self._database.glance(_ROWS, _after(place, PART))
            rows += part
            if len(part) < PART:
                break
            place = part[-1][1], part[-1][0]
        return rows

    async def verify(self) -> Verification:
        """Follow the chain from its beginning, to its end or to the first problem."""
        chain = _Chain(self._database)
        problem = await chain.follow()
        tx, id = chain.last.place
        [counts] = await self._database.read(_COUNTS, {"tx": tx, "id": id})
        return Verification(counts["present"], chain.last.position, counts["unsealed"], chain.last.hash, problem)


class _Chain:
    """The chain as far as it was followed; rows are read a page at a time, however many a seal covers."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.last = _Seal()
        """The last seal that holds."""
        self._page: deque[Row] = deque()
        self._read_to = self.last.place

    async def follow(self) -> str | None:
        """Go on to the end; gives the first problem."""
        while seals := await self._database.read(_SEALS, {"position": self.last.position}):
            for seal in [_Seal(**row) for row in seals]:
                if problem := await self._problem(seal):
                    return problem
                self.last = seal
        return None

    async def _problem(self, seal: _Seal) -> str | None:
        before, number = self.last.position, seal.position
        if not all(isinstance(value, int) for value in (number, *seal.place, seal.rows_sealed)):
            return f"Seal {before + 1} was changed: it holds something else where numbers belong."
        if number != before + 1:
            return f"Seal {before + 1} is missing: after seal {before} comes seal {number}."
        if seal.previous != self.last.hash:
            return f"Seal {number} was changed, or the one before it was: it does not follow from that one's hash."
        count, hash = await self._recomputed(seal)
        if count != seal.rows_sealed:
            what = "a row is missing" if count < seal.rows_sealed else "a row was added"
            return (
                f"Seal {number} covers {seal.rows_sealed} rows and there are {count}: {what}, or the seal was changed."
            )
        if hash != seal.hash:
            return f"Seal {number} has another hash than its {count} rows give: a row was changed, or the seal was."
        return None

    async def _recomputed(self, seal: _Seal) -> tuple[int, str]:
        hashing, count = seal.hashing(), 0
        while (row := await self._next()) and (row["tx"], row["id"]) <= seal.place:
            hashing.update(b"," if count else b"[")
            hashing.update(_framed(list(self._page.popleft().values())))
            count += 1
        return count, hashing.hexdigest()

    async def _next(self) -> Row | None:
        """The next row, left where it is."""
        if not self._page:
            self._page.extend(await self._database.read(_ROWS, _after(self._read_to, PAGE)))
            if not self._page:
                return None
            self._read_to = self._page[-1]["tx"], self._page[-1]["id"]
        return self._page[0]


def _after(place: Place, most: int) -> Mapping[str, Value]:
    return {"tx": place[0], "id": place[1], "most": most}


def _next_seal(last: _Seal, rows: Sequence[tuple[Any, ...]], moment: float) -> _Seal:
    at = {name: rows[-1][place] for place, name in enumerate(_COLUMNS)}
    seal = _Seal(last.position + 1, at["tx"], at["id"], len(rows), last.hash, sealed_at=moment)
    hashing = seal.hashing()
    hashing.update(_framed_together(rows))
    return replace(seal, hash=hashing.hexdigest())


def _framed_together(rows: Sequence[tuple[Any, ...]]) -> bytes:
    """What the rows give one after the other, but all at once: as a list without its end."""
    try:
        return to_json(rows)[:-1]
    except PydanticSerializationError:
        return b"[" + b",".join(map(_framed, rows))


def _framed(values: Sequence[Any]) -> bytes:
    """Canonical JSON: no other list of values gives the same bytes."""
    # SQLite lets anyone put bytes into a column of text: a change, and no crash.
    return to_json([{"bytes": bytes(each).hex()} if isinstance(each, bytes) else each for each in values])
