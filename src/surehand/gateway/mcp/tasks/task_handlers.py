"""Handlers of the extension `io.modelcontextprotocol/tasks`: calls that run without the request that started them.

A task is a call: its id is the call's id, and its status is what the store says. So a task survives whatever the call
survives.
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
from surehand.store.errors import StoreError

if TYPE_CHECKING:
    from mcp.server.context import ServerRequestContext

    from surehand.gateway.mcp.served_runtime import ServedRuntime, ServedTool
    from surehand.gateway.mcp.tasks.wire_format import CancelTaskParams, GetTaskParams, UpdateTaskParams
    from surehand.runtime.pending.status import CallStatus
    from surehand.runtime.scope import Scope

log = logging.getLogger("surehand")
IMMEDIATE_RESULT_SECONDS = 0.05
"""A call that ends within this time gives its result, and not a task."""
MAX_ANSWER_ATTEMPTS = 50
"""Attempts to store partial answers while other clients do the same."""
LOST_AFTER_SECONDS = 3_600.0
"""A call that no runtime is known to run is lost after this time."""
MAX_PARTIAL_ANSWER_BYTES = 64 << 10
"""Bytes of stored answers to a question that is not answered completely."""
_TASK_CALL_ID = re.compile(r"[0-9a-f]{36}@(?P<owner>[0-9a-f]{36})")
"""The id of a call that was started as a task. Only of these the owner is known, so only these can be found lost."""
_DETAIL_FIELDS = ("inputRequests", "result", "error", "resultType")


class TaskHandlers:
    """Starts tasks, and serves `tasks/get`, `tasks/update` and `tasks/cancel`."""

    def __init__(self, served_runtime: ServedRuntime) -> None:
        self._served_runtime = served_runtime
        self.call_watcher = CallWatcher(served_runtime.runtime)
        self.running_tasks = RunningTasks(served_runtime.runtime, self.call_watcher)
        self._answered_rounds = AnsweredRounds()
        self.retention = TaskRetention(served_runtime.runtime, self.running_tasks)
        self.waiter_counts: Counter[str] = Counter()
        """How many requests wait for each pending call."""

    # Starting tasks

    def should_become_task(self, caller: Caller, served_tool: ServedTool) -> bool:
        """Whether a call of this tool becomes a task; raises `MCPError` if it is required but not possible."""
        if served_tool.task_support == "forbidden":
            return False
        is_required = served_tool.task_support == "required" and caller.is_modern
        if is_required and not caller.supports_tasks:
            raise missing_extension_error()
        has_room = self.running_tasks.has_room(caller.user) and self.retention.has_room(caller.user)
        if is_required and not has_room:
            raise MCPError(INTERNAL_ERROR, "Too many tasks run, or are remembered, already. Try again later.")
        return caller.supports_tasks and has_room

    async def start(self, caller: Caller, served_tool: ServedTool, arguments: dict[str, Any]) -> dict[str, Any]:
        """Make a new call as a task."""
        scope = self._served_runtime.scope(caller.user)
        # With the id of this runtime, so that any process can find out later whether the call is still running.
        call_id = f"{new_id()}@{self._served_runtime.runtime.runtime_id}"
        self.retention.retain(call_id, caller.user, arguments)
        work = scope.call(served_tool.listing.name, arguments, call_id=call_id)
        outcome_task = self.running_tasks.start(call_id, caller.user, work)
        return await self._task_or_result(caller, served_tool, arguments, call_id, outcome_task)

    async def resume(
        self,
        caller: Caller,
        served_tool: ServedTool,
        arguments: dict[str, Any],
        question: ElicitationQuestion,
        answers: ElicitationAnswers,
    ) -> dict[str, Any]:
        """Resume a pending call with its answers, as a task."""
        work = self._apply_answers(caller, question, answers)
        outcome_task = self.running_tasks.start(question.call_id, caller.user, work)
        return await self._task_or_result(caller, served_tool, arguments, question.call_id, outcome_task)

    async def _task_or_result(
        self,
        caller: Caller,
        served_tool: ServedTool,
        arguments: dict[str, Any],
        call_id: str,
        outcome_task: OutcomeTask,
    ) -> dict[str, Any]:
        """The task; or the result of a call that ended at once; or the question of a call that requires a task."""
        is_required = served_tool.task_support == "required"
        try:
            status = await self._wait_until_stored(caller, call_id, outcome_task)
        except asyncio.CancelledError:
            outcome_task.cancel()
            scope = self._served_runtime.scope(caller.user)
            _ = self._served_runtime.runtime.spawn(self._undo(scope, call_id, outcome_task))
            raise
        outcome = outcome_task.result() if outcome_task.done() and not outcome_task.cancelled() else None
        if outcome is not None and not isinstance(outcome, Pending) and not (is_required and status):
            await self.retention.discard(call_id)
            return render_result(outcome, served_tool)
        is_left_pending = outcome_task.done() and outcome is None
        if is_required and not is_left_pending:
            question = build_question(status, caller)
            if question is not None:
                return question.input_required_result(digest_arguments(arguments))
        if status is None:
            raise MCPError(INTERNAL_ERROR, "The call could not be remembered.")
        return await self.created_task(caller, status)

    async def _wait_until_stored(self, caller: Caller, call_id: str, outcome_task: OutcomeTask) -> CallStatus | None:
        """Wait until a call has ended or has a status, so that a client can find the task that it is given."""
        await asyncio.wait({outcome_task}, timeout=IMMEDIATE_RESULT_SECONDS)
        while True:
            status = await self._served_runtime.call_status(caller.user, call_id)
            if status is not None or outcome_task.done():
                return status
            await asyncio.wait({outcome_task}, timeout=IMMEDIATE_RESULT_SECONDS / 10)

    async def _undo(self, scope: Scope, call_id: str, outcome_task: OutcomeTask) -> None:
        """Cancel and forget a task whose id was never sent to the client."""
        await scope.cancel(call_id)
        await asyncio.wait({outcome_task})
        await self.retention.discard(call_id)

    async def created_task(self, caller: Caller, status: CallStatus) -> dict[str, Any]:
        """The result of `tools/call` that gives the client a task."""
        task = await self.describe_task(caller, status)
        is_waiting = isinstance(status.outcome, Pending) and task["status"] == "working"
        if is_waiting and not self._open_question(status, caller):
            assert isinstance(status.outcome, Pending)
            self._served_runtime.deferred_results.report_wait(status.tool, status.outcome)
        return {key: value for key, value in task.items() if key not in _DETAIL_FIELDS} | {"resultType": "task"}

    # Serving the methods of the extension

    async def get_task(self, ctx: ServerRequestContext[Any, Any], params: GetTaskParams) -> dict[str, Any]:
        """Serve `tasks/get`."""
        caller, _, status = await self._load_task(ctx, params.task_id)
        return {**await self.describe_task(caller, status), "resultType": "complete"}

    async def update_task(self, ctx: ServerRequestContext[Any, Any], params: UpdateTaskParams) -> dict[str, Any]:
        """Serve `tasks/update`: accept some or all answers to the open question, and ignore any others."""
        for _ in range(MAX_ANSWER_ATTEMPTS):  # another client may store answers at the same time
            caller, _, status = await self._load_task(ctx, params.task_id)
            question = self._open_question(status, caller)
            new_answers = {} if question is None else question.select_answers(params.answers)
            if question is None or not new_answers:
                break
            partial_answers = PartialAnswers.parse(status.partial_answer).with_answers(question, new_answers)
            if question.requests.keys() <= partial_answers.answers.keys():
                self._answered_rounds.add(question)
                work = self._apply_all_answers(caller, question, partial_answers.answers)
                _ = self.running_tasks.start(question.call_id, caller.user, work)
                break
            stored_text = partial_answers.stored_text
            if len(stored_text) > MAX_PARTIAL_ANSWER_BYTES:
                message = f"Answers that are not all there may have {MAX_PARTIAL_ANSWER_BYTES:,} bytes."
                raise MCPError(INVALID_PARAMS, message)
            if await self._served_runtime.runtime.save_partial_answer(status, stored_text):
                break
        self.call_watcher.notify(params.task_id)
        return {}

    async def _apply_all_answers(
        self, caller: Caller, question: ElicitationQuestion, answers: ElicitationAnswers
    ) -> Outcome | None:
        """Resume the call, and ask the question again if the answers left it pending."""
        has_moved_on = False
        try:
            outcome = await self._apply_answers(caller, question, answers)
            status = await self._served_runtime.call_status(caller.user, question.call_id)
            has_moved_on = status is None or status.round != question.round
            return outcome
        finally:
            if not has_moved_on:
                self._answered_rounds.remove(question)

    async def _apply_answers(
        self, caller: Caller, question: ElicitationQuestion, answers: ElicitationAnswers
    ) -> Outcome | None:
        """Resume the call. If another answer was first, return its outcome so far, without waiting for its end."""
        outcome = await apply_answers(self._served_runtime.scope(caller.user), question, answers, caller.answered_by)
        if not isinstance(outcome, Failed) or outcome.code not in ALREADY_ANSWERED_CODES:
            return outcome
        status = await self._served_runtime.call_status(caller.user, question.call_id)
        return outcome if status is None else status.outcome

    async def cancel_task(self, ctx: ServerRequestContext[Any, Any], params: CancelTaskParams) -> dict[str, Any]:
        """Serve `tasks/cancel`. A task that has ended stays as it is."""
        _, scope, status = await self._load_task(ctx, params.task_id)
        has_ended = status.outcome is not None and not isinstance(status.outcome, Pending)
        if not has_ended and not await scope.cancel(params.task_id):
            self.running_tasks.cancel(params.task_id)
        return {}

    async def _load_task(self, ctx: ServerRequestContext[Any, Any], task_id: str) -> tuple[Caller, Scope, CallStatus]:
        caller = self.require_caller(ctx)
        status = await self._served_runtime.call_status(caller.user, task_id)
        if status is None:
            raise MCPError(INVALID_PARAMS, "There is no such task, or it is no longer remembered.")
        return caller, self._served_runtime.scope(caller.user), status

    def require_caller(self, ctx: ServerRequestContext[Any, Any]) -> Caller:
        """The caller of a request about tasks; raises `MCPError` if its client does not support them."""
        if ctx.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            raise MCPError(METHOD_NOT_FOUND, "Method not found", ctx.method)
        caller = caller_from_context(ctx, self._served_runtime.options.user)
        if not caller.supports_tasks:
            raise missing_extension_error()
        return caller

    # The status of a task

    async def find_task(self, caller: Caller, task_id: str) -> dict[str, Any] | None:
        """The task object of `tasks/get`; None if this caller has no such task."""
        status = await self._served_runtime.call_status(caller.user, task_id)
        return None if status is None else await self.describe_task(caller, status)

    async def describe_task(self, caller: Caller, status: CallStatus) -> dict[str, Any]:
        """The task object of `tasks/get` for a call."""
        outcome = status.outcome
        question = self._open_question(status, caller)
        if question is not None and not question.requests:
            outcome = None  # all requests are answered, and the call resumes
        if status.state == "unknown" and self._may_be_verified(status):
            outcome = None
        if await self.is_lost(status):
            outcome = Failed("interrupted", f"{status.tool} was interrupted: the process that ran it has ended.")
            # Stored, so that the task stays failed.
            await self._served_runtime.runtime.record_failed_call(status.call_id, outcome)
        return render_task(
            status,
            outcome,
            question,
            ttl_milliseconds=self._ttl_milliseconds(status),
            served_tool=self._served_runtime.find_by_runtime_name(status.tool),
            last_report=self.running_tasks.last_report(status.call_id),
        )

    def _open_question(self, status: CallStatus, caller: Caller) -> ElicitationQuestion | None:
        """The part of the question that has no answers yet; without requests if all were answered."""
        question = build_question(status, caller)
        if question is None:
            return None
        if question in self._answered_rounds:
            return question._replace(requests={})
        return PartialAnswers.parse(status.partial_answer).open_question(question)

    def _may_be_verified(self, status: CallStatus) -> bool:
        """Whether the tool can still find out whether its effect has happened."""
        served_tool = self._served_runtime.find_by_runtime_name(status.tool)
        if served_tool is None or served_tool.listing.tool.safety.verify is None:
            return False
        return self._served_runtime.runtime.clock.time() - status.changed_at < LOST_AFTER_SECONDS

    async def is_lost(self, status: CallStatus) -> bool:
        """Whether the process that ran a call is gone, so that the call will never end."""
        task_id = status.call_id
        if status.outcome is not None or status.state != "idle" or task_id in self.running_tasks:
            return False
        runtime = self._served_runtime.runtime
        match = _TASK_CALL_ID.fullmatch(task_id)
        if match is None or any(call.assigned_id == task_id for call in runtime.running_calls()):
            return False
        owner = match["owner"]
        if owner != runtime.runtime_id:
            return not await runtime.is_alive(owner)
        return runtime.clock.time() - status.changed_at > LOST_AFTER_SECONDS

    def _ttl_milliseconds(self, status: CallStatus) -> int | None:
        """Milliseconds from its creation for which a task is retained at least; None if it is never deleted."""
        runtime = self._served_runtime.runtime
        if runtime.is_durable and runtime.store is not None:
            seconds = runtime.store.retention.calls
        else:
            self.retention.retain(status.call_id, status.user)
            seconds = self.retention.seconds_retained(status.call_id, status.created_at)
        return None if seconds is None else int(seconds * 1000)

    async def wait_until(
        self, user: str | None, call_id: str, condition: Callable[[CallStatus | None], bool]
    ) -> CallStatus | None:
        """Wait until a condition holds for the status of a call, or the call is lost, and return the status."""
        with self.call_watcher.watch(call_id) as signal:
            while True:
                try:
                    status = await self._served_runtime.call_status(user, call_id)
                    if condition(status) or status is None or await self.is_lost(status):
                        return status
                except StoreError as error:
                    log.warning("The status of call %s could not be loaded; retrying: %s", call_id, error)
                await signal.wait()


def missing_extension_error() -> MCPError:
    """The error for a client that has not declared the tasks extension, but would have to."""
    data: dict[str, Any] = {"requiredCapabilities": {"extensions": {TASKS_EXTENSION: {}}}}
    return MCPError(MISSING_REQUIRED_CLIENT_CAPABILITY, "The client has to declare the tasks extension.", data)
