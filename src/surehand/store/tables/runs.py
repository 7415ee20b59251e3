"""The table `runs`: the runs of agents, each with what triggered it and its report."""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal, TypeAlias

from surehand.core.ids import new_id
from surehand.store.database import Database, Row, Statement
from surehand.store.queries import load_queries
from surehand.store.serialization import JSON, dump_json

RunEndState: TypeAlias = Literal["done", "failed"]
RunState: TypeAlias = Literal["running", "done", "failed", "interrupted"]

_SQL = load_queries("runs")


@dataclass(frozen=True, slots=True)
class RunRow:
    """One run of an agent."""

    run_id: str
    agent: str
    state: RunState
    cause: JSON
    """What triggered the run."""
    report: JSON
    """What the run reported at its end."""
    owner: str | None
    started_at: float
    ended_at: float | None


class RunTable:
    """Runs by agent. A run ends once."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def begin(self, agent: str, cause: JSON, *, owner: str | None = None) -> str:
        """Start a run; returns its id."""
        run_id = new_id()
        params = {"run_id": run_id, "agent": agent, "cause": dump_json(cause), "owner": owner}
        await self._database.write([Statement(_SQL["begin_run"], params, expect=1)])
        return run_id

    async def end(self, run_id: str, state: RunEndState, report: JSON = None) -> bool:
        """End a run; returns False if it is not running."""
        params = {"run_id": run_id, "state": state, "report": None if report is None else dump_json(report)}
        [ended] = await self._database.write([Statement(_SQL["end_run"], params)])
        return bool(ended)

    async def interrupt(self, owners: Collection[str]) -> int:
        """End the runs of dead owners as interrupted; returns their number."""
        statements = [Statement(_SQL["interrupt_runs"], {"owner": owner}) for owner in sorted(owners)]
        return sum(map(len, await self._database.write(statements)))

    async def find(self, run_id: str) -> RunRow | None:
        """Find a run by its id."""
        rows = await self._database.read(_SQL["find_run"], {"run_id": run_id})
        return _row_from_columns(rows[0]) if rows else None

    async def latest(self, agent: str, limit: int = 100) -> list[RunRow]:
        """Return the runs of an agent, newest first."""
        rows = await self._database.read(_SQL["list_latest_runs"], {"agent": agent, "limit": max(limit, 0)})
        return [_row_from_columns(row) for row in rows]


def _row_from_columns(row: Row) -> RunRow:
    report = None if row["report"] is None else json.loads(row["report"])
    return RunRow(**{**row, "cause": json.loads(row["cause"]), "report": report})
