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
from surehand.gateway.mcp.caller import TASKS, Caller, caller_of
from surehand.gateway.mcp.questions import TOO_LATE, Answers, Question, answer, question_of
from surehand.gateway.mcp.result import result_of
from surehand.gateway.mcp.state import mark_of
from surehand.gateway.mcp.tasks.promises import Promises
from surehand.gateway.mcp.tasks.rounds import Heard, Rounds
from surehand.gateway.mcp.tasks.runs import Run, Runs
from surehand.gateway.mcp.tasks.task import task_of
from surehand.gateway.mcp.tasks.watch import Watch
from surehand.runtime.standing import conclude, is_at_work, note
from surehand.store.errors import StoreError

if TYPE_CHECKING:
    from mcp.server.context import ServerRequestContext

    from surehand.gateway.mcp.served import Offered, Served
    from surehand.gateway.mcp.tasks.params import CancelTask, GetTask, UpdateTask
    from surehand.runtime.scope import Scope
    from surehand.runtime.standing import Standing

log = logging.getLogger("surehand")
AT_ONCE = 0.05
"""Seconds within which a call has to end so that its result is given in place of a task."""
TRIES = 50
LOST = 3_600.0
"""Seconds after which a call that nobody is known to run counts as lost."""
MOST_NOTED = 64 << 10
"""Bytes of the answers that are kept until all of them are there."""


class Tasks:
    """Begins tasks, and serves `tasks/get`, `tasks/update` and `tasks/cancel`."""

    def __init__(self, served: Served) -> None:
        self._served, self.watch = served, Watch(served.runtime)
        self.runs, self._rounds = Runs(served.runtime, self.watch), Rounds()
        self.promises = Promises(served.runtime, self.runs)
        self.waiting: Counter[str] = Counter()
        """How many requests wait for each call that somebody was asked about."""

    # Beginning

    def wanted(self, caller: Caller, offered: Offered) -> bool:
        """Whether a call of this tool becomes a task; raises where it would have to, and cannot."""
        if offered.task_support == "forbidden":
            return False
        is_needed = offered.task_support == "required" and caller.modern
        if is_needed and not caller.tasks:
            raise missing_tasks()
        has_room = self.runs.have_room(caller.user) and self.promises.have_room(caller.user)
        if is_needed and not has_room:
            raise MCPError(INTERNAL_ERROR, "Too many tasks run, or are remembered, already. Try again later.")
        return caller.tasks and has_room

    async def begin(self, caller: Caller, offered: Offered, arguments: dict[str, Any]) -> dict[str, Any]:
        """A new call, which goes on without its caller."""
        # Whoever finds it unended later has to find out whether the runtime lives that began it.
        scope, call_id = self._served.scope(caller.user), f"{new_id()}@{self._served.runtime.parts.owner}"
        self.promises.make(call_id, caller.user, arguments)
        running = self.runs.begin(call_id, caller.user, scope.call(offered.listing.name, arguments, call_id=call_id))
        return await self._given(caller, offered, arguments, call_id, running)

    async def go_on(
        self, caller: Caller, offered: Offered, arguments: dict[str, Any], question: Question, answers: Answers
    ) -> dict[str, Any]:
        """A call that asked before it could begin, and goes on as a task now."""
        work = self._taken(caller, question, answers)
        running = self.runs.begin(question.call_id, caller.user, work)
        return await self._given(caller, offered, arguments, question.call_id, running)

    async def _given(
        self, caller: Caller, offered: Offered, arguments: dict[str, Any], call_id: str, running: Run
    ) -> dict[str, Any]:
        """A task; or the result of what came to an end at once, or the question of what cannot begin without."""
        scope, is_required = self._served.scope(caller.user), offered.task_support == "required"
        try:
            await asyncio.wait({running}, timeout=AT_ONCE)
            while (standing := await self._served.standing(caller.user, call_id)) is None and not running.done():
                await asyncio.wait({running}, timeout=AT_ONCE / 10)  # a task is told of once it can be found
        except asyncio.CancelledError:
            running.cancel()
            _ = self._served.runtime.parts.reaper.own(self._undone(scope, call_id, running))
            raise
        ended = running.result() if running.done() and not running.cancelled() else None
        if ended is not None and not isinstance(ended, Pending) and not (is_required and standing):
            await self.promises.drop(call_id)
            return result_of(ended, offered)
        is_dismissed = running.done() and ended is None
        if is_required and not is_dismissed and (question := question_of(standing, caller)) is not None:
            return question.result(mark_of(arguments))
        if standing is None:
            raise MCPError(INTERNAL_ERROR, "The call could not be remembered.")
        return await self.made(caller, standing)

    async def _undone(self, scope: Scope, call_id: str, running: Run) -> None:
        """End a task that nobody would ever know of, and remember nothing of it."""
        await scope.cancel(call_id)
        await asyncio.wait({running})
        await self.promises.drop(call_id)

    async def made(self, caller: Caller, standing: Standing) -> dict[str, Any]:
        """The task that stands for a call, as it is when it is first told of."""
        task = await self.task(caller, standing)
        if isinstance(standing.outcome, Pending) and task["status"] == "working" and not self._asked(standing, caller):
            self._served.later.tell(standing.tool, standing.outcome)
        return {key: value for key, value in task.items() if key not in _DETAILS} | {"resultType": "task"}

    # Serving

    async def get(self, ctx: ServerRequestContext[Any, Any], params: GetTask) -> dict[str, Any]:
        """How a task stands."""
        caller, _, standing = await self._found(ctx, params.task_id)
        return {**await self.task(caller, standing), "resultType": "complete"}

    async def update(self, ctx: ServerRequestContext[Any, Any], params: UpdateTask) -> dict[str, Any]:
        """Answers to what a task asks, all of them or some; those to anything else are ignored."""
        for _ in range(TRIES):  # somebody else may answer at the same moment
            caller, _, standing = await self._found(ctx, params.task_id)
            question = self._asked(standing, caller)
            if question is None or not (given := question.fitting(params.answers)):
                break
            heard = Heard.read(standing.noted).with_more(question, given)
            if question.requests.keys() <= heard.answers.keys():
                self._rounds.add(question)
                _ = self.runs.begin(question.call_id, caller.user, self._answered(caller, question, heard.answers))
                break
            if len(heard.text) > MOST_NOTED:
                raise MCPError(INVALID_PARAMS, f"Answers that are not all there may have {MOST_NOTED:,} bytes.")
            if await note(self._served.runtime.parts, standing, heard.text):
                break
        self.watch.tell(params.task_id)
        return {}

    async def _answered(self, caller: Caller, question: Question, given: Answers) -> Outcome | None:
        is_over = False
        try:
            outcome = await self._taken(caller, question, given)
            standing = await self._served.standing(caller.user, question.call_id)
            is_over = standing is None or standing.round != question.round
            return outcome
        finally:
            if not is_over:  # it still waits for the same
                self._rounds.remove(question)

    async def _taken(self, caller: Caller, question: Question, given: Answers) -> Outcome | None:
        """What comes of answers; where somebody else was faster, what has come of theirs by now: nobody waits here."""
        outcome = await answer(self._served.scope(caller.user), question, given, caller.by)
        if not isinstance(outcome, Failed) or outcome.code not in TOO_LATE:
            return outcome
        standing = await self._served.standing(caller.user, question.call_id)
        return outcome if standing is None else standing.outcome

    async def cancel(self, ctx: ServerRequestContext[Any, Any], params: CancelTask) -> dict[str, Any]:
        """Nobody wants it any more; one that has ended stays as it is."""
        _, scope, standing = await self._found(ctx, params.task_id)
        is_over = standing.outcome is not None and not isinstance(standing.outcome, Pending)
        if not is_over and not await scope.cancel(params.task_id):
            self.runs.stop(params.task_id)
        return {}

    async def _found(self, ctx: ServerRequestContext[Any, Any], task_id: str) -> tuple[Caller, Scope, Standing]:
        caller = self.caller(ctx)
        standing = await self._served.standing(caller.user, task_id)
        if standing is None:
            raise MCPError(INVALID_PARAMS, "There is no such task, or it is no longer remembered.")
        return caller, self._served.scope(caller.user), standing

    def caller(self, ctx: ServerRequestContext[Any, Any]) -> Caller:
        """Who asks about tasks; raises for whoever knows none."""
        if ctx.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            raise MCPError(METHOD_NOT_FOUND, "Method not found", ctx.method)
        caller = caller_of(ctx, self._served.options.user)
        if not caller.tasks:
            raise missing_tasks()
        return caller

    # How a task stands

    async def find(self, caller: Caller, task_id: str) -> dict[str, Any] | None:
        """All that is known of a task; None if there is none for this caller."""
        standing = await self._served.standing(caller.user, task_id)
        return None if standing is None else await self.task(caller, standing)

    async def task(self, caller: Caller, standing: Standing) -> dict[str, Any]:
        """All that is known of a task."""
        outcome, question = standing.outcome, self._asked(standing, caller)
        if question is not None and not question.requests:
            outcome = None  # it was answered, and goes on
        if standing.state == "unknown" and self._may_find_out(standing):
            outcome = None
        if await self.is_lost(standing):
            outcome = Failed("interrupted", f"{standing.tool} was interrupted: whoever ran it is gone.")
            await conclude(self._served.runtime.parts, standing.call_id, outcome)  # it stays so
        offered = self._served.named(standing.tool)
        said = self.runs.said(standing.call_id)
        return task_of(standing, outcome, question, ttl=self._ttl(standing), offered=offered, said=said)

    def _asked(self, standing: Standing, caller: Caller) -> Question | None:
        """What is open of a question."""
        if (question := question_of(standing, caller)) is None:
            return None
        return question._replace(requests={}) if question in self._rounds else Heard.read(standing.noted).left(question)

    def _may_find_out(self, standing: Standing) -> bool:
        """Whether the tool itself may yet find out whether it has happened."""
        offered, now = self._served.named(standing.tool), self._served.runtime.parts.clock.time()
        can = offered is not None and offered.listing.tool.safety.verify is not None
        return can and now - standing.changed_at < LOST

    async def is_lost(self, standing: Standing) -> bool:
        """Whether nobody goes on with a call that only whoever began it could go on with."""
        if standing.outcome is not None or standing.state != "idle" or standing.call_id in self.runs:
            return False
        parts, task_id = self._served.runtime.parts, standing.call_id
        if (begun := _BEGUN.fullmatch(task_id)) is None or any(each.known_id == task_id for each in parts.running):
            return False
        if (owner := begun["owner"]) != parts.owner:
            return not await is_at_work(parts, owner)
        return parts.clock.time() - standing.changed_at > LOST

    def _ttl(self, standing: Standing) -> int | None:
        """Milliseconds for which a task is remembered at least, from its beginning; None for ever."""
        parts = self._served.runtime.parts
        if parts.durable and parts.store is not None:
            kept = parts.store.retention.calls
        else:
            self.promises.make(standing.call_id, standing.user)
            kept = self.promises.seconds(standing.call_id, standing.created_at)
        return None if kept is None else int(kept * 1000)

    async def until(self, user: str | None, call_id: str, true: Callable[[Standing | None], bool]) -> Standing | None:
        """How a call stands once something is true of it, or nobody goes on with it."""
        with self.watch.on(call_id) as signal:
            while True:
                try:
                    standing = await self._served.standing(user, call_id)
                    if true(standing) or standing is None or await self.is_lost(standing):
                        return standing
                except StoreError as error:
                    log.warning("How call %s stands cannot be told now: %s", call_id, error)
                await signal.news()


_BEGUN = re.compile(r"[0-9a-f]{36}@(?P<owner>[0-9a-f]{36})")
"""The ids of calls that were begun as tasks. How others go on is known to those alone who made them."""
_DETAILS = ("inputRequests", "result", "error", "resultType")


def missing_tasks() -> MCPError:
    """What a client is told that would have to take a task, and does not say that it can."""
    needed: dict[str, Any] = {"requiredCapabilities": {"extensions": {TASKS: {}}}}
    return MCPError(MISSING_REQUIRED_CLIENT_CAPABILITY, "The client has to declare the tasks extension.", needed)
