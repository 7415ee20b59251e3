"""Ledger: which calls there are, who runs each, and how it ended. The outcome is written once and never changes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple, TypeAlias

from surehand.store.database import Row, Statement

LedgerState: TypeAlias = Literal["idle", "waiting", "ready", "taken", "running", "unknown", "ended"]


class LedgerRow(NamedTuple):
    """A call that is remembered. `schema.sql` says what its states mean."""

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

    @classmethod
    def from_row(cls, row: Row) -> LedgerRow:
        return cls(**{name: row[name] for name in _COLUMN_NAMES})


_COLUMN_NAMES = LedgerRow._fields
LEDGER_COLUMNS = ", ".join(f"ledger.{name}" for name in _COLUMN_NAMES)

_NEW = """INSERT INTO ledger (call_id, fingerprint, tool, definition, arguments, user_id, session, agent, context,
    state, owner, fence, posted, created_at)
    VALUES (:call_id, :fingerprint, :tool, :definition, :arguments, :user_id, :session, :agent, :context, {state},
    :owner, :fence, :posted, {{now}})"""
_OPEN = _NEW.format(state="'idle'") + " ON CONFLICT (call_id) DO NOTHING"
_BEGIN = _NEW.format(state="'running'")
_WAIT = (
    _NEW.format(state="'waiting'")
    + """ ON CONFLICT (call_id) DO UPDATE SET state = 'waiting', owner = NULL, posted = excluded.posted,
        arguments = excluded.arguments, definition = excluded.definition
    WHERE ledger.fingerprint IN (excluded.fingerprint, '') AND (ledger.state = 'idle'
        OR (ledger.state IN ('taken', 'running') AND ledger.owner = excluded.owner AND ledger.fence = excluded.fence))
    RETURNING fence"""
)
_FIND = f"SELECT {LEDGER_COLUMNS} FROM ledger WHERE call_id = :call_id"
_MINE = "owner = :owner AND fence = :fence"
_CLAIM = f"""UPDATE ledger SET state = 'running', owner = :owner, fence = fence + 1, posted = :posted
    WHERE call_id = :call_id AND (state = 'idle' OR (state = 'taken' AND {_MINE})) RETURNING fence"""
_TAKE_TO_END = """UPDATE ledger SET state = 'taken', owner = :owner, fence = fence + 1
    WHERE call_id = :call_id AND state = 'ready' AND fence = :fence"""
# An answer holds as long again as there was to give it.
_TAKE = f"""{_TAKE_TO_END} AND NOT EXISTS (SELECT 1 FROM pending WHERE pending.call_id = ledger.call_id
        AND pending.round = (SELECT max(round) FROM pending AS other WHERE other.call_id = ledger.call_id)
        AND pending.answered_at + pending.expires_at - pending.created_at <= {{now}})"""
_RELEASE = f"""UPDATE ledger SET state = 'idle', owner = NULL
    WHERE call_id = :call_id AND state IN ('taken', 'running') AND {_MINE}"""
_GIVE_BACK = """UPDATE ledger SET state = 'idle', owner = NULL, fence = fence + 1
    WHERE call_id = :call_id AND owner = :owner AND state = 'running'"""
_TAKE_BACK = f"""UPDATE ledger SET state = 'taken' WHERE call_id = :call_id AND state = 'running' AND {_MINE}
    RETURNING fence"""
_PUT_BACK = f"""UPDATE ledger SET state = 'ready', owner = NULL, fence = fence + 1
    WHERE call_id = :call_id AND state = :state AND {_MINE}"""
_END = """UPDATE ledger SET state = 'ended', outcome = :outcome, owner = NULL, ended_at = {now}
    WHERE call_id = :call_id"""
_END_MINE = f"{_END} AND state IN ('taken', 'running') AND {_MINE}"
_END_OPEN = f"{_END} AND state IN ('waiting', 'ready', 'unknown')"
_SLIM = "UPDATE ledger SET arguments = :arguments WHERE call_id = :call_id AND state = 'ended'"
_FORGET = "DELETE FROM ledger WHERE call_id = :call_id AND state = 'ended'"
_FORGET_WAITS = (
    "DELETE FROM pending WHERE call_id IN (SELECT call_id FROM ledger WHERE call_id = :call_id AND state = 'ended')"
)
_END_IDLE = f"{_END} AND state = 'idle'"
_GO_ON = """UPDATE ledger SET state = {state}, owner = {owner}, fence = fence + 1, arguments = :arguments
    WHERE call_id = :call_id AND state = 'waiting' RETURNING fence"""
_GO_ON_HERE = _GO_ON.format(state="'taken'", owner=":owner")
_GO_ON_ELSEWHERE = _GO_ON.format(state="'ready'", owner="NULL")


def start_statement(call: LedgerRow) -> Statement:
    """A new call runs: from here on its effect may have happened."""
    return Statement(_BEGIN, ledger_params(call), expect=1)


def open_statements(call: LedgerRow) -> list[Statement]:
    """What an id stands for, written by the first who uses it; the second statement gives the row as it is."""
    return [Statement(_OPEN, ledger_params(call)), find_statement(call.call_id)]


def find_statement(call_id: str) -> Statement:
    """The row of a call."""
    return Statement(_FIND, {"call_id": call_id})


def wait_statement(call: LedgerRow) -> Statement:
    """The call waits for somebody, and nobody runs it."""
    return Statement(_WAIT, ledger_params(call), expect=1)


def claim_statement(call_id: str, owner: str, fence: int, posted: str | None) -> Statement:
    """This owner runs the call, if nobody else does; gives the new fence."""
    return Statement(_CLAIM, {**_claim_params(call_id, owner, fence), "posted": posted})


def take_statement(call: LedgerRow, owner: str, *, to_end: bool) -> Statement:
    """This owner goes on with a call that was answered, if it is the first and in time, or ends it."""
    sql = _TAKE_TO_END if to_end else _TAKE
    return Statement(f"{sql} RETURNING fence", _claim_params(call.call_id, owner, call.fence))


def resume_statement(call_id: str, owner: str | None, arguments: str) -> Statement:
    """The call was answered: its owner goes on with it, or without one, whoever takes it."""
    params = {"call_id": call_id, "arguments": arguments}
    if owner is None:
        return Statement(_GO_ON_ELSEWHERE, params, expect=1)
    return Statement(_GO_ON_HERE, {**params, "owner": owner}, expect=1)


def release_statement(call_id: str, owner: str, fence: int) -> Statement:
    """Nothing has happened: the call may be tried again under the same id."""
    return Statement(_RELEASE, _claim_params(call_id, owner, fence))


def release_unconfirmed_statement(call_id: str, owner: str) -> Statement:
    """Whether the claim was kept is not known, and nothing has happened: the call may be tried again."""
    return Statement(_GIVE_BACK, {"call_id": call_id, "owner": owner})


def return_to_ready_statement(call_id: str, owner: str, fence: int, state: LedgerState = "taken") -> Statement:
    """The same for a call that was answered: whoever takes it goes on with it."""
    return Statement(_PUT_BACK, {**_claim_params(call_id, owner, fence), "state": state})


def revert_to_taken_statement(call_id: str, owner: str, fence: int) -> Statement:
    """The same, but this owner is still the one to go on with it; gives the fence."""
    return Statement(_TAKE_BACK, _claim_params(call_id, owner, fence))


def end_statement(call_id: str, outcome: str, *, owner: str, fence: int) -> Statement:
    """The outcome of a call that this owner runs."""
    return Statement(_END_MINE, {**_claim_params(call_id, owner, fence), "outcome": outcome}, expect=1)


def end_unclaimed_statement(call_id: str, outcome: str) -> Statement:
    """The outcome of a repeatable call, which nobody needs to claim."""
    return Statement(_END_IDLE, {"call_id": call_id, "outcome": outcome}, expect=1)


def end_answered_statement(call_id: str, outcome: str) -> Statement:
    """The outcome of a call that was waiting."""
    return Statement(_END_OPEN, {"call_id": call_id, "outcome": outcome}, expect=1)


def clear_arguments_statement(call_id: str) -> Statement:
    """An ended call without what it was called with."""
    return Statement(_SLIM, {"call_id": call_id, "arguments": "{}"})


def delete_ended_statements(call_id: str) -> list[Statement]:
    """No call, if it has ended; the last statement gives the row of one that has not."""
    params = {"call_id": call_id}
    return [Statement(_FORGET_WAITS, params), Statement(_FORGET, params), find_statement(call_id)]


def ledger_params(call: LedgerRow) -> Mapping[str, Any]:
    """A call as parameters."""
    return {
        "call_id": call.call_id, "fingerprint": call.fingerprint, "tool": call.tool, "definition": call.definition,
        "arguments": call.arguments, "user_id": call.user_id, "session": call.session, "agent": call.agent,
        "context": call.context, "owner": call.owner, "fence": call.fence, "posted": call.posted,
    }  # fmt: skip


def _claim_params(call_id: str, owner: str, fence: int) -> Mapping[str, Any]:
    return {"call_id": call_id, "owner": owner, "fence": fence}
