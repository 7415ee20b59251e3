"""The tables `steps` and `step_calls`: the answers of models in a run, the calls that they ask for, and their outcomes.

A step is stored whole before any of its calls runs, so that after a crash only calls without an outcome are made.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from surehand.store.database import Database, SqlValue, Statement
from surehand.store.queries import load_queries
from surehand.store.serialization import JSON, dump_json
from surehand.store.tables.runs import RunClaim, write_if_claimed

_SQL = load_queries("steps")


@dataclass(frozen=True, slots=True)
class StepCallRow:
    """A call that an answer asks for."""

    call_id: str
    outcome: JSON
    """What the model is told of the call; None while that is not stored."""


@dataclass(frozen=True, slots=True)
class StepRow:
    """One step of a run: an answer of a model, and its calls in order."""

    step: int
    answer: JSON
    calls: tuple[StepCallRow, ...]
    created_at: float


class StepTable:
    """Adds steps to runs, stores the outcomes of their calls, and lists them."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(
        self, claim: RunClaim, step: int, answer: JSON, call_ids: Sequence[str] = (), *, spent: JSON = None
    ) -> bool:
        """Store an answer with the ids of its calls and what the run has spent; all or nothing.

        Returns False if the claim is lost, or the run has this step.
        """
        key: dict[str, SqlValue] = {"run_id": claim.run_id, "step": step}
        statements = [Statement(_SQL["add_step"], {**key, "answer": dump_json(answer)}, expect=1)]
        statements += [
            Statement(_SQL["add_call"], {**key, "position": position, "call_id": call_id}, expect=1)
            for position, call_id in enumerate(call_ids)
        ]
        return await write_if_claimed(self._database, [claim.guard_statement(spent), *statements])

    async def set_outcomes(
        self, claim: RunClaim, step: int, outcomes: Mapping[str, JSON], *, spent: JSON = None
    ) -> bool:
        """Store outcomes by call id; one that is stored already stays. Returns False if the claim is lost."""
        statements = [
            Statement(
                _SQL["set_outcome"],
                {"run_id": claim.run_id, "step": step, "call_id": call_id, "outcome": dump_json(outcome)},
            )
            for call_id, outcome in outcomes.items()
        ]
        return await write_if_claimed(self._database, [claim.guard_statement(spent), *statements])

    async def open_calls(self, run_id: str) -> Sequence[str]:
        """The ids of the calls of a run that had not ended when the run last looked, in order."""
        return [row["call_id"] for row in await self._database.read(_SQL["list_open_calls"], {"run_id": run_id})]

    async def list(self, run_id: str) -> list[StepRow]:
        """The steps of a run, in order."""
        calls: defaultdict[int, list[StepCallRow]] = defaultdict(list)
        steps = await self._database.read(_SQL["list_steps"], {"run_id": run_id})
        for row in await self._database.read(_SQL["list_calls"], {"run_id": run_id}):
            outcome = None if row["outcome"] is None else json.loads(row["outcome"])
            calls[row["step"]].append(StepCallRow(row["call_id"], outcome))
        return [
            StepRow(row["step"], json.loads(row["answer"]), tuple(calls[row["step"]]), row["created_at"])
            for row in steps
        ]
