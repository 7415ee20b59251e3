"""Tasks: calls that go on without their caller, as the extension `io.modelcontextprotocol/tasks` has it.

A task is a call: its id is the call's id, and how it stands is what the store says. So it survives what the call does.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from mcp.shared.exceptions import MCPError
from mcp_types import INTERNAL_ERROR, INVALID_PARAMS, METHOD_NOT_FOUND, MISSING_REQUIRED_CLIENT_CAPABILITY
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from surehand.core.ids import new_id
from surehand.core.outcome import Failed, Outcome, Pending
from surehand.gateway.mcp.caller import TASKS_EXTENSION, Caller, caller_from_context
from surehand.gateway.mcp.elicitation import (
    ALREADY_ANSWERED_CODES,
    ElicitationAnswers,
    ElicitationQuestion,
    apply_answers,
    build_question,
)
from surehand.gateway.mcp.request_state import digest_arguments
from surehand.gateway.mcp.tasks.call_watcher import CallWatcher
from surehand.gateway.mcp.tasks.retention import TaskRetention
from surehand.gateway.mcp.tasks.running_tasks import OutcomeTask, RunningTasks
from surehand.gateway.mcp.tasks.task_questions import AnsweredRounds, PartialAnswers
from surehand.gateway.mcp.tasks.wire_format import render_task
from surehand.gateway.mcp.tool_result import render_result
from surehand.runtime.pending.status import is_runtime_alive, record_failed_call, save_partial_answer
from surehand.store.errors import StoreError

if TYPE_CHECKING:
    from mcp.server.context import ServerRequestContext

    from surehand.gateway.mcp.served_runtime import ServedRuntime, ServedTool
    from surehand.gateway.mcp.tasks.wire_format import CancelTaskParams, GetTaskParams, UpdateTaskParams
    from surehand.runtime.pending.status import CallStatus
    from surehand.runtime.scope import Scope

log = logging.getLogger("surehand")
IMMEDIATE_RESULT_SECONDS = 0.05
"""Seconds within which a call has to end so that its result is given in place of a task."""
MAX_ANSWER_ATTEMPTS = 50
LOST_AFTER_SECONDS = 3_600.0
"""Seconds after which a call that nobody is known to run counts as lost."""
MAX_PARTIAL_ANSWER_BYTES = 64 << 10
"""Bytes of the answers that are kept until all of them are there."""


class TaskHandlers:
    """Begins tasks, and serves `tasks/get`, `tasks/update` and `tasks/cancel`."""

    def __init__(self, served_runtime: ServedRuntime) -> None:
        self._served_runtime, self.call_watcher = served_runtime, CallWatcher(served_runtime.runtime)
        self.running_tasks, self._answered_rounds = (
            RunningTasks(served_runtime.runtime, self.call_watcher),
            AnsweredRounds(),
        )
        self.retention = TaskRetention(served_runtime.runtime, self.running_tasks)
        self.waiter_counts: Counter[str] = Counter()
        """How many requests wait for each call that somebody was asked about."""

    # Beginning

    def should_become_task(self, caller: Caller, served_tool: ServedTool) -> bool:
        """Whether a call of this tool becomes a task; raises where it would have to, and cannot."""
        if served_tool.task_support == "forbidden":
            return False
        is_needed = served_tool.task_support == "required" and caller.is_modern
        if is_needed and not caller.supports_tasks:
            raise missing_extension_error()
        has_room = self.running_tasks.has_room(caller.user) and self.retention.has_room(caller.user)
        if is_needed and not has_room:
            raise MCPError(INTERNAL_ERROR, "Too many tasks run, or are remembered, already. Try again later.")
        return caller.supports_tasks and has_room

    async def start(self, caller: Caller, served_tool: ServedTool, arguments: dict[str, Any]) -> dict[str, Any]:
        """A new call, which goes on without its caller."""
        # Whoever finds it unended later has to find out whether the runtime lives that began it.
        scope, call_id = (
            self._served_runtime.scope(caller.user),
            f"{new_id()}@{self._served_runtime.runtime.services.owner_id}",
        )
        self.retention.retain(call_id, caller.user, arguments)
        running = self.running_tasks.start(
            call_id, caller.user, scope.call(served_tool.listing.name, arguments, call_id=call_id)
        )
        return await self._task_or_result(caller, served_tool, arguments, call_id, running)

    async def resume(
        self,
        caller: Caller,
        served_tool: ServedTool,
        arguments: dict[str, Any],
        question: ElicitationQuestion,
        answers: ElicitationAnswers,
    ) -> dict[str, Any]:
        """A call that asked before it could begin, and goes on as a task now."""
        work = self._apply_answers(caller, question, answers)
        running = self.running_tasks.start(question.call_id, caller.user, work)
        return await self._task_or_result(caller, served_tool, arguments, question.call_id, running)

    async def _task_or_result(
        self,
        caller: Caller,
        served_tool: ServedTool,
        arguments: dict[str, Any],
        call_id: str,
        outcome_task: OutcomeTask,
    ) -> dict[str, Any]:
        """A task; or the result of what came to an end at once, or the question of what cannot begin without."""
        scope, is_required = self._served_runtime.scope(caller.user), served_tool.task_support == "required"
        try:
            await asyncio.wait({outcome_task}, timeout=IMMEDIATE_RESULT_SECONDS)
            while (
                standing := await self._served_runtime.call_status(caller.user, call_id)
            ) is None and not outcome_task.done():
                await asyncio.wait(
                    {outcome_task}, timeout=IMMEDIATE_RESULT_SECONDS / 10
                )  # a task is told of once it can be found
        except asyncio.CancelledError:
            outcome_task.cancel()
            _ = self._served_runtime.runtime.services.reaper.spawn(self._undo(scope, call_id, outcome_task))
            raise
        ended = outcome_task.result() if outcome_task.done() and not outcome_task.cancelled() else None
        if ended is not None and not isinstance(ended, Pending) and not (is_required and standing):
            await self.retention.discard(call_id)
            return render_result(ended, served_tool)
        is_dismissed = outcome_task.done() and ended is None
        if is_required and not is_dismissed and (question := build_question(standing, caller)) is not None:
            return question.input_required_result(digest_arguments(arguments))
        if standing is None:
            raise MCPError(INTERNAL_ERROR, "The call could not be remembered.")
        return await self.created_task(caller, standing)

    async def _undo(self, scope: Scope, call_id: str, outcome_task: OutcomeTask) -> None:
        """End a task that nobody would ever know of, and remember nothing of it."""
        await scope.cancel(call_id)
        await asyncio.wait({outcome_task})
        await self.retention.discard(call_id)

    async def created_task(self, caller: Caller, status: CallStatus) -> dict[str, Any]:
        """The task that stands for a call, as it is when it is first told of."""
        task = await self.describe_task(caller, status)
        if (
            isinstance(status.outcome, Pending)
            and task["status"] == "working"
            and not self._open_question(status, caller)
        ):
            self._served_runtime.deferred_results.report_wait(status.tool, status.outcome)
        return {key: value for key, value in task.items() if key not in _DETAIL_FIELDS} | {"resultType": "task"}

    # Serving

    async def get_task(self, ctx: ServerRequestContext[Any, Any], params: GetTaskParams) -> dict[str, Any]:
        """How a task stands."""
        caller, _, standing = await self._load_task(ctx, params.task_id)
        return {**await self.describe_task(caller, standing), "resultType": "complete"}

    async def update_task(self, ctx: ServerRequestContext[Any, Any], params: UpdateTaskParams) -> dict[str, Any]:
        """Answers to what a task asks, all of them or some; those to anything else are ignored."""
        for _ in range(MAX_ANSWER_ATTEMPTS):  # somebody else may answer at the same moment
            caller, _, standing = await self._load_task(ctx, params.task_id)
            question = self._open_question(standing, caller)
            if question is None or not (given := question.select_answers(params.answers)):
                break
            heard = PartialAnswers.parse(standing.partial_answer).with_answers(question, given)
            if question.requests.keys() <= heard.answers.keys():
                self._answered_rounds.add(question)
                _ = self.running_tasks.start(
                    question.call_id, caller.user, self._apply_all_answers(caller, question, heard.answers)
                )
                break
            if len(heard.stored_text) > MAX_PARTIAL_ANSWER_BYTES:
                raise MCPError(
                    INVALID_PARAMS, f"Answers that are not all there may have {MAX_PARTIAL_ANSWER_BYTES:,} bytes."
                )
            if await save_partial_answer(self._served_runtime.runtime.services, standing, heard.stored_text):
                break
        self.call_watcher.notify(params.task_id)
        return {}

    async def _apply_all_answers(
        self, caller: Caller, question: ElicitationQuestion, answers: ElicitationAnswers
    ) -> Outcome | None:
        is_over = False
        try:
            outcome = await self._apply_answers(caller, question, answers)
            standing = await self._served_runtime.call_status(caller.user, question.call_id)
            is_over = standing is None or standing.round != question.round
            return outcome
        finally:
            if not is_over:  # it still waits for the same
                self._answered_rounds.remove(question)

    async def _apply_answers(
        self, caller: Caller, question: ElicitationQuestion, answers: ElicitationAnswers
    ) -> Outcome | None:
        """What comes of answers; where somebody else was faster, what has come of theirs by now: nobody waits here."""
        outcome = await apply_answers(self._served_runtime.scope(caller.user), question, answers, caller.answered_by)
        if not isinstance(outcome, Failed) or outcome.code not in ALREADY_ANSWERED_CODES:
            return outcome
        standing = await self._served_runtime.call_status(caller.user, question.call_id)
        return outcome if standing is None else standing.outcome

    async def cancel_task(self, ctx: ServerRequestContext[Any, Any], params: CancelTaskParams) -> dict[str, Any]:
        """Nobody wants it any more; one that has ended stays as it is."""
        _, scope, standing = await self._load_task(ctx, params.task_id)
        is_over = standing.outcome is not None and not isinstance(standing.outcome, Pending)
        if not is_over and not await scope.cancel(params.task_id):
            self.running_tasks.cancel(params.task_id)
        return {}

    async def _load_task(self, ctx: ServerRequestContext[Any, Any], task_id: str) -> tuple[Caller, Scope, CallStatus]:
        caller = self.require_caller(ctx)
        standing = await self._served_runtime.call_status(caller.user, task_id)
        if standing is None:
            raise MCPError(INVALID_PARAMS, "There is no such task, or it is no longer remembered.")
        return caller, self._served_runtime.scope(caller.user), standing

    def require_caller(self, ctx: ServerRequestContext[Any, Any]) -> Caller:
        """Who asks about tasks; raises for whoever knows none."""
        if ctx.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            raise MCPError(METHOD_NOT_FOUND, "Method not found", ctx.method)
        caller = caller_from_context(ctx, self._served_runtime.options.user)
        if not caller.supports_tasks:
            raise missing_extension_error()
        return caller

    # How a task stands

    async def find_task(self, caller: Caller, task_id: str) -> dict[str, Any] | None:
        """All that is known of a task; None if there is none for this caller."""
        standing = await self._served_runtime.call_status(caller.user, task_id)
        return None if standing is None else await self.describe_task(caller, standing)

    async def describe_task(self, caller: Caller, status: CallStatus) -> dict[str, Any]:
        """All that is known of a task."""
        outcome, question = status.outcome, self._open_question(status, caller)
        if question is not None and not question.requests:
            outcome = None  # it was answered, and goes on
        if status.state == "unknown" and self._may_be_verified(status):
            outcome = None
        if await self.is_lost(status):
            outcome = Failed("interrupted", f"{status.tool} was interrupted: whoever ran it is gone.")
            await record_failed_call(self._served_runtime.runtime.services, status.call_id, outcome)  # it stays so
        offered = self._served_runtime.find_by_runtime_name(status.tool)
        said = self.running_tasks.last_report(status.call_id)
        return render_task(
            status,
            outcome,
            question,
            ttl_milliseconds=self._ttl_milliseconds(status),
            served_tool=offered,
            last_report=said,
        )

    def _open_question(self, status: CallStatus, caller: Caller) -> ElicitationQuestion | None:
        """What is open of a question."""
        if (question := build_question(status, caller)) is None:
            return None
        return (
            question._replace(requests={})
            if question in self._answered_rounds
            else PartialAnswers.parse(status.partial_answer).open_question(question)
        )

    def _may_be_verified(self, status: CallStatus) -> bool:
        """Whether the tool itself may yet find out whether it has happened."""
        offered, now = (
            self._served_runtime.find_by_runtime_name(status.tool),
            self._served_runtime.runtime.services.clock.time(),
        )
        can = offered is not None and offered.listing.tool.safety.verify is not None
        return can and now - status.changed_at < LOST_AFTER_SECONDS

    async def is_lost(self, status: CallStatus) -> bool:
        """Whether nobody goes on with a call that only whoever began it could go on with."""
        if status.outcome is not None or status.state != "idle" or status.call_id in self.running_tasks:
            return False
        parts, task_id = self._served_runtime.runtime.services, status.call_id
        if (begun := _TASK_CALL_ID.fullmatch(task_id)) is None or any(
            each.assigned_id == task_id for each in parts.running_calls
        ):
            return False
        if (owner := begun["owner"]) != parts.owner_id:
            return not await is_runtime_alive(parts, owner)
        return parts.clock.time() - status.changed_at > LOST_AFTER_SECONDS

    def _ttl_milliseconds(self, status: CallStatus) -> int | None:
        """Milliseconds for which a task is remembered at least, from its beginning; None for ever."""
        parts = self._served_runtime.runtime.services
        if parts.is_durable and parts.store is not None:
            kept = parts.store.retention.calls
        else:
            self.retention.retain(status.call_id, status.user)
            kept = self.retention.seconds_retained(status.call_id, status.created_at)
        return None if kept is None else int(kept * 1000)

    async def wait_until(
        self, user: str | None, call_id: str, condition: Callable[[CallStatus | None], bool]
    ) -> CallStatus | None:
        """How a call stands once something is true of it, or nobody goes on with it."""
        with self.call_watcher.watch(call_id) as signal:
            while True:
                try:
                    standing = await self._served_runtime.call_status(user, call_id)
                    if condition(standing) or standing is None or await self.is_lost(standing):
                        return standing
                except StoreError as error:
                    log.warning("How call %s stands cannot be told now: %s", call_id, error)
                await signal.wait()


_TASK_CALL_ID = re.compile(r"[0-9a-f]{36}@(?P<owner>[0-9a-f]{36})")
"""The ids of calls that were begun as tasks. How others go on is known to those alone who made them."""
_DETAIL_FIELDS = ("inputRequests", "result", "error", "resultType")


def missing_extension_error() -> MCPError:
    """What a client is told that would have to take a task, and does not say that it can."""
    needed: dict[str, Any] = {"requiredCapabilities": {"extensions": {TASKS_EXTENSION: {}}}}
    return MCPError(MISSING_REQUIRED_CLIENT_CAPABILITY, "The client has to declare the tasks extension.", needed)
