"""Pending: every wait of every call, by call and round, and the answers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, NamedTuple

from surehand.store.database import Database, Row, SqlValue, Statement
from surehand.store.tables.ledger import LEDGER_COLUMNS, LedgerRow

UNCLAIMED_GRACE_SECONDS = 30.0
"""Seconds until an answered call that nobody has gone on with is worth a person's attention."""


class PendingRound(NamedTuple):
    """One wait of a call, open or answered."""

    round: int
    waiting_for: str
    message: str
    request: str
    provider_state: str
    inner_call_id: str | None = None
    is_open: bool = True
    answer: str | None = None
    answer_digest: str | None = None
    answer_value: str | None = None
    created_at: float = 0.0
    expires_at: float | None = None
    is_expired: bool = False
    """Open, but its time is up."""
    binding: str | None = None
    answered_at: float | None = None
    answered_by: str | None = None
    """Who answered."""

    @property
    def answer_expires_at(self) -> float | None:
        """How long an answer holds if nobody goes on with the call: as long again as there was to give it."""
        if self.expires_at is None or self.answered_at is None:
            return None
        return self.answered_at + self.expires_at - self.created_at


class PendingRow(NamedTuple):
    """A call that waits or has waited: its row in the ledger, and its waits, oldest first."""

    call: LedgerRow
    rounds: tuple[PendingRound, ...]

    @property
    def open_round(self) -> PendingRound | None:
        """The open wait."""
        return self.rounds[-1] if self.rounds and self.rounds[-1].is_open else None

    @property
    def provider_state(self) -> Any:
        """A provider's private note, from its last wait."""
        return json.loads(self.rounds[-1].provider_state) if self.rounds else None

    @property
    def is_ready(self) -> bool:
        "RoundAnswered, and nobody goes on with it yet."
        return self.call.state == "ready" and bool(self.rounds)

    @property
    def matches_binding(self) -> bool:
        """Whether the call is still the one that the last question, or its answer, is about."""
        return self.rounds[-1].binding == compute_binding(self.call)


def compute_binding(call: LedgerRow) -> str:
    """What an answer is bound to: this call of this tool as it is, with these arguments, for this user and session."""
    about = (call.call_id, call.tool, call.definition, call.arguments, call.user_id, call.session)
    return sha256(json.dumps(about).encode()).hexdigest()


_ROUND = (
    "pending.round, pending.waiting_for, pending.message, pending.request, pending.note, pending.inner_call, "
    "pending.state = 'open' AS is_open, pending.answer, pending.weight, pending.value, "
    "pending.created_at AS asked_at, pending.expires_at, "
    "(pending.state = 'open' AND pending.expires_at <= {now}) AS late, pending.binding, pending.answered_at, "
    "pending.answered_by"
)
_MAY_SEE = """(CAST(:user_id AS TEXT) IS NULL OR ledger.user_id = :user_id)
    AND (CAST(:session AS TEXT) IS NULL OR ledger.session IS NULL OR ledger.session = :session)"""
_HELD = f"""SELECT {LEDGER_COLUMNS}, {_ROUND} FROM ledger JOIN pending ON pending.call_id = ledger.call_id
    WHERE ledger.call_id = :call_id AND {_MAY_SEE} ORDER BY pending.round"""
# Only a query that says `<> 'ended'` itself uses the index of calls that have not ended, and not all that ever were.
_READY = """FROM ledger JOIN pending ON pending.call_id = ledger.call_id
    WHERE ledger.state = 'ready' AND ledger.state <> 'ended'
    AND pending.round = (SELECT max(round) FROM pending AS other WHERE other.call_id = ledger.call_id)"""
_READY_UNTIL = "pending.answered_at + pending.expires_at - pending.created_at"
_LISTED = f"""SELECT {LEDGER_COLUMNS}, {_ROUND} FROM pending JOIN ledger ON ledger.call_id = pending.call_id
    WHERE pending.state = 'open' AND pending.inner_call IS NULL
    AND (pending.expires_at IS NULL OR pending.expires_at > {{now}}) AND {_MAY_SEE}
    UNION ALL SELECT {LEDGER_COLUMNS}, {_ROUND} {_READY} AND pending.answered_at + :grace <= {{now}} AND {_MAY_SEE}
    ORDER BY asked_at, 1 LIMIT :most"""
_ASK = """INSERT INTO pending
    (call_id, round, waiting_for, message, request, note, inner_call, binding, state, created_at, expires_at)
    VALUES (:call_id, (SELECT coalesce(max(round), 0) + 1 FROM pending WHERE call_id = :call_id),
    :waiting_for, :message, :request, :note, :inner_call, :binding, 'open', {now},
    coalesce(CAST(:expires_at AS {real}), {now} + CAST(:patience AS {real}))) RETURNING round, created_at, expires_at"""
_ANSWER = f"""UPDATE pending SET state = 'answered', answer = :answer, weight = :weight, value = :value,
    binding = :binding, answered_by = :by_whom, answered_at = {{now}}
    WHERE call_id = :call_id AND round = :round AND state = 'open'
    AND (expires_at IS NULL OR expires_at > {{now}} OR :answer IN ('expire', 'cancel'))
    AND EXISTS (SELECT 1 FROM ledger WHERE ledger.call_id = pending.call_id AND {_MAY_SEE})"""
_NOTE = """UPDATE pending SET value = :value WHERE call_id = :call_id AND round = :round AND state = 'open'
    AND coalesce(value, '') = :before"""
_LATE = f"""SELECT call_id, expires_at AS until FROM pending WHERE state = 'open' AND expires_at <= {{now}}
    UNION ALL SELECT ledger.call_id, {_READY_UNTIL} AS until {_READY} AND {_READY_UNTIL} <= {{now}}
    ORDER BY until LIMIT :most"""
_NEXT = f"""SELECT min(until) AS next FROM (SELECT min(expires_at) AS until FROM pending WHERE state = 'open'
    UNION ALL SELECT min({_READY_UNTIL}) {_READY}) AS first"""
_COUNT = "SELECT count(*) AS number FROM pending WHERE state = 'open'"
_FOLLOWERS = "SELECT call_id FROM pending WHERE state = 'open' AND inner_call = :call_id ORDER BY created_at"
_LEFT_BEHIND = """SELECT DISTINCT pending.inner_call AS call_id FROM pending
    JOIN ledger ON ledger.call_id = pending.inner_call
    WHERE pending.state = 'open' AND pending.inner_call IS NOT NULL AND ledger.state = 'ended' LIMIT :most"""


def open_round_statement(
    call: LedgerRow,
    waiting_for: str,
    message: str,
    *,
    request: str,
    provider_state: str,
    inner_call_id: str | None,
    expires_at: float | None,
    timeout_seconds: float | None,
) -> Statement:
    """A new wait, until a time or for so many seconds; gives its round, when it began and when it will have ended."""
    params = {
        "call_id": call.call_id, "waiting_for": waiting_for, "message": message, "request": request, "note": provider_state,
        "inner_call": inner_call_id, "binding": compute_binding(call), "expires_at": expires_at,
        "patience": timeout_seconds,
    }  # fmt: skip
    return Statement(_ASK, params, expect=1)


def save_partial_answer_statement(call_id: str, round: int, value: str, *, previous_value: str) -> Statement:
    """What is known of an answer as long as it is not whole, in place of what was known before."""
    return Statement(_NOTE, {"call_id": call_id, "round": round, "value": value, "before": previous_value}, expect=1)


@dataclass(frozen=True, slots=True)
class RoundAnswer:
    """Who answers which wait, and how."""

    call_id: str
    round: int
    answer: str
    answer_digest: str
    answer_value: str | None = None
    answered_by: str | None = None
    user: str | None = None
    session: str | None = None
    binding: str | None = None

    def statement(self) -> Statement:
        """Take the wait: one wins, and only in time, and only who may see the call."""
        params: dict[str, SqlValue] = {
            "call_id": self.call_id, "round": self.round, "answer": self.answer, "weight": self.answer_digest,
            "value": self.answer_value, "by_whom": self.answered_by, "user_id": self.user, "session": self.session,
            "binding": self.binding,
        }  # fmt: skip
        return Statement(_ANSWER, params, expect=1)


class PendingTable:
    """Reading waits."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def find(self, call_id: str, user: str | None = None, session: str | None = None) -> PendingRow | None:
        """A call that has waited, if this user and session may know of it."""
        rows = await self._database.read(_HELD, {"call_id": call_id, "user_id": user, "session": session})
        return PendingRow(LedgerRow.from_row(rows[0]), tuple(map(_round_from_row, rows))) if rows else None

    async def list_open(
        self,
        user: str | None = None,
        session: str | None = None,
        *,
        limit: int = 1 << 31,
        grace_seconds: float = UNCLAIMED_GRACE_SECONDS,
    ) -> list[PendingRow]:
        """The open waits of this user and session, and answered calls that nobody took up, oldest first."""
        rows = await self._database.read(
            _LISTED, {"user_id": user, "session": session, "most": limit, "grace": grace_seconds}
        )
        return [PendingRow(LedgerRow.from_row(row), (_round_from_row(row),)) for row in rows]

    async def find_expired(self, limit: int = 100) -> Sequence[str]:
        """Calls whose open wait has outlived its time, or whose answer nobody has acted on for too long."""
        return _call_ids(await self._database.read(_LATE, {"most": limit}))

    async def next_expiry(self) -> float | None:
        """When the next of them will have."""
        [row] = await self._database.read(_NEXT)
        return row["next"]  # type: ignore[no-any-return]

    async def count(self) -> int:
        """How many waits are open."""
        [row] = await self._database.read(_COUNT)
        return int(row["number"])

    async def find_followers(self, call_id: str) -> Sequence[str]:
        """Calls that wait for this one."""
        return _call_ids(await self._database.read(_FOLLOWERS, {"call_id": call_id}))

    async def find_ended_inner_calls(self, limit: int = 100) -> Sequence[str]:
        """Calls that have ended while others still wait for them."""
        return _call_ids(await self._database.read(_LEFT_BEHIND, {"most": limit}))


def _call_ids(rows: list[Row]) -> Sequence[str]:
    return [row["call_id"] for row in rows]


def _round_from_row(row: Row) -> PendingRound:
    return PendingRound(
        row["round"], row["waiting_for"], row["message"], row["request"], row["note"], row["inner_call"],
        bool(row["is_open"]), row["answer"], row["weight"], row["value"], row["asked_at"], row["expires_at"],
        bool(row["late"]), row["binding"], row["answered_at"], row["answered_by"],
    )  # fmt: skip
