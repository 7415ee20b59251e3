"""Audit: who decided and did what, under a chain of seals that shows any later change."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from toolwright.store.database import LARGEST, Database, Row, Statement, Value, legible
from toolwright.store.outcomes import json_text

if TYPE_CHECKING:
    from hashlib import _Hash

Kind: TypeAlias = Literal["intent", "outcome", "wait", "answer", "refused", "recovered"]
Place: TypeAlias = tuple[int, int]

BLOCK, PAGE = 250, 1_000
"""Rows under one seal at most: so few are read and hashed at once. And rows that are verified at a time."""

_COLUMNS = ("id", "tx", "at", "kind", "call_id", "tool", "user_id", "by_whom", "detail")
_ADD = """INSERT INTO audit (tx, at, kind, call_id, tool, user_id, by_whom, detail)
    VALUES ({tx}, {now}, :kind, :call_id, :tool, :user, :by, :detail)"""
_ROWS = f"""SELECT {", ".join(_COLUMNS)} FROM audit
    WHERE (tx, id) > (:tx, :id) AND tx < {{horizon}} ORDER BY tx, id LIMIT :most"""
_COUNTS = """SELECT count(*) AS present, count(*) FILTER (WHERE (tx, id) > (:tx, :id)) AS unsealed FROM audit"""
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
            "kind": kind, "call_id": call_id, "tool": tool, "user": legible(user), "by": legible(by),
            "detail": json_text(detail),
        }  # fmt: skip
        return Statement(_ADD, params, 1)

    async def seal(self) -> int:
        """Seal what is not sealed yet; gives how many rows. Stops where another sealer was first."""
        found = await self._database.read(_LAST_SEAL)
        last, sealed = _Seal(**found[0]) if found else _Seal(), 0
        while rows := await _rows_after(self._database, last.place, BLOCK, at_once=True):
            [now] = await self._database.read(_NOW, at_once=True)
            last = _next_seal(last, rows, float(now["moment"]))
            [added] = await self._database.write([Statement(_ADD_SEAL, asdict(last))])
            if not added:
                break
            sealed += len(rows)
        return sealed

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
            self._page.extend(await _rows_after(self._database, self._read_to, PAGE))
            if not self._page:
                return None
            self._read_to = self._page[-1]["tx"], self._page[-1]["id"]
        return self._page[0]


async def _rows_after(database: Database, place: Place, most: int, *, at_once: bool = False) -> list[Row]:
    return await database.read(_ROWS, {"tx": place[0], "id": place[1], "most": most}, at_once=at_once)


def _next_seal(last: _Seal, rows: list[Row], moment: float) -> _Seal:
    end = rows[-1]
    seal = _Seal(last.position + 1, end["tx"], end["id"], len(rows), last.hash, sealed_at=moment)
    hashing = seal.hashing()
    # All at once: as a list without its end, it is what the rows give one after the other.
    hashing.update(_encode([list(row.values()) for row in rows])[:-1].encode())
    return replace(seal, hash=hashing.hexdigest())


def _framed(values: list[Any]) -> bytes:
    """Canonical JSON: no other list of values gives the same bytes."""
    return _encode(values).encode()


# SQLite lets anyone put bytes into a column of text: that too is a change, and no crash.
_encode = json.JSONEncoder(separators=(",", ":"), default=lambda value: {"bytes": bytes(value).hex()}).encode
