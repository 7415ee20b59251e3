"""InteractiveCall: one tool call from start to outcome, asking the person at the terminal. Used by `surehand call`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from surehand.cli.answers import login_name
from surehand.cli.prompt import ask_for_answer, ask_for_approval, print_notice
from surehand.core.call import Arguments
from surehand.core.events import CallEnded, CallPending, CallStarted, Event
from surehand.core.outcome import Failed, Outcome, Pending
from surehand.runtime.invocation.approval import Approval
from surehand.runtime.pending.pending_call import PendingCall
from surehand.runtime.scope import Scope

T = TypeVar("T")


class InteractiveCall:
    """A call whose approvals and questions a person answers.

    Prompts block the event loop's thread: while the person thinks, this call has nothing else to do.

    Args:
        preset_decision: the answer to every approval, as given with --yes or --no.
        can_ask: whether a person is at the terminal.
        pause: a context in which the progress display leaves the terminal to the prompt.
    """

    def __init__(
        self, *, preset_decision: bool | None, can_ask: bool, pause: Callable[[], AbstractContextManager[Any]]
    ) -> None:
        self._preset_decision = preset_decision
        self.can_ask = can_ask
        self._pauses = [pause]
        self._scope: Scope | None = None
        self._main_task: asyncio.Task[Any] | None = None
        self._open_prompts: set[asyncio.Task[None]] = set()
        self._outcomes: dict[str, Outcome] = {}
        self._own_call_ids: set[str] = set()
        """The call and its nested calls. A runtime with a store may resume other calls, which are not asked about."""

    async def approver(self, pending_call: PendingCall) -> Approval | None:
        """The preset decision, or the person's; None if there is no person to ask."""
        if pending_call.call_id not in self._own_call_ids:
            return None
        if self._preset_decision is not None:
            return Approval(self._preset_decision, by=login_name())
        if not self.can_ask or self._scope is None:
            return None
        scope = self._scope
        approval = await self._prompt(lambda: ask_for_approval(pending_call, scope.catalogue, scope.policy))
        return None if approval is None else replace(approval, by=login_name())

    async def call(self, scope: Scope, name: str, arguments: Arguments, timeout: float | None) -> Outcome:
        """Call the tool, and return once every question that a person can answer is answered."""
        self._scope = scope
        self._main_task = asyncio.current_task()
        unsubscribe = scope.listen(self._handle_event)
        with ExitStack() as stack:
            stack.callback(unsubscribe)
            if timeout is not None:
                time_limit = PausableTimeout(scope, name, timeout)
                stack.callback(time_limit.stop)
                self._pauses.append(time_limit.paused)
            async with asyncio.TaskGroup() as self._task_group:
                outcome = await scope.dispatch(name, arguments)
                while isinstance(outcome, Pending) and self._open_prompts:
                    await asyncio.wait(self._open_prompts)
                    outcome = self._outcomes.get(outcome.call_id or "", outcome)
        return outcome

    def _handle_event(self, event: Event) -> None:
        match event:
            case CallStarted(call_id=call_id, parent=parent) if parent is None or parent in self._own_call_ids:
                self._own_call_ids.add(call_id)
            case CallEnded(call_id=call_id, outcome=outcome):
                self._outcomes[call_id] = outcome
            case CallPending(waiting_for="result" | "input", call_id=call_id) if (
                self.can_ask and call_id in self._own_call_ids
            ):
                prompt = self._task_group.create_task(self._ask_until_answered(call_id))
                self._open_prompts.add(prompt)
                prompt.add_done_callback(self._open_prompts.discard)

    async def _ask_until_answered(self, call_id: str) -> None:
        """Ask until the answer is accepted. A call that waits for a nested call is not asked about itself."""
        assert self._scope is not None
        pending_call = await self._find_pending_call(call_id)
        first_round = pending_call.round if pending_call is not None else None
        while pending_call is not None and pending_call.round == first_round:
            answer = await self._prompt(partial(ask_for_answer, pending_call, self._scope.catalogue))
            if answer is None:
                return
            outcome = await self._scope.settle(call_id, answer[0], round=pending_call.round)
            pending_call = await self._find_pending_call(call_id)
            if pending_call is not None and isinstance(outcome, Failed):
                print_notice(outcome.message, "red")

    async def _find_pending_call(self, call_id: str) -> PendingCall | None:
        assert self._scope is not None
        pending_calls = await self._scope.pending()
        return next((each for each in pending_calls if each.call_id == call_id), None)

    async def _prompt(self, ask: Callable[[], T]) -> T:
        """Ask with the progress display and the time limit paused; Ctrl-C cancels the call."""
        with ExitStack() as stack:
            for pause in self._pauses:
                stack.enter_context(pause())
            try:
                return ask()
            except KeyboardInterrupt:
                assert self._main_task is not None
                self._main_task.cancel()
        never: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        return await never  # the cancellation of the main task arrives here


class PausableTimeout:
    """The time limit of --timeout, which does not run while a person is asked."""

    def __init__(self, scope: Scope, tool: str, seconds: float) -> None:
        self._scope = scope
        self._tool = tool
        self._seconds = seconds
        self._loop = asyncio.get_running_loop()
        self._timer = self._loop.call_later(seconds, self._expire)

    def _expire(self) -> None:
        for invocation in self._scope.running_calls():
            if invocation.parent is None:
                invocation.interrupt("timed_out", f"{self._tool} timed out after {self._seconds:g} s.")

    def stop(self) -> None:
        """Stop the timer, because the call has ended."""
        self._timer.cancel()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """A context whose time does not count."""
        seconds_left = max(self._timer.when() - self._loop.time(), 0.0)
        self._timer.cancel()
        try:
            yield
        finally:
            self._timer = self._loop.call_later(seconds_left, self._expire)
