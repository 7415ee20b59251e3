"""The handler of `tools/call`: a call's result, or a question to the client, or a task.

In the modern protocol a question is the result of the request, and the client sends the call again with the answers.
In the handshake protocol the client is asked with an elicitation while its request is still open.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS, ElicitResult

from surehand.core.names import NAMESPACE_SEPARATOR
from surehand.core.outcome import Failed, Outcome, Pending
from surehand.core.sanitize import replace_surrogates
from surehand.gateway.mcp.caller import Caller, caller_from_context
from surehand.gateway.mcp.elicitation import (
    ALREADY_ANSWERED_CODES,
    ElicitationAnswers,
    ElicitationQuestion,
    apply_answers,
    ask_client,
    build_question,
)
from surehand.gateway.mcp.progress import forward_progress
from surehand.gateway.mcp.request_state import RequestState, digest_arguments
from surehand.gateway.mcp.served_runtime import ServedRuntime, ServedTool
from surehand.gateway.mcp.tool_result import downgrade_result, render_result

if TYPE_CHECKING:
    from mcp.server.context import ServerRequestContext
    from mcp_types import CallToolRequestParams

    from surehand.gateway.mcp.tasks.task_handlers import TaskHandlers
    from surehand.runtime.pending.status import CallStatus
    from surehand.runtime.scope import Scope

MAX_PROVIDER_ERROR_LENGTH = 500
"""Characters of a provider's error in the message about an unknown tool."""
MAX_QUESTION_ROUNDS = 100
"""Questions that a client is asked within one request."""


class ToolCallHandler:
    """Serves `tools/call`."""

    def __init__(self, served_runtime: ServedRuntime, task_handlers: TaskHandlers) -> None:
        self._served_runtime = served_runtime
        self._task_handlers = task_handlers

    async def __call__(self, ctx: ServerRequestContext[Any, Any], params: CallToolRequestParams) -> dict[str, Any]:
        """Start a call, or resume it with the answers of its client, and return the result of the request."""
        caller = caller_from_context(ctx, self._served_runtime.options.user)
        served_tool = await self._find_tool(params.name, caller.user)
        call = _CallInRequest(ctx, self._served_runtime, caller, served_tool, self._task_handlers, params.arguments)
        if not caller.is_modern:
            return await call.start({})
        answers = _elicitation_answers(params.input_responses)
        if params.request_state is None:
            return await call.start(answers)
        return await call.resume(params.request_state, answers)

    async def _find_tool(self, name: str, user: str | None) -> ServedTool:
        """Find a tool by name, and load the tools of this user first if it is not among those known so far."""
        served_runtime = self._served_runtime
        served_tool = served_runtime.find_tool(name, user)
        if served_tool is not None:
            return served_tool
        provider_errors = await served_runtime.discover_user_tools(user)
        served_tool = served_runtime.find_tool(name, user)
        if served_tool is not None:
            return served_tool
        namespace = name.partition(NAMESPACE_SEPARATOR)[0]
        reason = ""
        if namespace in provider_errors:
            error = replace_surrogates(provider_errors[namespace])[:MAX_PROVIDER_ERROR_LENGTH]
            reason = f" {namespace} did not say what it offers: {error}"
        suggestion = served_runtime.suggest_names(name, user)
        raise MCPError(INVALID_PARAMS, f"Unknown tool: {name[:100]}.{suggestion}{reason}")

    async def handle_pending(
        self, ctx: Any, caller: Caller, served_tool: ServedTool, arguments: dict[str, Any] | None, outcome: Outcome
    ) -> dict[str, Any]:
        """Return the result of a pending call that was made on the direct path, without the MCP SDK."""
        call = _CallInRequest(ctx, self._served_runtime, caller, served_tool, self._task_handlers, arguments)
        return await call.resolve_outcome(outcome)


class _CallInRequest:
    """One call, as far as one `tools/call` request takes it."""

    def __init__(
        self,
        ctx: ServerRequestContext[Any, Any],
        served_runtime: ServedRuntime,
        caller: Caller,
        served_tool: ServedTool,
        task_handlers: TaskHandlers,
        arguments: dict[str, Any] | None,
    ) -> None:
        self._ctx = ctx
        self._served_runtime = served_runtime
        self._caller = caller
        self._served_tool = served_tool
        self._task_handlers = task_handlers
        self._arguments = arguments
        self._scope: Scope = served_runtime.scope(caller.user)

    async def start(self, early_answers: ElicitationAnswers) -> dict[str, Any]:
        """Make a new call. A client may send answers with it to questions that it expects."""
        served_tool = self._served_tool
        may_be_task = served_tool.task_support != "forbidden"
        if may_be_task and self._task_handlers.should_become_task(self._caller, served_tool):
            return await self._task_handlers.start(self._caller, served_tool, self._arguments or {})
        call = self._scope.prepare(served_tool.listing.name, self._arguments or {})
        async with forward_progress(self._ctx, self._served_runtime.runtime, call.id):
            outcome = await call.run()
        return await self.resolve_outcome(outcome, early_answers)

    async def resume(self, request_state: str, answers: ElicitationAnswers) -> dict[str, Any]:
        """Resume a pending call with answers to its question."""
        state = RequestState.parse(request_state)
        status = None if state is None else await self._load_status(state.call_id)
        if state is None or status is None or not self._is_same_call(status, state):
            raise MCPError(INVALID_PARAMS, "This requestState is not, or no longer, known. Call the tool anew.")
        question = build_question(status, self._caller)
        if question is None or question.round != state.round:
            return await self._result_of_status(status, question)
        selected = question.select_answers(answers)
        error = question.validation_error(selected)
        if error is not None:
            return question.with_error(error).input_required_result(state.arguments_digest)
        if len(selected) < len(question.requests):
            return question.input_required_result(state.arguments_digest)
        if self._task_handlers.should_become_task(self._caller, self._served_tool):
            arguments = self._arguments or {}
            return await self._task_handlers.resume(self._caller, self._served_tool, arguments, question, selected)
        outcome = await self._apply_answers(question, selected)
        if outcome is None and status.outcome:
            return self._render_result(status.outcome)
        return await self.resolve_outcome(outcome)

    async def _load_status(self, call_id: str) -> CallStatus | None:
        return await self._served_runtime.call_status(self._caller.user, call_id)

    def _is_same_call(self, status: CallStatus, state: RequestState) -> bool:
        is_same_tool = status.tool == self._served_tool.listing.name
        return is_same_tool and state.arguments_digest == digest_arguments(self._arguments)

    async def _result_of_status(self, status: CallStatus, question: ElicitationQuestion | None) -> dict[str, Any]:
        """Return the state of a call whose request has no answer to the question that is open now."""
        if question is not None:
            return question.input_required_result(digest_arguments(self._arguments))
        if status.outcome is None and self._caller.supports_tasks:
            return await self._task_handlers.created_task(self._caller, status)
        return await self.resolve_outcome(status.outcome or await self._wait_for_outcome(status.call_id))

    def _render_result(self, outcome: Outcome) -> dict[str, Any]:
        result = render_result(outcome, self._served_tool, is_modern=self._caller.is_modern)
        return downgrade_result(result, self._ctx.protocol_version)

    # Questions

    async def resolve_outcome(
        self, outcome: Outcome | None, early_answers: ElicitationAnswers | None = None
    ) -> dict[str, Any]:
        """Render an outcome as the result of the request. If the call is pending, ask the client first."""
        assert outcome is not None
        for _ in range(MAX_QUESTION_ROUNDS):
            if not isinstance(outcome, Pending) or not outcome.call_id:
                break
            status = await self._load_status(outcome.call_id)
            question = build_question(status, self._caller)
            if question is None:
                return await self._result_without_question(outcome, status)
            if self._caller.is_modern and not _is_answered_early(early_answers or {}, question):
                return question.input_required_result(digest_arguments(self._arguments))
            answers = question.select_answers(early_answers) if early_answers else None
            early_answers = None
            next_outcome = (
                await self._apply_answers(question, answers) if answers else await self._ask_in_request(question)
            )
            if next_outcome is None:
                break
            outcome = next_outcome
        return self._render_result(outcome)

    async def _result_without_question(self, outcome: Pending, status: CallStatus | None) -> dict[str, Any]:
        """Return the result of a pending call about which this client cannot be asked."""
        if status is None:
            return self._render_result(outcome)
        if status.outcome is not None and not isinstance(status.outcome, Pending):
            return self._render_result(status.outcome)
        if self._caller.supports_tasks:
            return await self._task_handlers.created_task(self._caller, status)
        return self._render_result(outcome)

    async def _ask_in_request(self, question: ElicitationQuestion) -> Outcome | None:
        """Ask the client until its answers are valid. None if it does not answer and the call is still pending."""
        error = ""
        for _ in range(MAX_QUESTION_ROUNDS):
            asked_question = question.with_error(error) if error else question
            with self._cancel_with_last_waiter(question.call_id):
                answers = await ask_client(self._ctx, asked_question, lambda: self._wait_until_answered(question))
            if answers is None:
                return await self._outcome_if_answered_elsewhere(question)
            error = question.validation_error(answers) or ""
            if not error:
                return await self._apply_answers(question, answers)
        return None

    async def _outcome_if_answered_elsewhere(self, question: ElicitationQuestion) -> Outcome | None:
        """Return the outcome if another client or process has answered; None if the same question is still open."""
        status = await self._load_status(question.call_id)
        if status is None or (isinstance(status.outcome, Pending) and status.round == question.round):
            return None
        return status.outcome or await self._wait_for_outcome(question.call_id)

    async def _apply_answers(self, question: ElicitationQuestion, answers: ElicitationAnswers) -> Outcome | None:
        with self._cancel_with_last_waiter(question.call_id):
            async with forward_progress(self._ctx, self._served_runtime.runtime, question.call_id):
                outcome = await apply_answers(self._scope, question, answers, self._caller.answered_by)
            if isinstance(outcome, Failed) and outcome.code in ALREADY_ANSWERED_CODES:
                # Another client or process answered first: the outcome of that answer is the outcome of the call.
                return await self._wait_for_outcome(question.call_id)
            return outcome

    # Waiting for answers that come from elsewhere

    async def _wait_until_answered(self, question: ElicitationQuestion) -> None:
        """Wait until a question needs no answer any more."""

        def is_answered(status: CallStatus | None) -> bool:
            return status is None or status.round != question.round

        await self._task_handlers.wait_until(self._caller.user, question.call_id, is_answered)

    async def _wait_for_outcome(self, call_id: str) -> Outcome:
        """Wait until a call that another request or process runs has ended, or is pending again."""

        def has_outcome(status: CallStatus | None) -> bool:
            return status is None or status.outcome is not None

        with self._cancel_with_last_waiter(call_id):
            status = await self._task_handlers.wait_until(self._caller.user, call_id, has_outcome)
        if status is None or status.outcome is None:
            raise MCPError(INVALID_PARAMS, "This call is no longer remembered.")
        return status.outcome

    @contextmanager
    def _cancel_with_last_waiter(self, call_id: str) -> Iterator[None]:
        """Cancel the call if this request is cancelled and no other request waits for the call."""
        waiter_counts = self._task_handlers.waiter_counts
        waiter_counts[call_id] += 1
        try:
            yield
        except asyncio.CancelledError:
            if waiter_counts[call_id] == 1:
                # In a task of its own: anyio cancels every further await of a cancelled request.
                _ = self._served_runtime.runtime.spawn(self._scope.cancel(call_id))
            raise
        finally:
            waiter_counts[call_id] -= 1
            if not waiter_counts[call_id]:
                del waiter_counts[call_id]


def _is_answered_early(early_answers: ElicitationAnswers, question: ElicitationQuestion) -> bool:
    """Whether valid answers to the whole question came with the call.

    An approval cannot be given early: a person has to see first which call it is for.
    """
    if question.kind == "approval":
        return False
    selected = question.select_answers(early_answers)
    return len(selected) == len(question.requests) and question.validation_error(selected) is None


def _elicitation_answers(responses: Any) -> dict[str, Any]:
    """Select the responses that are results of elicitations, in their wire form."""
    return {
        key: value.model_dump(mode="json", by_alias=True, exclude_none=True)
        for key, value in (responses or {}).items()
        if isinstance(value, ElicitResult)
    }
