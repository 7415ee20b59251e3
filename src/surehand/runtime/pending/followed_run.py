"""Followed run: a call that waits for a run of an agent ends with what the run comes to, in any process on the store.

A handler or provider returns `Pending.for_run(run_id)`, and the stage `park` stores the wait. The agent that ends the
run ends the call too (`resumption.end_calls_that_follow_run`); if its process died before, the store maintenance of any
runtime does.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from surehand.core.outcome import Done, Failed

if TYPE_CHECKING:
    from surehand.core.call import Principal
    from surehand.store.store import Store
    from surehand.store.tables.runs import RunRow


async def find_followed_run(store: Store, run_id: str, viewer: Principal) -> RunRow | None:
    """The run that a call waits for; None if it is unknown, or belongs to another user or session."""
    run = await store.runs.find(run_id)
    if run is None or run.user != viewer.user or run.session != viewer.session:
        return None
    return run


def outcome_of_run(run: RunRow) -> Done | Failed | None:
    """What a call that waits for the run ends with: its `output` or else its `text`; None while the run goes on."""
    if not run.has_ended:
        return None
    report = run.report
    text = report
    if isinstance(report, Mapping):
        text = report.get("text")
        report = text if report.get("output") is None else report["output"]
    if run.state == "done":
        return Done(report)
    if run.is_cancelled:
        return Failed("cancelled", f"The run of {run.agent} was cancelled. {run.reason or ''}".rstrip(), executed=True)
    problem = run.reason or f"The run of {run.agent} was {run.state}."
    problem = f"{problem} Its last report: {text}" if text else problem
    return Failed("limit_exceeded" if run.state == "stopped" else "failed", problem, executed=True)
