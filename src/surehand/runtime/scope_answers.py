"""Scope answers: the verbs of a scope for calls that wait: answer them, look them up, wait for their end, cancel."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from surehand.core.outcome import Failed, Outcome
from surehand.runtime.call_options import parse_timeout
from surehand.runtime.scope_view import ScopeView
from surehand.store.errors import UnstorableValue

if TYPE_CHECKING:
    from surehand.runtime.call_loader import AnswerServices
    from surehand.runtime.pending.pending_call import PendingCall
    from surehand.runtime.pending.status import CallStatus
    from surehand.store.tables.pending import PendingRound


class ScopeAnswers(ScopeView):
    """Answers to the calls of a scope's user and session that wait, and what became of them."""

    @property
    def _answering(self) -> AnswerServices:
        return self._parts.calls.load().answering

    async def approve(
        self,
        call_id: str,
        *,
        always: bool = False,
        arguments: Mapping[str, Any] | None = None,
        by: str | None = None,
        round: int | None = None,
    ) -> Outcome:
        """Let a pending call run, optionally with edited arguments; returns its outcome.

        With `round`, the answer counts only for that question of the call: `conflict` if another one is open.
        """
        answers = self._answering.answers
        return await answers.approve(self.principal, call_id, always=always, arguments=arguments, by=by, round=round)

    async def reject(
        self, call_id: str, reason: str = "", *, by: str | None = None, round: int | None = None
    ) -> Outcome:
        """End a pending call without running it; returns its outcome. `round` is as in `approve`."""
        return await self._answering.answers.reject(self.principal, call_id, reason=reason, by=by, round=round)

    async def settle(
        self, call_id: str, result: Any = None, *, by: str | None = None, round: int | None = None
    ) -> Outcome:
        """Answer a pending call with a value, a Done or a Failed; returns its outcome. `round` is as in `approve`."""
        return await self._answering.answers.settle(self.principal, call_id, result, by=by, round=round)

    async def pending(self, *, limit: int | None = None, after: str | None = None) -> list[PendingCall]:
        """The pending calls of this scope's user and session, oldest first: all, or a page.

        Args:
            after: the `cursor` of the last call of the page before.
        """
        return await self._answering.pending_calls.list_for(self.principal, limit=limit, after=after)

    async def status(self, call_id: str) -> CallStatus | None:
        """The status of a call that was given an id or has been pending; None for any other call."""
        return await self._answering.statuses.find(call_id, self.principal)

    async def questions(self, call_id: str) -> list[PendingRound]:
        """The questions that a call has asked so far, oldest first, with their answers; none for an unknown call."""
        row = await self._answering.pending_calls.find(call_id, self.principal)
        return [] if row is None else list(row.rounds)

    async def result(self, call_id: str, timeout: float | str | None = None) -> Outcome:
        """Wait for the end of a call, in whatever process it runs, and return its outcome.

        When `timeout` is over, the Pending; `not_found` for an id that this scope does not know.
        """
        try:
            seconds = parse_timeout(timeout)
        except (TypeError, ValueError) as error:
            return Failed("invalid_arguments", str(error))
        results = self._answering.results
        return await results.wait(str(call_id), self.principal, timeout_seconds=seconds)

    async def end_calls_that_follow_run(self, run_id: str) -> None:
        """End the calls that wait for a run of an agent which has ended."""
        await self._answering.answers.end_calls_that_follow_run(run_id)

    async def cancel_run(self, run_id: str, reason: str) -> bool:
        """Stop a run of an agent for good, and end its calls; False if it has ended, or is not of this scope."""
        return await self._answering.answers.cancel_run(self.principal, run_id, reason)

    async def cancel(self, call_id: str | None = None, *, by: str | None = None) -> bool:
        """Cancel a call, or all calls of this scope's user and session; returns False if there was none."""
        running = [each for each in self.running_calls() if call_id in (None, each.assigned_id)]
        for invocation in running:
            invocation.interrupt("cancelled", f"{invocation.tool_name} was cancelled.")
        pending_ids = await self._pending_call_ids() if call_id is None else [call_id]
        message = "the call was cancelled while it waited."
        answers = self._answering.answers
        outcomes = [
            await answers.end_without_answer(self.principal, each, "cancelled", message, by) for each in pending_ids
        ]
        return bool(running) or any(isinstance(each, Failed) and each.code == "cancelled" for each in outcomes)

    async def _pending_call_ids(self) -> list[str]:
        """Ids of pending calls, and of answered calls that no runtime has resumed yet.

        Calls that wait for runs of agents come first: the calls of these runs end with them.
        """
        if (store := self.store) is None:
            return []
        try:
            outer = await store.pending.find_calls_that_wait_for_runs(self.principal.user, self.principal.session)
        except UnstorableValue:  # a user or session that cannot be stored has no calls in the store
            return []
        calls = await self._answering.pending_calls.list_for(self.principal, grace_seconds=0.0)
        return [*outer, *(call.call_id for call in calls)]
