"""The table `runs`: the runs of agents. One runtime at a time drives a run; its writes hold only under its fence.

A run goes on under another owner when its owner is dead (its lock is free), has not renewed the lease in time, or has
released it. `run_messages` holds what people and programs send to a run while it goes on.
"""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from surehand.core.ids import new_id
from surehand.store.database import (
    Database,
    Row,
    SqlValue,
    Statement,
    UnexpectedRowCount,
    agent_parameters,
    validate_owner,
)
from surehand.store.queries import load_queries
from surehand.store.serialization import JSON, dump_json

StoredRunState: TypeAlias = Literal["running", "waiting", "done", "stopped", "failed"]
RunMessageKind: TypeAlias = Literal["steer", "follow_up"]

LEASE_SECONDS = 30.0
"""How long a claim is valid after the last write under it."""

_SQL = load_queries("runs")
_ANNOUNCE = Statement("{announce}")


@dataclass(frozen=True, slots=True)
class RunRow:
    """One run of an agent."""

    run_id: str
    agent: str
    user: str | None
    session: str | None
    state: StoredRunState
    prompt: JSON
    """What the run was started with."""
    context: JSON
    """What else the agent keeps about the run."""
    spent: JSON
    """What the run has used so far."""
    report: JSON
    """What the run reported at its end."""
    reason: str | None
    """Why the run was stopped or failed, or what it waits for."""
    owner: str | None
    """The runtime that drives the run; None while it waits, after its end, and if its owner was found dead."""
    fence: int
    started_at: float
    ended_at: float | None
    """When the run ended; of a cancelled one, when its calls had ended too."""
    attempts: int = 0
    """How many attempts to go on have failed since the run last waited."""

    @property
    def has_ended(self) -> bool:
        """Whether the run is done, stopped or failed."""
        return self.state not in ("running", "waiting")

    @property
    def is_cancelled(self) -> bool:
        """Whether the run was cancelled: one that stops at a limit has a report."""
        return self.state == "stopped" and self.report is None


@dataclass(frozen=True, slots=True)
class RunClaim:
    """The right to drive a run and to write about it, until another owner claims the run."""

    run: RunRow
    """The run as it was when it was claimed."""
    lease_seconds: float = LEASE_SECONDS

    @property
    def run_id(self) -> str:
        """The id of the run."""
        return self.run.run_id

    def params(self) -> dict[str, SqlValue]:
        """The parameters of statements that hold only under this claim."""
        return {"run_id": self.run.run_id, "owner": self.run.owner, "fence": self.run.fence}

    def guard_statement(self, spent: JSON = None) -> Statement:
        """The first statement of a write under the claim: it locks the run, and undoes the write under an old fence."""
        params = {**self.params(), "lease": self.lease_seconds, "spent": _dump_or_none(spent)}
        return Statement(_SQL["renew_claim"], params, expect=1)


@dataclass(frozen=True, slots=True)
class ResumableRun:
    """A run that can go on: it was answered, or the process that drove it is gone."""

    run_id: str
    agent: str
    answers: int = 0
    """A number that grows with each message to a run that waits and with each change of its calls; 0 for one whose
    process is gone."""
    attempts: int = 0
    """How many attempts to go on with it have failed."""
    reason: str | None = None
    """Why the last attempt failed."""


@dataclass(frozen=True, slots=True)
class RunMessage:
    """A message to a run."""

    id: int
    kind: RunMessageKind
    content: JSON
    step: int | None
    """The step that the message was given to; None while it waits for one."""


class RunTable:
    """Begins, claims, saves and finds runs. A run ends once."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def begin(
        self,
        run_id: str | None,
        agent: str,
        prompt: JSON,
        *,
        owner: str,
        user: str | None = None,
        session: str | None = None,
        context: JSON = None,
        lease_seconds: float = LEASE_SECONDS,
    ) -> RunClaim | RunRow:
        """Start a run and claim it; if the id is known, nothing changes, and its row is returned.

        Args:
            owner: the id of a runtime that has joined the store: as long as it holds its lock, no other claims the run.
        """
        params: dict[str, SqlValue] = {
            "run_id": run_id if run_id is not None else new_id(),
            "agent": agent,
            "user_id": user,
            "session": session,
            "prompt": dump_json(prompt),
            "context": dump_json({} if context is None else context),
            "owner": validate_owner(owner),
            "lease": lease_seconds,
        }
        [rows] = await self._database.write([Statement(_SQL["begin_run"], params)])
        if rows:
            return RunClaim(_run_from_row(rows[0]), lease_seconds)
        [row] = await self._database.read(_SQL["find_run"], {"run_id": params["run_id"]})
        return _run_from_row(row)

    def leave_to_workers_statement(
        self, run_id: str, agent: str, prompt: JSON, *, user: str | None, session: str | None, context: JSON
    ) -> Statement:
        """Build the statement that starts a run which no process drives yet; a known id changes nothing."""
        params: dict[str, SqlValue] = {
            "run_id": run_id,
            "agent": agent,
            "user_id": user,
            "session": session,
            "prompt": dump_json(prompt),
            "context": dump_json(context),
        }
        return Statement(_SQL["leave_run_to_workers"], params)

    async def claim(self, run_id: str, *, owner: str, lease_seconds: float = LEASE_SECONDS) -> RunClaim | None:
        """Go on with a run; None if it has ended, another live owner drives it, or it is unknown."""
        run = await self.find(run_id)
        if run is None or run.has_ended:
            return None
        is_dead = run.owner is not None and run.owner not in await self._database.live_owners([run.owner])
        params: dict[str, SqlValue] = {
            "run_id": run_id,
            "fence": run.fence,
            "owner": validate_owner(owner),
            "lease": lease_seconds,
            "dead": int(is_dead),
        }
        [rows] = await self._database.write([Statement(_SQL["claim_run"], params)])
        return RunClaim(_run_from_row(rows[0]), lease_seconds) if rows else None

    async def renew(self, claim: RunClaim) -> bool:
        """Renew the lease; False if the claim is lost. Every other write under the claim renews it too."""
        return await self._write([claim.guard_statement()])

    async def release(self, claim: RunClaim) -> bool:
        """Let another owner go on with the run at once; False if the claim is lost."""
        return await self._write([Statement(_SQL["release_run"], claim.params(), expect=1), _ANNOUNCE])

    async def leave(self, claim: RunClaim, reason: str) -> bool:
        """Leave the run to whoever claims it by its id; workers do not find it. False if the claim is lost."""
        params = {**claim.params(), "never": math.inf, "reason": reason}
        return await self._write([Statement(_SQL["leave_run"], params, expect=1), _ANNOUNCE])

    async def release_after_failure(self, claim: RunClaim, reason: str, *, delay: float) -> bool:
        """Count a failed attempt to go on, and let another owner try after a delay; False if the claim is lost."""
        params = {**claim.params(), "reason": reason, "delay": delay}
        return await self._write([Statement(_SQL["release_run_after_failure"], params, expect=1)])

    async def save(
        self,
        claim: RunClaim,
        state: StoredRunState,
        *,
        spent: JSON = None,
        report: JSON = None,
        reason: str | None = None,
        unless_messages: bool = False,
    ) -> bool:
        """Store what has become of a run: `waiting` releases the claim, an end state ends it, `running` keeps it.

        Returns False, and stores nothing, if the claim is lost.

        Args:
            unless_messages: also store nothing while a message to the run has not been given to a step.
        """
        if state == "running":
            return await self._write([claim.guard_statement(spent)])
        params = {**claim.params(), "spent": _dump_or_none(spent), "reason": reason}
        if state == "waiting":
            change = Statement(_SQL["let_run_wait"], params, expect=1)
        else:
            params |= {"state": state, "report": _dump_or_none(report)}
            change = Statement(_SQL["end_run"], params, expect=1)
        if not unless_messages:
            return await self._write([change, _ANNOUNCE])
        # The guard locks the run, so that no message is sent between the check and the change.
        require = Statement(_SQL["require_no_messages"], {"run_id": claim.run_id}, expect=1)
        return await self._write([claim.guard_statement(), require, change, _ANNOUNCE])

    async def find(self, run_id: str) -> RunRow | None:
        """Find a run by its id."""
        rows = await self._database.read(_SQL["find_run"], {"run_id": run_id})
        return _run_from_row(rows[0]) if rows else None

    async def latest(
        self,
        agent: str | None = None,
        *,
        state: StoredRunState | None = None,
        user: str | None = None,
        session: str | None = None,
        before: tuple[float, str] | None = None,
        limit: int = 100,
    ) -> list[RunRow]:
        """Return runs, newest first: all, or those of an agent, state, user or session.

        Args:
            before: the start and the id of the last run of the page before.
        """
        params: dict[str, SqlValue] = {
            "agent": agent,
            "state": state,
            "user_id": user,
            "session": session,
            "before_time": None if before is None else before[0],
            "before_run_id": None if before is None else before[1],
            "limit": max(limit, 0),
        }
        return [_run_from_row(row) for row in await self._database.read(_SQL["list_latest_runs"], params)]

    async def cancel(self, run_id: str, reason: str) -> bool:
        """Stop a run, whoever drives it; False if it has ended or is unknown.

        Its calls have to be ended then, and `close_cancelled` to be called.
        """
        params: dict[str, SqlValue] = {"run_id": run_id, "reason": reason}
        return await self._write([Statement(_SQL["cancel_run"], params, expect=1), _ANNOUNCE])

    async def close_cancelled(self, run_id: str) -> None:
        """Store that the calls of a cancelled run have ended."""
        await self._database.write([Statement(_SQL["close_cancelled_run"], {"run_id": run_id})])

    async def cancelled_with_open_calls(self, *, limit: int = 100) -> list[str]:
        """The ids of cancelled runs whose calls may not have ended."""
        return [row["run_id"] for row in await self._database.read(_SQL["list_cancelled_runs"], {"limit": limit})]

    async def is_claimed(self, claim: RunClaim) -> bool:
        """Whether a claim still holds; in contrast to `renew`, it writes nothing."""
        return bool(await self._database.quick_read(_SQL["find_claim"], claim.params()))

    async def answered(self, agents: Collection[str], *, after: str = "", limit: int = 100) -> list[ResumableRun]:
        """Runs of these agents that wait and have answers, by their ids from `after` on."""
        params: dict[str, SqlValue] = {"after": after, "limit": limit}
        reads = [
            await self._database.read(_SQL["list_answered_runs"], {**params, **names})
            for names in agent_parameters(agents)
        ]
        found = [ResumableRun(row["run_id"], row["agent"], row["answers"]) for rows in reads for row in rows]
        return sorted(found, key=lambda run: run.run_id)[:limit]

    async def interrupted(self, agents: Collection[str], *, owner: str, limit: int = 100) -> list[ResumableRun]:
        """Runs of these agents that no live process but `owner` drives.

        Runs that have to wait for a retry, and those that were left to their callers, are not among them.
        """
        rows = [
            row
            for names in agent_parameters(agents)
            for row in await self._database.read(
                _SQL["list_interrupted_runs"], {"owner": owner, "limit": limit, **names}
            )
        ]
        owners = {row["owner"] for row in rows if not row["is_free"]}
        live_owners = await self._database.live_owners(owners) if owners else set()
        return [
            ResumableRun(row["run_id"], row["agent"], attempts=row["attempts"], reason=row["reason"])
            for row in rows
            if row["is_free"] or row["owner"] not in live_owners
        ]

    async def send(self, run_id: str, kind: RunMessageKind, content: JSON) -> bool:
        """Send a message to a run, from any process; False if the run has ended or is unknown."""
        lock = Statement(_SQL["lock_unended_run"], {"run_id": run_id}, expect=1)
        message = {"run_id": run_id, "kind": kind, "content": dump_json(content)}
        return await self._write([lock, Statement(_SQL["send_message"], message, expect=1), _ANNOUNCE])

    async def take_messages(
        self, claim: RunClaim, step: int, kind: RunMessageKind | None = None
    ) -> list[RunMessage] | None:
        """Give the waiting messages, of this kind or all, to a step; returns all messages of the step, in order.

        A run that goes on after a crash gets the same messages for the same step. None if the claim is lost.
        """
        messages = await self.messages(claim.run_id)
        if any(message.step is None and kind in (None, message.kind) for message in messages):
            params: dict[str, SqlValue] = {"run_id": claim.run_id, "step": step, "kind": kind}
            if not await self._write([claim.guard_statement(), Statement(_SQL["give_messages_to_step"], params)]):
                return None
            messages = await self.messages(claim.run_id)
        return [message for message in messages if message.step == step]

    async def messages(self, run_id: str) -> list[RunMessage]:
        """All messages to a run, in the order in which they were sent."""
        rows = await self._database.quick_read(_SQL["list_messages"], {"run_id": run_id})
        return [RunMessage(id, kind, json.loads(content), step) for id, kind, content, step in rows]

    async def _write(self, statements: Sequence[Statement]) -> bool:
        return await write_if_claimed(self._database, statements)


def cancel_run_statement(run_id: str, reason: str) -> Statement:
    """Cancel a run in the transaction of another change; nothing changes if it has ended or is unknown."""
    return Statement(_SQL["cancel_run"], {"run_id": run_id, "reason": reason})


async def write_if_claimed(database: Database, statements: Sequence[Statement]) -> bool:
    """Execute statements, of which one requires a claim; False, and nothing is written, if that is lost."""
    try:
        await database.write(statements)
    except UnexpectedRowCount:
        return False
    return True


def _dump_or_none(value: JSON) -> str | None:
    return None if value is None else dump_json(value)


def _run_from_row(row: Row) -> RunRow:
    fields: dict[str, Any] = {name: value for name, value in row.items() if name != "user_id"}
    fields["user"] = row["user_id"]
    for name in ("prompt", "context", "spent", "report"):
        fields[name] = None if row[name] is None else json.loads(row[name])
    return RunRow(**fields)
