"""Stage `commit`: keep the outcome for `last_results`, and await `on_commit` before the end is reported."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import TypeAlias

from surehand.core.outcome import Outcome, Pending, attach_origin
from surehand.runtime.background_tasks import BackgroundTasks
from surehand.runtime.invocation.foreign_code import ForeignCodeError, run_foreign
from surehand.runtime.invocation.invocation import Invocation, NextStage
from surehand.runtime.last_results import LastResults
from surehand.runtime.pipeline.pipeline import StackPlan

OnCommit: TypeAlias = Callable[[Outcome], Awaitable[object]]
"""Awaited with the outcome of a call, after it is stored and before its end is reported."""
log = logging.getLogger("surehand")


class CommittedResults:
    """Keeps the last results of sessions, and awaits the application's `on_commit`."""

    def __init__(
        self, last_results: LastResults, on_commit: OnCommit | None, background_tasks: BackgroundTasks
    ) -> None:
        self._last_results = last_results
        self._on_commit = on_commit
        self._background_tasks = background_tasks

    @property
    def has_hook(self) -> bool:
        """Whether the application awaits outcomes."""
        return self._on_commit is not None

    async def commit(self, invocation: Invocation, outcome: Outcome) -> None:
        """Pass on the outcome of a call that has ended; an error of `on_commit` does not change it."""
        if isinstance(outcome, Pending):
            return
        if invocation.scope.has_session:
            self._last_results.add(invocation.principal, invocation.tool_name, outcome)
        if self._on_commit is None:
            return
        attach_origin(outcome, invocation)
        try:
            await run_foreign(self._background_tasks, self._on_commit, outcome)
        except ForeignCodeError as error:
            log.error("on_commit raised for a call of %s", invocation.tool_name, exc_info=error.original)


def commit(plan: StackPlan, proceed: NextStage, *, committed_results: CommittedResults) -> NextStage:
    """Left out for calls without a session, in a runtime without `on_commit`."""
    has_hook = committed_results.has_hook
    if not plan.has_session and not has_hook:
        return proceed
    plan.may_suspend = plan.may_suspend or has_hook

    async def stage(invocation: Invocation) -> Outcome:
        outcome = await proceed(invocation)
        if isinstance(outcome, Pending):
            return outcome
        if has_hook:
            invocation.make_interruptible()
        await committed_results.commit(invocation, outcome)
        return outcome

    return stage
