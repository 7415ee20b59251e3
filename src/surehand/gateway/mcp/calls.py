"""Calls: `tools/call`, from the request to a result, a question or a task."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS, ElicitResult

from surehand.core.names import SEPARATOR
from surehand.core.outcome import Failed, Outcome, Pending
from surehand.core.sanitize import replace_surrogates
from surehand.gateway.mcp.asking import asked
from surehand.gateway.mcp.caller import Caller, caller_of
from surehand.gateway.mcp.older import fitting
from surehand.gateway.mcp.progress import following
from surehand.gateway.mcp.questions import TOO_LATE, Answers, Question, answer, question_of
from surehand.gateway.mcp.result import result_of
from surehand.gateway.mcp.served import Offered, Served
from surehand.gateway.mcp.state import State, mark_of
from surehand.runtime.invocation import Invocation

if TYPE_CHECKING:
    from mcp.server.context import ServerRequestContext
    from mcp_types import CallToolRequestParams

    from surehand.gateway.mcp.tasks.tasks import Tasks
    from surehand.runtime.scope import Scope
    from surehand.runtime.standing import Standing

LONGEST = 500
"""Characters of why a provider did not say what it offers."""
ROUNDS = 100
"""How often a person is asked within one request."""


class Calls:
    """Serves `tools/call`."""

    def __init__(self, served: Served, tasks: Tasks) -> None:
        self._served, self._tasks = served, tasks

    async def __call__(self, ctx: ServerRequestContext[Any, Any], params: CallToolRequestParams) -> dict[str, Any]:
        """The result, or in the newer protocol a question or a task in its place."""
        caller = caller_of(ctx, self._served.options.user)
        offered = await self._found(params.name, caller.user)
        turn = _Turn(ctx, self._served, caller, offered, self._tasks, params.arguments)
        if not caller.modern:
            return await turn.begin({})
        answers = _wire(params.input_responses)
        state = params.request_state
        return await (turn.begin(answers) if state is None else turn.go_on(state, answers))

    async def _found(self, name: str, user: str | None) -> Offered:
        """The tool of that name; a user of whom nothing is known yet may be offered more than others."""
        served = self._served
        if (offered := served.find(name, user)) is not None:
            return offered
        away = await served.meet(user)
        if (offered := served.find(name, user)) is not None:
            return offered
        by = name.partition(SEPARATOR)[0]
        why = f" {by} did not say what it offers: {replace_surrogates(away[by])[:LONGEST]}" if by in away else ""
        raise MCPError(INVALID_PARAMS, f"Unknown tool: {name[:100]}.{served.nearest(name, user)}{why}")

    async def after(
        self, ctx: Any, caller: Caller, offered: Offered, arguments: dict[str, Any] | None, outcome: Outcome
    ) -> dict[str, Any]:
        """The same for a call that was made past the library, and waits for somebody."""
        return await _Turn(ctx, self._served, caller, offered, self._tasks, arguments).told(outcome)


class _Turn:
    """One request of a caller about one call."""

    def __init__(
        self,
        ctx: ServerRequestContext[Any, Any],
        served: Served,
        caller: Caller,
        offered: Offered,
        tasks: Tasks,
        arguments: dict[str, Any] | None,
    ) -> None:
        self._ctx, self._served, self._caller = ctx, served, caller
        self._offered, self._tasks, self._arguments = offered, tasks, arguments
        self._scope: Scope = served.scope(caller.user)

    async def begin(self, early: Answers) -> dict[str, Any]:
        """A new call. What its caller knows that it will be asked may be answered with it."""
        if self._offered.task_support != "forbidden" and self._tasks.wanted(self._caller, self._offered):
            return await self._tasks.begin(self._caller, self._offered, self._arguments or {})
        invocation = Invocation(self._scope, self._offered.listing.name, self._arguments or {})
        async with following(self._ctx, self._served.runtime, invocation.id):
            outcome = await self._scope.enter(invocation)
        return await self.told(outcome, early)

    async def go_on(self, given: str, answers: Answers) -> dict[str, Any]:
        """The same call once more, with answers to what it asked."""
        state = State.read(given)
        standing = None if state is None else await self._standing(state.call_id)
        if state is None or standing is None or not self._is_about(standing, state):
            raise MCPError(INVALID_PARAMS, "This requestState is not, or no longer, known. Call the tool anew.")
        question = question_of(standing, self._caller)
        if question is None or question.round != state.round:
            return await self._stands(standing, question)
        found = question.fitting(answers)
        if (complaint := question.complaint(found)) is not None:
            return question.again(complaint).result(state.mark)
        if len(found) < len(question.requests):
            return question.result(state.mark)
        if self._tasks.wanted(self._caller, self._offered):
            return await self._tasks.go_on(self._caller, self._offered, self._arguments or {}, question, found)
        outcome = await self._answered(question, found)
        return self._result(standing.outcome) if outcome is None and standing.outcome else await self.told(outcome)

    async def _standing(self, call_id: str) -> Standing | None:
        return await self._served.standing(self._caller.user, call_id)

    def _is_about(self, standing: Standing, state: State) -> bool:
        return standing.tool == self._offered.listing.name and state.mark == mark_of(self._arguments)

    async def _stands(self, standing: Standing, question: Question | None) -> dict[str, Any]:
        """How a call stands that is asked about, but not answered."""
        if question is not None:
            return question.result(mark_of(self._arguments))
        if standing.outcome is None and self._caller.tasks:
            return await self._tasks.made(self._caller, standing)
        return await self.told(standing.outcome or await self._settled(standing.call_id))

    def _result(self, outcome: Outcome) -> dict[str, Any]:
        result = result_of(outcome, self._offered, is_modern=self._caller.modern)
        return fitting(result, self._ctx.protocol_version)

    # Questions

    async def told(self, outcome: Outcome | None, early: Answers | None = None) -> dict[str, Any]:
        """What the caller is given; its person is asked first, where the call waits for that."""
        assert outcome is not None
        for _ in range(ROUNDS):
            if not isinstance(outcome, Pending) or not outcome.call_id:
                break
            standing = await self._standing(outcome.call_id)
            question = question_of(standing, self._caller)
            if question is None:
                return await self._unasked(outcome, standing)
            if self._caller.modern and not _knows(early or {}, question):
                return question.result(mark_of(self._arguments))
            answers, early = (question.fitting(early), None) if early else (None, None)
            after = await self._answered(question, answers) if answers else await self._asked(question)
            if after is None:
                break
            outcome = after
        return self._result(outcome)

    async def _unasked(self, outcome: Pending, standing: Standing | None) -> dict[str, Any]:
        """A call waits for what its caller cannot be asked, or for nothing any more."""
        if standing is None or (standing.outcome is not None and not isinstance(standing.outcome, Pending)):
            return self._result(outcome if standing is None or standing.outcome is None else standing.outcome)
        return await self._tasks.made(self._caller, standing) if self._caller.tasks else self._result(outcome)

    async def _asked(self, question: Question) -> Outcome | None:
        """Ask within the request; None if nobody answers."""
        call_id, complaint = question.call_id, ""
        for _ in range(ROUNDS):
            shown = question.again(complaint) if complaint else question
            with self._leaving(call_id):
                answers = await asked(self._ctx, shown, lambda: self._moved(question))
            if answers is None:
                return await self._after(question)
            complaint = question.complaint(answers) or ""
            if not complaint:
                return await self._answered(question, answers)
        return None

    async def _after(self, question: Question) -> Outcome | None:
        """What became of a call whose caller did not answer; None if it still waits for that."""
        standing = await self._standing(question.call_id)
        if standing is None or (isinstance(standing.outcome, Pending) and standing.round == question.round):
            return None
        return standing.outcome or await self._settled(question.call_id)

    async def _answered(self, question: Question, answers: Answers) -> Outcome | None:
        with self._leaving(question.call_id):
            async with following(self._ctx, self._served.runtime, question.call_id):
                outcome = await answer(self._scope, question, answers, self._caller.by)
            if isinstance(outcome, Failed) and outcome.code in TOO_LATE:
                return await self._settled(question.call_id)  # somebody else was faster: what came of that counts
            return outcome

    # Waiting for what others do

    async def _moved(self, question: Question) -> None:
        """Wait until a question needs no answer any more."""
        await self._tasks.until(
            self._caller.user, question.call_id, lambda standing: standing is None or standing.round != question.round
        )

    async def _settled(self, call_id: str) -> Outcome:
        """What a call that others go on with comes to, or waits for next."""
        with self._leaving(call_id):
            standing = await self._tasks.until(
                self._caller.user, call_id, lambda standing: standing is None or standing.outcome is not None
            )
        if standing is None or standing.outcome is None:
            raise MCPError(INVALID_PARAMS, "This call is no longer remembered.")
        return standing.outcome

    @contextmanager
    def _leaving(self, call_id: str) -> Iterator[None]:
        """A call ends when the last of those leaves who wait for it."""
        waiting = self._tasks.waiting
        waiting[call_id] += 1
        try:
            yield
        except asyncio.CancelledError:
            if waiting[call_id] == 1:
                # Beside the request, whose own steps are cancelled again and again.
                _ = self._served.runtime.parts.reaper.own(self._scope.cancel(call_id))
            raise
        finally:
            waiting[call_id] -= 1
            if not waiting[call_id]:
                del waiting[call_id]


def _knows(early: Answers, question: Question) -> bool:
    """Whether all was answered beforehand. What would run is shown to a person first, whatever came with the call."""
    found = question.fitting(early)
    return question.kind != "approval" and len(found) == len(question.requests) and question.complaint(found) is None


def _wire(responses: Any) -> dict[str, Any]:
    """Those that are answers of a person."""
    return {
        key: value.model_dump(mode="json", by_alias=True, exclude_none=True)
        for key, value in (responses or {}).items()
        if isinstance(value, ElicitResult)
    }
