"""The table `ledger`: which calls exist, which runtime runs each, and its outcome, written once and never changed.

The functions build the statements of one step in the life of a call; `runtime/` puts them into transactions.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Literal, NamedTuple, TypeAlias

from surehand.store.database import Database, Row, Statement
from surehand.store.queries import load_queries

LedgerState: TypeAlias = Literal["idle", "waiting", "ready", "taken", "running", "unknown", "ended"]

MAX_MARKS_PER_WRITE = 1_000


class LedgerRow(NamedTuple):
    """A stored call. `sql/schema.sql` explains its states."""

    call_id: str
    fingerprint: str
    tool: str
    definition: str
    arguments: str
    user_id: str | None = None
    session: str | None = None
    agent: str | None = None
    context: str = "{}"
    state: LedgerState = "idle"
    owner: str | None = None
    fence: int = 0
    posted: str | None = None
    outcome: str | None = None
    created_at: float = 0.0
    ended_at: float | None = None
    repeat_key: str | None = None

    @classmethod
    def from_row(cls, row: Row) -> LedgerRow:
        return cls(**{name: row[name] for name in _COLUMN_NAMES})


_COLUMN_NAMES = LedgerRow._fields
_SQL = load_queries("ledger")


def start_statement(call: LedgerRow) -> Statement:
    """Record a new call as running: from here on its effect may have happened."""
    return Statement(_SQL["start_call"], ledger_params(call), expect=1)


def open_statement(call: LedgerRow) -> Statement:
    """Record what an id stands for unless it is known, and that the row's owner has a call with it."""
    return Statement(_SQL["open_call"], ledger_params(call))


def find_statement(call_id: str) -> Statement:
    """Read the row of a call."""
    return Statement(_SQL["find_call"], {"call_id": call_id})


def require_first_statements(repeat_key: str, *, siblings: str, owner: str, locks: bool) -> list[Statement]:
    """Undo the transaction if a call with this key waits, or its effect is unknown.

    Args:
        siblings: the ids of calls with this key that are made together, which are not compared.
        locks: wait for other transactions that store a call with this key.
    """
    params = {"repeat_key": repeat_key, "siblings": siblings, "owner": owner}
    require = Statement(_SQL["require_first"], params, expect=1)
    return [Statement("{lock}", {"name": repeat_key}), require] if locks else [require]


def find_first_statement(repeat_key: str, *, siblings: str, owner: str) -> Statement:
    """Read the id and state of the call that a call with this key follows, and what it waits for."""
    return Statement(_SQL["find_first"], {"repeat_key": repeat_key, "siblings": siblings, "owner": owner})


def wait_statement(call: LedgerRow) -> Statement:
    """Let a call wait for an answer, without an owner."""
    return Statement(_SQL["wait_for_answer"], ledger_params(call), expect=1)


def claim_statement(call_id: str, owner: str, fence: int, posted: str | None) -> Statement:
    """Let this owner run a call that no other owner runs."""
    return Statement(_SQL["claim_call"], {**_claim_params(call_id, owner, fence), "posted": posted}, expect=1)


def take_statement(call: LedgerRow, owner: str, *, to_end: bool) -> Statement:
    """Take an answered call if no other owner was first: to resume it while the answer is valid, or to end it."""
    query = "take_call_to_end" if to_end else "take_call"
    return Statement(_SQL[query], _claim_params(call.call_id, owner, call.fence))


def resume_statement(call_id: str, owner: str | None, arguments: str) -> Statement:
    """Make an answered call resumable: by this owner, or by any if `owner` is None."""
    params = {"call_id": call_id, "arguments": arguments}
    if owner is None:
        return Statement(_SQL["resume_anywhere"], params, expect=1)
    return Statement(_SQL["resume_here"], {**params, "owner": owner}, expect=1)


def release_statement(call_id: str, owner: str, fence: int) -> Statement:
    """Release a call that has had no effect; it may be tried again under the same id."""
    return Statement(_SQL["release_call"], _claim_params(call_id, owner, fence))


def release_unconfirmed_statement(call_id: str, owner: str) -> Statement:
    """Release a call that has had no effect, when it is not known whether its claim was stored."""
    return Statement(_SQL["release_unconfirmed_call"], {"call_id": call_id, "owner": owner})


def return_to_ready_statement(call_id: str, owner: str, fence: int, state: LedgerState = "taken") -> Statement:
    """Release an answered call that has had no effect; any owner may resume it."""
    return Statement(_SQL["return_to_ready"], {**_claim_params(call_id, owner, fence), "state": state})


def revert_to_taken_statement(call_id: str, owner: str, fence: int) -> Statement:
    """Return an answered call from running to taken, still for this owner; returns the fence."""
    return Statement(_SQL["revert_to_taken"], _claim_params(call_id, owner, fence))


def end_statement(call_id: str, outcome: str, *, owner: str, fence: int) -> Statement:
    """Store the outcome of a call that this owner runs."""
    return Statement(_SQL["end_claimed_call"], {**_claim_params(call_id, owner, fence), "outcome": outcome}, expect=1)


def end_unclaimed_statement(call_id: str, outcome: str) -> Statement:
    """Store the outcome of a repeatable call, which needs no claim."""
    return Statement(_SQL["end_idle_call"], {"call_id": call_id, "outcome": outcome}, expect=1)


def end_open_statement(call_id: str, outcome: str) -> Statement:
    """Store the outcome of a call that waits, was answered and not taken, or has an unknown effect."""
    return Statement(_SQL["end_open_call"], {"call_id": call_id, "outcome": outcome}, expect=1)


def clear_arguments_statement(call_id: str) -> Statement:
    """Delete the arguments of an ended call."""
    return Statement(_SQL["clear_arguments"], {"call_id": call_id, "arguments": "{}"})


def delete_ended_statements(call_id: str) -> list[Statement]:
    """Delete a call if it has ended; the last statement returns the row of one that has not."""
    params = {"call_id": call_id}
    return [
        Statement(_SQL["delete_rounds_of_ended_call"], params),
        Statement(_SQL["delete_ended_call"], params),
        find_statement(call_id),
    ]


async def find_fence(database: Database, call_id: str, owner: str) -> int | None:
    """Return the fence of a call that this owner runs."""
    # Not returned by the claim itself: a write that returns rows does not fit in a single step on SQLite.
    rows = await database.quick_read(_SQL["find_fence"], {"call_id": call_id, "owner": owner})
    return int(rows[0][0]) if rows else None


async def mark_idle_calls(database: Database, owner: str, open_call_ids: Collection[str]) -> None:
    """Record which idle ids this owner has calls with, so that their rows are kept, and no others."""
    rows = await database.read(_SQL["list_idle_calls_of_owner"], {"owner": owner, "limit": MAX_MARKS_PER_WRITE})
    marked = {row["call_id"] for row in rows}
    changes = [("unmark_idle_call", call_id) for call_id in marked.difference(open_call_ids)]
    changes += [("mark_idle_call", call_id) for call_id in set(open_call_ids) - marked]
    statements = [Statement(_SQL[query], {"call_id": call_id, "owner": owner}) for query, call_id in sorted(changes)]
    if statements:
        await database.write(statements[:MAX_MARKS_PER_WRITE])


def ledger_params(call: LedgerRow) -> Mapping[str, Any]:
    """The parameters that insert a call."""
    # Spelled out: this runs for every durable call, and `_asdict` is slower.
    return {
        "call_id": call.call_id, "fingerprint": call.fingerprint, "tool": call.tool, "definition": call.definition,
        "arguments": call.arguments, "user_id": call.user_id, "session": call.session, "agent": call.agent,
        "context": call.context, "repeat_key": call.repeat_key, "owner": call.owner, "fence": call.fence,
        "posted": call.posted,
    }  # fmt: skip


def _claim_params(call_id: str, owner: str, fence: int) -> Mapping[str, Any]:
    return {"call_id": call_id, "owner": owner, "fence": fence}
