"""Calls: `tools/call`, from the request to a result, a question or a task."""

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
from surehand.runtime.pipeline.invocation import Invocation

if TYPE_CHECKING:
    from mcp.server.context import ServerRequestContext
    from mcp_types import CallToolRequestParams

    from surehand.gateway.mcp.tasks.task_handlers import TaskHandlers
    from surehand.runtime.pending.status import CallStatus
    from surehand.runtime.scope import Scope

MAX_PROVIDER_ERROR_LENGTH = 500
"""Characters of why a provider did not say what it offers."""
MAX_QUESTION_ROUNDS = 100
"""How often a person is asked within one request."""


class ToolCallHandler:
    """Serves `tools/call`."""

    def __init__(self, served_runtime: ServedRuntime, task_handlers: TaskHandlers) -> None:
        self._served_runtime, self._task_handlers = served_runtime, task_handlers

    async def __call__(self, ctx: ServerRequestContext[Any, Any], params: CallToolRequestParams) -> dict[str, Any]:
        """The result, or in the newer protocol a question or a task in its place."""
        caller = caller_from_context(ctx, self._served_runtime.options.user)
        offered = await self._find_tool(params.name, caller.user)
        turn = _CallInRequest(ctx, self._served_runtime, caller, offered, self._task_handlers, params.arguments)
        if not caller.is_modern:
            return await turn.start({})
        answers = _elicitation_answers(params.input_responses)
        state = params.request_state
        return await (turn.start(answers) if state is None else turn.resume(state, answers))

    async def _find_tool(self, name: str, user: str | None) -> ServedTool:
        """The tool of that name; a user of whom nothing is known yet may be offered more than others."""
        served = self._served_runtime
        if (offered := served.find_tool(name, user)) is not None:
            return offered
        away = await served.discover_user_tools(user)
        if (offered := served.find_tool(name, user)) is not None:
            return offered
        by = name.partition(NAMESPACE_SEPARATOR)[0]
        why = (
            f" {by} did not say what it offers: {replace_surrogates(away[by])[:MAX_PROVIDER_ERROR_LENGTH]}"
            if by in away
            else ""
        )
        raise MCPError(INVALID_PARAMS, f"Unknown tool: {name[:100]}.{served.suggest_names(name, user)}{why}")

    async def handle_pending(
        self, ctx: Any, caller: Caller, served_tool: ServedTool, arguments: dict[str, Any] | None, outcome: Outcome
    ) -> dict[str, Any]:
        """The same for a call that was made past the library, and waits for somebody."""
        return await _CallInRequest(
            ctx, self._served_runtime, caller, served_tool, self._task_handlers, arguments
        ).resolve_outcome(outcome)


class _CallInRequest:
    """One request of a caller about one call."""

    def __init__(
        self,
        ctx: ServerRequestContext[Any, Any],
        served_runtime: ServedRuntime,
        caller: Caller,
        served_tool: ServedTool,
        task_handlers: TaskHandlers,
        arguments: dict[str, Any] | None,
    ) -> None:
        self._ctx, self._served_runtime, self._caller = ctx, served_runtime, caller
        self._served_tool, self._task_handlers, self._arguments = served_tool, task_handlers, arguments
        self._scope: Scope = served_runtime.scope(caller.user)

    async def start(self, early_answers: ElicitationAnswers) -> dict[str, Any]:
        """A new call. What its caller knows that it will be asked may be answered with it."""
        if self._served_tool.task_support != "forbidden" and self._task_handlers.should_become_task(
            self._caller, self._served_tool
        ):
            return await self._task_handlers.start(self._caller, self._served_tool, self._arguments or {})
        invocation = Invocation(self._scope, self._served_tool.listing.name, self._arguments or {})
        async with forward_progress(self._ctx, self._served_runtime.runtime, invocation.id):
            outcome = await self._scope.run_invocation(invocation)
        return await self.resolve_outcome(outcome, early_answers)

    async def resume(self, request_state: str, answers: ElicitationAnswers) -> dict[str, Any]:
        """The same call once more, with answers to what it asked."""
        state = RequestState.parse(request_state)
        standing = None if state is None else await self._load_status(state.call_id)
        if state is None or standing is None or not self._is_same_call(standing, state):
            raise MCPError(INVALID_PARAMS, "This requestState is not, or no longer, known. Call the tool anew.")
        question = build_question(standing, self._caller)
        if question is None or question.round != state.round:
            return await self._result_of_status(standing, question)
        found = question.select_answers(answers)
        if (complaint := question.validation_error(found)) is not None:
            return question.with_error(complaint).input_required_result(state.arguments_digest)
        if len(found) < len(question.requests):
            return question.input_required_result(state.arguments_digest)
        if self._task_handlers.should_become_task(self._caller, self._served_tool):
            return await self._task_handlers.resume(
                self._caller, self._served_tool, self._arguments or {}, question, found
            )
        outcome = await self._apply_answers(question, found)
        return (
            self._render_result(standing.outcome)
            if outcome is None and standing.outcome
            else await self.resolve_outcome(outcome)
        )

    async def _load_status(self, call_id: str) -> CallStatus | None:
        return await self._served_runtime.call_status(self._caller.user, call_id)

    def _is_same_call(self, status: CallStatus, state: RequestState) -> bool:
        return status.tool == self._served_tool.listing.name and state.arguments_digest == digest_arguments(
            self._arguments
        )

    async def _result_of_status(self, status: CallStatus, question: ElicitationQuestion | None) -> dict[str, Any]:
        """How a call stands that is asked about, but not answered."""
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
        """What the caller is given; its person is asked first, where the call waits for that."""
        assert outcome is not None
        for _ in range(MAX_QUESTION_ROUNDS):
            if not isinstance(outcome, Pending) or not outcome.call_id:
                break
            standing = await self._load_status(outcome.call_id)
            question = build_question(standing, self._caller)
            if question is None:
                return await self._result_without_question(outcome, standing)
            if self._caller.is_modern and not _is_answered_early(early_answers or {}, question):
                return question.input_required_result(digest_arguments(self._arguments))
            answers, early_answers = (question.select_answers(early_answers), None) if early_answers else (None, None)
            after = await self._apply_answers(question, answers) if answers else await self._ask_in_request(question)
            if after is None:
                break
            outcome = after
        return self._render_result(outcome)

    async def _result_without_question(self, outcome: Pending, status: CallStatus | None) -> dict[str, Any]:
        """A call waits for what its caller cannot be asked, or for nothing any more."""
        if status is None or (status.outcome is not None and not isinstance(status.outcome, Pending)):
            return self._render_result(outcome if status is None or status.outcome is None else status.outcome)
        return (
            await self._task_handlers.created_task(self._caller, status)
            if self._caller.supports_tasks
            else self._render_result(outcome)
        )

    async def _ask_in_request(self, question: ElicitationQuestion) -> Outcome | None:
        """Ask within the request; None if nobody answers."""
        call_id, complaint = question.call_id, ""
        for _ in range(MAX_QUESTION_ROUNDS):
            shown = question.with_error(complaint) if complaint else question
            with self._cancel_with_last_waiter(call_id):
                answers = await ask_client(self._ctx, shown, lambda: self._wait_until_answered(question))
            if answers is None:
                return await self._outcome_if_answered_elsewhere(question)
            complaint = question.validation_error(answers) or ""
            if not complaint:
                return await self._apply_answers(question, answers)
        return None

    async def _outcome_if_answered_elsewhere(self, question: ElicitationQuestion) -> Outcome | None:
        """What became of a call whose caller did not answer; None if it still waits for that."""
        standing = await self._load_status(question.call_id)
        if standing is None or (isinstance(standing.outcome, Pending) and standing.round == question.round):
            return None
        return standing.outcome or await self._wait_for_outcome(question.call_id)

    async def _apply_answers(self, question: ElicitationQuestion, answers: ElicitationAnswers) -> Outcome | None:
        with self._cancel_with_last_waiter(question.call_id):
            async with forward_progress(self._ctx, self._served_runtime.runtime, question.call_id):
                outcome = await apply_answers(self._scope, question, answers, self._caller.answered_by)
            if isinstance(outcome, Failed) and outcome.code in ALREADY_ANSWERED_CODES:
                return await self._wait_for_outcome(
                    question.call_id
                )  # somebody else was faster: what came of that counts
            return outcome

    # Waiting for what others do

    async def _wait_until_answered(self, question: ElicitationQuestion) -> None:
        """Wait until a question needs no answer any more."""
        await self._task_handlers.wait_until(
            self._caller.user, question.call_id, lambda standing: standing is None or standing.round != question.round
        )

    async def _wait_for_outcome(self, call_id: str) -> Outcome:
        """What a call that others go on with comes to, or waits for next."""
        with self._cancel_with_last_waiter(call_id):
            standing = await self._task_handlers.wait_until(
                self._caller.user, call_id, lambda standing: standing is None or standing.outcome is not None
            )
        if standing is None or standing.outcome is None:
            raise MCPError(INVALID_PARAMS, "This call is no longer remembered.")
        return standing.outcome

    @contextmanager
    def _cancel_with_last_waiter(self, call_id: str) -> Iterator[None]:
        """A call ends when the last of those leaves who wait for it."""
        waiting = self._task_handlers.waiter_counts
        waiting[call_id] += 1
        try:
            yield
        except asyncio.CancelledError:
            if waiting[call_id] == 1:
                # Beside the request, whose own steps are cancelled again and again.
                _ = self._served_runtime.runtime.services.reaper.spawn(self._scope.cancel(call_id))
            raise
        finally:
            waiting[call_id] -= 1
            if not waiting[call_id]:
                del waiting[call_id]


def _is_answered_early(early_answers: ElicitationAnswers, question: ElicitationQuestion) -> bool:
    """Whether all was answered beforehand. What would run is shown to a person first, whatever came with the call."""
    found = question.select_answers(early_answers)
    return (
        question.kind != "approval"
        and len(found) == len(question.requests)
        and question.validation_error(found) is None
    )


def _elicitation_answers(responses: Any) -> dict[str, Any]:
    """Those that are answers of a person."""
    return {
        key: value.model_dump(mode="json", by_alias=True, exclude_none=True)
        for key, value in (responses or {}).items()
        if isinstance(value, ElicitResult)
    }
