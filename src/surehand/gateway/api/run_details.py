"""Runs of agents as the API shows them, from the store, or from the events in memory if there is none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from surehand.gateway.access.identity import Identity
from surehand.gateway.agent_runs import FinishedRun
from surehand.gateway.events.event_json import USAGE_FIELDS, outcome_to_json
from surehand.gateway.gateway import Gateway
from surehand.gateway.problems import Problem
from surehand.store.serialization import deserialize_outcome

if TYPE_CHECKING:
    from surehand.store.store import Store
    from surehand.store.tables.runs import RunRow


@dataclass(frozen=True, slots=True)
class RunSummary:
    """A run as the list shows it."""

    run_id: str
    agent: str
    status: str
    """`running`, `waiting`, `done`, `stopped` or `failed`."""
    user: str | None
    session: str | None
    started_at: float
    ended_at: float | None = None
    reason: str = ""
    text: str = ""
    output: Any = None
    usage: Mapping[str, Any] | None = None
    prompt: Any = None
    parent_run: str | None = None
    """The run whose call started this one, for a run of a sub-agent."""

    @property
    def has_ended(self) -> bool:
        """Whether the run is done, stopped or failed."""
        return self.status not in ("running", "waiting")

    def to_json(self) -> dict[str, Any]:
        """The run without its prompt."""
        names = (
            "run_id", "agent", "status", "user", "session", "started_at", "ended_at", "reason", "text", "output",
            "usage", "parent_run",
        )  # fmt: skip
        return {name: getattr(self, name) for name in names}


def summary_of_row(row: RunRow) -> RunSummary:
    """A run of the store."""
    report = row.report or {}
    spent = row.spent or {}
    text = report.get("text") or ""
    output = report.get("output")
    if output is None and row.state == "done":  # without an output type, the text is the output
        output = text
    return RunSummary(
        row.run_id, row.agent, row.state, row.user, row.session, row.started_at, row.ended_at, row.reason or "",
        text, output, {name: spent.get(name) for name in USAGE_FIELDS}, row.prompt,
        (row.context or {}).get("parent_run"),
    )  # fmt: skip


async def require_run(gateway: Gateway, identity: Identity, run_id: str, action: str) -> RunSummary:
    """A run; raises `Problem` for one that the identity may not see, and audits it."""
    run = await find_any_run(gateway, run_id)
    if run is None:
        raise unknown_run(run_id)
    if not gateway.may_see_run(identity, user=run.user, agent=run.agent):
        await gateway.audit_refusal(identity, action, call_id=run_id, code="not_found")
        raise unknown_run(run_id)
    return run


async def find_any_run(gateway: Gateway, run_id: str) -> RunSummary | None:
    """A run, whosever it is."""
    store = gateway.runtime.store  # without a configured one, that in memory knows the runs of sub-agents
    row = None if store is None else await store.runs.find(run_id)
    if row is not None or gateway.runtime.is_durable:
        return None if row is None else summary_of_row(row)
    return next((each for each in list_memory_runs(gateway) if each.run_id == run_id), None)


def list_memory_runs(gateway: Gateway) -> list[RunSummary]:
    """The runs whose events are kept in memory, newest first."""
    runs: dict[str, RunSummary] = {}
    for event in reversed(gateway.feed.newest_events()):
        fields = event.fields
        known = runs.get(fields.get("run_id", ""))
        if fields["type"] == "RunStarted":
            started_at = fields["at"] if known is None else known.started_at
            runs[fields["run_id"]] = _summary_of_running(fields, started_at)
        elif fields["type"] == "RunEnded" and known is not None:
            runs[known.run_id] = replace(
                known,
                status=fields["status"],
                ended_at=None if fields["status"] == "waiting" else fields["at"],
                reason=fields["reason"],
                text=fields["text"],
                output=fields["output"],
                usage=fields["usage"],
            )
    # A run that goes on has another `RunStarted`, and keeps its place: cursors are made of the start and the id.
    return sorted(runs.values(), key=lambda run: (run.started_at, run.run_id), reverse=True)


def _summary_of_running(fields: Mapping[str, Any], started_at: float) -> RunSummary:
    return RunSummary(
        fields["run_id"],
        fields["agent"],
        "running",
        fields["user"],
        fields["session"],
        started_at,
        parent_run=fields["parent_run"],
    )


async def find_own_run(gateway: Gateway, identity: Identity, run_id: str) -> RunSummary:
    """A run that the identity may change: its own, or any for the operator; raises `Problem` else."""
    run = await find_any_run(gateway, run_id)
    is_visible = run is not None and gateway.may_see_run(identity, user=run.user, agent=run.agent)
    if run is None or not is_visible or (run.user != identity.user and not identity.is_operator):
        await gateway.audit_refusal(identity, "run", call_id=run_id, code="not_found")
        raise unknown_run(run_id)
    return run


def unknown_run(run_id: str) -> Problem:
    """The problem for a run that does not exist, or that the caller may not see: they look the same."""
    return Problem("not_found", f"No run {run_id[:80]} is known.")


def run_result_to_json(run: FinishedRun) -> dict[str, Any]:
    """A run that has ended or waits, as the response to the request that drove it."""
    return {
        "run_id": run.id,
        "agent": run.agent,
        "status": run.status,
        "text": run.text,
        "output": run.output,
        "reason": run.reason,
        "usage": {name: getattr(run.usage, name) for name in USAGE_FIELDS},
        "waiting": [describe_run_wait(each) for each in run.waiting],
    }


def summary_to_result_json(run: RunSummary) -> dict[str, Any]:
    """A run that has ended before, as the response to a request for it."""
    names = ("run_id", "agent", "status", "text", "output", "reason", "usage")
    return {**{name: getattr(run, name) for name in names}, "waiting": []}


def describe_run_wait(wait: Any) -> dict[str, Any]:
    """A call that a run waits for."""
    names = ("call_id", "tool", "arguments", "waiting_for", "message", "request", "round", "expires_at", "path")
    return {name: getattr(wait, name) for name in names}


async def list_waits(gateway: Gateway, run: RunSummary) -> list[dict[str, Any]]:
    """The calls that wait, of a run and of the runs of sub-agents below it."""
    if run.has_ended:
        return []
    scope = gateway.runtime if run.user is None else gateway.runtime.scope(user=run.user)
    waits = []
    for each in await scope.pending():
        path = await _find_path(gateway, each.turn, run)
        if path is not None:
            waits.append(describe_run_wait(replace(each, path=path)))
    return waits


async def _find_path(gateway: Gateway, run_id: str | None, top: RunSummary) -> tuple[str, ...] | None:
    """The agents from a run down to another one that its calls started; None if they did not start it."""
    below: list[str] = []
    while run_id is not None and run_id != top.run_id:
        run = await find_any_run(gateway, run_id)
        if run is None:
            return None
        below.append(run.agent)
        run_id = run.parent_run
    return None if run_id is None else (top.agent, *reversed(below))


async def find_top_run(gateway: Gateway, run_id: str) -> str:
    """The run at the top, whose calls started this one, directly or by further runs."""
    run = await find_any_run(gateway, run_id)
    while run is not None and run.parent_run is not None:
        run_id = run.parent_run
        run = await find_any_run(gateway, run_id)
    return run_id


async def list_steps(store: Store, run_id: str) -> list[dict[str, Any]]:
    """The steps of a run: the text of each response of the model, its calls and what it used."""
    steps = []
    for row in await store.steps.list(run_id):
        calls = [
            {"call_id": stored.call_id, "tool": asked["name"], "arguments": asked["arguments"],
             "outcome": _describe_outcome(stored.outcome)}
            for asked, stored in zip(row.answer["calls"], row.calls, strict=False)
        ]  # fmt: skip
        steps.append(
            {"step": row.step, "text": row.answer["text"], "calls": calls, "usage": row.answer["usage"],
             "at": row.created_at}
        )  # fmt: skip
    return steps


def _describe_outcome(stored: Any) -> dict[str, Any] | None:
    if stored is None:
        return None
    if isinstance(stored, dict):
        return {"status": "pending", "waiting_for": stored["pending"]["waiting_for"]}
    return outcome_to_json(deserialize_outcome(stored))
