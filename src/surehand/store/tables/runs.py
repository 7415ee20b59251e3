"""Runs: the cycles of agents - what woke each, and what came of it."""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal, TypeAlias

from surehand.core.ids import new_id
from surehand.store.database import Database, Row, Statement
from surehand.store.serialization import JSON, dump_json

RunEndState: TypeAlias = Literal["done", "failed"]
RunState: TypeAlias = Literal["running", "done", "failed", "interrupted"]

_RUN = "run_id, agent, state, cause, report, owner, started_at, ended_at"
_BEGIN = """INSERT INTO runs (run_id, agent, state, cause, owner, started_at)
    VALUES (:run_id, :agent, 'running', :cause, :owner, {now})"""
_END = """UPDATE runs SET state = :state, report = :report, ended_at = {now}
    WHERE run_id = :run_id AND state = 'running' RETURNING run_id"""
_INTERRUPT = """UPDATE runs SET state = 'interrupted', ended_at = {now}
    WHERE owner = :owner AND state = 'running' RETURNING run_id"""
_FIND = f"SELECT {_RUN} FROM runs WHERE run_id = :run_id"
_LATEST = f"SELECT {_RUN} FROM runs WHERE agent = :agent ORDER BY started_at DESC, run_id DESC LIMIT :limit"


@dataclass(frozen=True, slots=True)
class RunRow:
    """One cycle of an agent."""

    run_id: str
    agent: str
    state: RunState
    cause: JSON
    """What woke the agent."""
    report: JSON
    """What came of it."""
    owner: str | None
    started_at: float
    ended_at: float | None


class RunTable:
    """Cycles by agent. A run ends once."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def begin(self, agent: str, cause: JSON, *, owner: str | None = None) -> str:
        """Start a run; gives its id."""
        run_id = new_id()
        run = {"run_id": run_id, "agent": agent, "cause": dump_json(cause), "owner": owner}
        await self._database.write([Statement(_BEGIN, run, expect=1)])
        return run_id

    async def end(self, run_id: str, state: RunEndState, report: JSON = None) -> bool:
        """End a run; false if it is not running."""
        told = None if report is None else dump_json(report)
        [ended] = await self._database.write([Statement(_END, {"run_id": run_id, "state": state, "report": told})])
        return bool(ended)

    async def interrupt(self, owners: Collection[str]) -> int:
        """End what dead owners were running; gives how many runs that were."""
        dead = [Statement(_INTERRUPT, {"owner": owner}) for owner in sorted(owners)]
        return sum(map(len, await self._database.write(dead)))

    async def find(self, run_id: str) -> RunRow | None:
        """The run of that id."""
        rows = await self._database.read(_FIND, {"run_id": run_id})
        return _row_from_columns(rows[0]) if rows else None

    async def latest(self, agent: str, limit: int = 100) -> list[RunRow]:
        """An agent's runs, the newest first."""
        return [
            _row_from_columns(row)
            for row in await self._database.read(_LATEST, {"agent": agent, "limit": max(limit, 0)})
        ]


def _row_from_columns(row: Row) -> RunRow:
    report = None if row["report"] is None else json.loads(row["report"])
    return RunRow(**{**row, "cause": json.loads(row["cause"]), "report": report})
