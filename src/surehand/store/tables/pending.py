"""The table `pending`: every round of every pending call, by call and round, and the answers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, NamedTuple

from surehand.store.database import Database, Row, SqlValue, Statement
from surehand.store.queries import load_queries
from surehand.store.tables.ledger import LedgerRow

UNCLAIMED_GRACE_SECONDS = 30.0
"""An answered call that no runtime has resumed for this long is listed again for people to see."""

_SQL = load_queries("pending")


class PendingPosition(NamedTuple):
    """A place in the list of pending calls: after the round that was opened then, of this call."""

    created_at: float
    call_id: str

    @classmethod
    def from_cursor(cls, cursor: str) -> PendingPosition:
        """Read a position from the `cursor` of a `PendingCall`."""
        created_at, separator, call_id = cursor.partition(":")
        try:
            return cls(float(created_at if separator else ""), call_id)
        except ValueError:
            raise ValueError(f"{cursor[:80]!r} is not a cursor. Pass the `cursor` of a pending call.") from None


BEFORE_ALL = PendingPosition(-1.0, "")
"""The position before the first pending call."""


class PendingRound(NamedTuple):
    """One question of a call, open or answered."""

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
    """Open, but past its expiry."""
    binding: str | None = None
    answered_at: float | None = None
    answered_by: str | None = None
    inner_run_id: str | None = None
    """The run that the call waits for, if any."""

    @property
    def first_call_id(self) -> str | None:
        """The call that this one repeats and follows, if any."""
        if self.inner_call_id is None:
            return None
        request = json.loads(self.request)
        return request.get("follows") if isinstance(request, dict) else None

    @property
    def answer_expires_at(self) -> float | None:
        """Until when an answer can be acted on: for as long again as there was time to give it."""
        if self.expires_at is None or self.answered_at is None:
            return None
        return self.answered_at + self.expires_at - self.created_at


class PendingRow(NamedTuple):
    """A call that waits or has waited: its ledger row, and its rounds, oldest first."""

    call: LedgerRow
    rounds: tuple[PendingRound, ...]

    @property
    def open_round(self) -> PendingRound | None:
        """The open round, if the call waits."""
        return self.rounds[-1] if self.rounds and self.rounds[-1].is_open else None

    @property
    def provider_state(self) -> Any:
        """The private state that the provider attached to the last round."""
        return json.loads(self.rounds[-1].provider_state) if self.rounds else None

    @property
    def is_ready(self) -> bool:
        """Answered, and not resumed by any runtime yet."""
        return self.call.state == "ready" and bool(self.rounds)

    @property
    def matches_answer_binding(self) -> bool:
        """Whether the call is still the one that the last question, or its answer, was about."""
        return self.rounds[-1].binding == compute_answer_binding(self.call)


def compute_answer_binding(call: LedgerRow) -> str:
    """The answer binding: a digest of call, tool definition, arguments, user and session that a question is about."""
    bound = (call.call_id, call.tool, call.definition, call.arguments, call.user_id, call.session)
    return sha256(json.dumps(bound).encode()).hexdigest()


def open_round_statement(
    call: LedgerRow,
    waiting_for: str,
    message: str,
    *,
    request: str,
    provider_state: str,
    inner_call_id: str | None,
    inner_run_id: str | None = None,
    expires_at: float | None,
    timeout_seconds: float | None,
) -> Statement:
    """Open the next round, until a time or for a number of seconds; returns its number, start and expiry."""
    params: dict[str, SqlValue] = {
        "call_id": call.call_id,
        "waiting_for": waiting_for,
        "message": message,
        "request": request,
        "provider_state": provider_state,
        "inner_call": inner_call_id,
        "inner_run": inner_run_id,
        "binding": compute_answer_binding(call),
        "expires_at": expires_at,
        "timeout_seconds": timeout_seconds,
    }
    return Statement(_SQL["open_round"], params, expect=1)


def save_partial_answer_statement(call_id: str, round: int, value: str, *, previous_value: str) -> Statement:
    """Store an incomplete answer in place of the previous one; undoes the transaction if that has changed."""
    params: dict[str, SqlValue] = {
        "call_id": call_id,
        "round": round,
        "answer_value": value,
        "previous_value": previous_value,
    }
    return Statement(_SQL["save_partial_answer"], params, expect=1)


@dataclass(frozen=True, slots=True)
class RoundAnswer:
    """An answer to a round, and who gives it."""

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
        """Answer the round: the first answer in time wins, and only from a caller that may see the call."""
        params: dict[str, SqlValue] = {
            "call_id": self.call_id,
            "round": self.round,
            "answer": self.answer,
            "answer_digest": self.answer_digest,
            "answer_value": self.answer_value,
            "by_whom": self.answered_by,
            "user_id": self.user,
            "session": self.session,
            "binding": self.binding,
        }
        return Statement(_SQL["answer_round"], params, expect=1)


class PendingTable:
    """Reads pending calls."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def find(self, call_id: str, user: str | None = None, session: str | None = None) -> PendingRow | None:
        """Find a call that waits or has waited, if this user and session may see it."""
        rows = await self._database.read(_SQL["find_rounds"], {"call_id": call_id, "user_id": user, "session": session})
        return PendingRow(LedgerRow.from_row(rows[0]), tuple(map(_round_from_row, rows))) if rows else None

    async def list_open(
        self,
        user: str | None = None,
        session: str | None = None,
        *,
        limit: int = 1 << 31,
        after: PendingPosition = BEFORE_ALL,
        grace_seconds: float = UNCLAIMED_GRACE_SECONDS,
    ) -> list[PendingRow]:
        """List open rounds of this user and session, and answered calls that no runtime resumed; oldest first."""
        params: dict[str, SqlValue] = {
            "user_id": user,
            "session": session,
            "limit": max(limit, 0),
            "after_time": after.created_at,
            "after_call_id": after.call_id,
            "grace": grace_seconds,
        }
        rows = await self._database.read(_SQL["list_open_rounds"], params)
        return [PendingRow(LedgerRow.from_row(row), (_round_from_row(row),)) for row in rows]

    async def find_expired(self, limit: int = 100) -> Sequence[str]:
        """Find calls whose open round, or whose answer, has expired."""
        return _call_ids(await self._database.read(_SQL["list_expired"], {"limit": limit}))

    async def next_expiry(self) -> float | None:
        """Return when the next open round or answer expires."""
        [row] = await self._database.read(_SQL["find_next_expiry"])
        return row["next"]  # type: ignore[no-any-return]

    async def count(self) -> int:
        """Count the open rounds."""
        [row] = await self._database.read(_SQL["count_open_rounds"])
        return int(row["number"])

    async def find_followers(self, call_id: str) -> Sequence[str]:
        """Find calls that wait for this call."""
        return _call_ids(await self._database.read(_SQL["list_followers"], {"call_id": call_id}))

    async def find_ended_inner_calls(self, limit: int = 100) -> Sequence[str]:
        """Find calls that have ended while other calls still wait for them."""
        return _call_ids(await self._database.read(_SQL["list_ended_inner_calls"], {"limit": limit}))

    async def find_released_inner_calls(self, limit: int = 100) -> Sequence[str]:
        """Find calls that have not happened and that no runtime runs, while other calls still wait for them."""
        return _call_ids(await self._database.read(_SQL["list_released_inner_calls"], {"limit": limit}))

    async def find_calls_that_wait_for_runs(self, user: str | None, session: str | None) -> list[str]:
        """The calls of a user and session that wait for runs of agents, oldest first."""
        params: dict[str, SqlValue] = {"user_id": user, "session": session}
        return [row["call_id"] for row in await self._database.read(_SQL["list_calls_that_wait_for_runs"], params)]

    async def find_followers_of_run(self, run_id: str) -> Sequence[str]:
        """Find calls that wait for this run."""
        return _call_ids(await self._database.read(_SQL["list_followers_of_run"], {"run_id": run_id}))

    async def find_ended_inner_runs(self, limit: int = 100) -> Sequence[str]:
        """Find runs that have ended while calls still wait for them."""
        rows = await self._database.read(_SQL["list_ended_inner_runs"], {"limit": limit})
        return [row["run_id"] for row in rows]


def _call_ids(rows: list[Row]) -> Sequence[str]:
    return [row["call_id"] for row in rows]


def _round_from_row(row: Row) -> PendingRound:
    return PendingRound(
        row["round"], row["waiting_for"], row["message"], row["request"], row["provider_state"], row["inner_call"],
        bool(row["is_open"]), row["answer"], row["answer_digest"], row["answer_value"], row["asked_at"],
        row["expires_at"], bool(row["is_expired"]), row["binding"], row["answered_at"], row["answered_by"],
        row["inner_run"],
    )  # fmt: skip
