"""The loop of a run: ask the model, remember its answer as a step, make its calls, and ask again, until it ends.

What the loop decides follows from the prompt and the remembered steps, so that a loop in another process that goes on
with the run decides the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from surehand.agent.conversation import late_result_message, user_message
from surehand.agent.error_hooks import ErrorHooks
from surehand.agent.hooks import RunHooks, Tick
from surehand.agent.limits import CostLimitCheck, Limits, Spent, describe_what_is_left, find_reached_limit
from surehand.agent.model_request import PartialChunk, ask_model
from surehand.agent.models.base import AnswerRestarted, Message, Model, ModelAnswer, ModelError, ModelRequest, TextChunk
from surehand.agent.models.errors import ContextTooLong
from surehand.agent.output import MAX_CORRECTIONS, InvalidOutput, OutputType
from surehand.agent.request_builder import BuiltRequest, RequestBuilder
from surehand.agent.run import Run, RunStatus, build_run
from surehand.agent.run_spaces import RunSpaces
from surehand.agent.run_state import RunState
from surehand.agent.run_storage import RunRecord
from surehand.agent.step_calls import StepCalls
from surehand.agent.steps import Purpose, Step, StepCall, choose_message_ids, waiting_calls
from surehand.agent.streamed_messages import StreamedMessages
from surehand.agent.sub_runs import cancel_running_sub_runs, count_sub_runs, resume_sub_runs
from surehand.agent.time_limit import CallTimeLimit, TimeIsUp, time_limit
from surehand.core.events import ModelRetried, TextDelta, ToolInputDelta
from surehand.core.ids import derive_call_id
from surehand.core.outcome import Failed

if TYPE_CHECKING:
    from surehand.runtime.scope import Scope

WRAP_UP_SECONDS = 60.0
"""How long the last answer may take that a model gives at a limit."""

MAX_SHORTER_REQUESTS = 2
"""How often a request that is too long for the model is made again, each time with half of the characters."""


@dataclass(frozen=True, slots=True)
class LoopSettings:
    """What the loop has to know of an agent."""

    model: Model
    limits: Limits
    output: OutputType
    request_builder: RequestBuilder
    cost_limit_check: CostLimitCheck


class RunLoop:
    """Drives one run until it is done, stopped or failed, or waits."""

    def __init__(
        self, settings: LoopSettings, scope: Scope, state: RunState, record: RunRecord, hooks: RunHooks
    ) -> None:
        self._settings = settings
        self._scope = scope
        self._state = state
        self._record = record
        self._hooks = hooks
        self._spaces = RunSpaces(scope, state)
        self._messages = StreamedMessages(scope, state)
        self._calls = StepCalls(scope, derives_call_ids=record.derives_call_ids)
        self._clock = scope.clock
        self._seconds_before = state.spent.seconds
        self._started_at = self._clock.now()
        self._call_time_limit = CallTimeLimit(scope, state.run_id, settings.limits.seconds)
        self._limit_reason = ""
        """The limit that is reached, while the model is asked to wrap up."""
        self._errors = ErrorHooks(hooks)
        self._announced_positions: set[int] = set()
        """The positions of the calls of the answer that listeners know the model to be writing."""

    async def drive(self) -> Run:
        """Go on with the run as far as it goes."""
        self._spaces.update()
        try:
            return await self._drive()
        finally:
            self._messages.fail_open("The run does not go on here.")
            self._spaces.leave()

    async def _drive(self) -> Run:
        steps = self._state.steps
        if steps:
            await self._resume_sub_runs(steps)
        else:
            await self._hooks.call("on_start", self._state.prompt)
        run: Run | None = None
        while run is None:
            try:
                run = await self._advance()
            except TimeIsUp:
                run = await self._finish("stopped", self._describe_time_limit())
            except ModelError as error:
                run = await self._recover(error)
        return run

    async def _resume_sub_runs(self, steps: Sequence[Step]) -> None:
        """Let the runs below go on, and calls that were answered, as far as they go within the time limit."""
        seconds_left = self._seconds_left()
        try:
            with self._call_time_limit.apply(seconds_left):
                async with time_limit(self._clock, seconds_left):
                    await resume_sub_runs(self._scope, self._state)
                    await count_sub_runs(self._scope, self._state)
                    await self._calls.wait_for_answered(steps)
        except TimeIsUp:  # the model is asked to wrap up
            await cancel_running_sub_runs(self._scope, self._state)

    async def _advance(self) -> Run | None:
        """Ask the model once, or end. Returns the run if it has ended or waits."""
        if not self._state.steps:
            await self._ask("continue", await self._record.take_messages(0, "steer"))
            return None
        step = self._state.steps[-1]
        if step.purpose == "wrap_up":
            return await self._finish("stopped", step.reason)
        if step.calls:
            return await self._after_calls(step)
        return await self._after_text(step)

    async def _after_calls(self, step: Step) -> Run | None:
        with self._call_time_limit.apply(self._seconds_left()):
            # What the run waits for people does not count: its time starts so much later.
            self._started_at += await self._calls.make(step, self._state.steps)
        self._spaces.update()
        self._messages.end_calls(step)
        for call in step.calls:
            await self._errors.report_call_error(call, call.shown_outcome)
        await count_sub_runs(self._scope, self._state)
        pending = [call for call in step.calls if call.shown_outcome is None]
        all_wait = len(pending) == len(step.calls)
        # While all calls wait the run is idle, and follow-up messages are for idle runs.
        messages = await self._record.take_messages(step.index + 1, None if all_wait else "steer")
        late_results = await self._find_late_results()
        if all_wait and not messages and not late_results:
            return await self._finish("waiting", _describe_waiting(pending))
        for call in pending:
            call.shown_outcome = call.pending
        await self._record.save_outcomes(step, self._spent())
        await self._ask("continue", messages, late_results, refusal=_find_budget_refusal(step))
        return None

    async def _after_text(self, step: Step) -> Run | None:
        waiting = list(waiting_calls(self._state.steps))
        invalid: InvalidOutput | None = None
        try:
            output = self._settings.output.parse(step.answer.text)
        except InvalidOutput as error:
            invalid = error
        # The run ends only if no message has arrived: the usual end needs no look at the messages before.
        if invalid is None and not waiting and (run := await self._finish("done", output=output)) is not None:
            return run
        messages = await self._record.take_messages(step.index + 1, None)
        late_results = await self._find_late_results()
        if messages or late_results:
            await self._ask("continue", messages, late_results)
            return None
        if waiting:
            return await self._finish("waiting", _describe_waiting(waiting))
        if invalid is not None:
            if _count_corrections(self._state.steps) >= MAX_CORRECTIONS:
                reason = f"The model gave no valid output in {MAX_CORRECTIONS + 1} tries. {invalid}"
                return await self._finish("failed", reason)
            await self._ask("correct_output", [f"{invalid} Give the whole answer again, as JSON alone."])
        return None

    async def _find_late_results(self) -> dict[str, Message]:
        """The results of calls that the model knows to be waiting, by call id."""
        found: dict[str, Message] = {}
        for call in waiting_calls(self._state.steps):
            outcome = await self._calls.find_outcome(call)
            if outcome is not None and call.call_id is not None:
                found[call.call_id] = late_result_message(call, outcome)
                await self._errors.report_call_error(call, outcome)
        return found

    # Asking the model

    async def _ask(
        self,
        purpose: Purpose,
        messages: Sequence[Any],
        late_results: dict[str, Message] | None = None,
        *,
        refusal: str | None = None,
    ) -> None:
        """Ask the model once and remember its answer as the next step."""
        late_results = late_results or {}
        reason = refusal or find_reached_limit(self._settings.limits, self._spent())
        self._limit_reason = reason or ""
        new_messages = self._prepare_messages(messages, late_results, reason)
        if reason is not None:
            purpose = "wrap_up"
        tick = Tick(self._spent().requests + 1)
        await self._hooks.call("on_tick_start", tick)
        built = await self._settings.request_builder.build(
            self._scope, self._state, new_messages, len(late_results), tick, self._hooks
        )
        built, answer = await self._request_fitting_answer(built, purpose)
        self._errors.clear()
        self._settings.cost_limit_check.check(answer.usage)
        step = self._build_step(answer, purpose)
        step.before = new_messages
        step.delivered = tuple(late_results)
        step.reason = reason or ""
        step.compaction = built.compaction
        await self._remember_step(step)
        await self._hooks.call("on_tick_end", Tick(tick.tick, answer.text, answer.calls, answer.usage))

    def _prepare_messages(
        self, messages: Sequence[Any], late_results: dict[str, Message], reason: str | None
    ) -> list[Message]:
        """What the conversation gains before the next answer; late results are first."""
        new_messages = [*late_results.values(), *map(user_message, [*messages, *self._errors.advice])]
        if reason is not None:
            left = describe_what_is_left(self._settings.limits, self._spent())
            new_messages.append(user_message(f"{reason} {left} No more calls are made. Give your final answer now."))
        return new_messages

    async def _remember_step(self, step: Step) -> None:
        """Count what the step has spent, and store it."""
        self._spent().add_answer(step.answer.usage, len(step.calls) if step.runs_calls else 0)
        await self._record.add_step(step, self._spent())
        self._state.steps.append(step)

    async def _request_fitting_answer(self, built: BuiltRequest, purpose: Purpose) -> tuple[BuiltRequest, ModelAnswer]:
        """Ask the model; if the conversation is too long for it after all, ask again with a shorter one."""
        for attempt in range(1, MAX_SHORTER_REQUESTS + 1):
            try:
                return built, await self._request_answer(built.request, purpose)
            except ContextTooLong as error:
                shorter = self._settings.request_builder.shorten(built)
                if shorter is None:
                    raise
                self._emit_chunk(AnswerRestarted(str(error), attempt, 0.0))
                built = shorter
        return built, await self._request_answer(built.request, purpose)

    async def _request_answer(self, request: ModelRequest, purpose: Purpose) -> ModelAnswer:
        await self._hooks.call("on_after_compile", request)
        self._state.spent.requests += 1
        seconds_left = self._seconds_left()
        if seconds_left is not None and purpose == "wrap_up":
            seconds_left = WRAP_UP_SECONDS
        self._announced_positions.clear()
        await self._messages.begin_answer(runs_calls=purpose != "wrap_up")
        on_chunk = self._emit_chunk if self._scope.has_listeners else None
        async with time_limit(self._clock, seconds_left):
            return await ask_model(self._settings.model, request, on_chunk)

    def _build_step(self, answer: ModelAnswer, purpose: Purpose) -> Step:
        index = len(self._state.steps)
        message_ids = choose_message_ids(answer.calls, self._state.steps)
        calls = [
            StepCall(
                None if purpose == "wrap_up" else self._derive_call_id(position), call.name, call.arguments, message_id
            )
            for position, (call, message_id) in enumerate(zip(answer.calls, message_ids, strict=True))
        ]
        return Step(index, answer, calls, purpose=purpose)

    def _derive_call_id(self, position: int) -> str | None:
        """The id of a call of the next step; None without a store, where no call is remembered by its id."""
        if not self._record.derives_call_ids:
            return None
        return derive_call_id(self._state.run_id, len(self._state.steps), position)

    def _emit_chunk(self, chunk: PartialChunk) -> None:
        state = self._state
        owner = (state.run_id, state.agent, state.user, state.session, self._clock.time())
        if isinstance(chunk, TextChunk):
            self._scope.emit(TextDelta(chunk.text, *owner))
        elif isinstance(chunk, AnswerRestarted):
            self._announced_positions.clear()
            self._messages.fail_open(chunk.reason)
            self._scope.emit(ModelRetried(chunk.reason, chunk.delay, *owner))
        else:
            call_id = self._derive_call_id(chunk.position)
            texts = [chunk.text] if chunk.text else []
            if chunk.position not in self._announced_positions:
                self._announced_positions.add(chunk.position)
                # Only the first text of a call is empty: it says that the call begins, before it has arguments.
                texts.insert(0, "")
            for text in texts:
                delta = ToolInputDelta(text, chunk.name, chunk.position, call_id, chunk.model_id, *owner)
                self._scope.emit(delta._replace(space=self._space_of(chunk.name)))
            self._messages.write(chunk, call_id)

    def _space_of(self, tool: str) -> str | None:
        """The space in which a call of the model is shown."""
        listing = self._scope.find(tool)
        return self._scope.active_space if listing is not None and listing.tool.visible else None

    # Ending

    def _spent(self) -> Spent:
        """What was spent until now, with the time that has passed here."""
        self._state.spent.seconds = self._seconds_before + self._clock.now() - self._started_at
        return self._state.spent

    def _seconds_left(self) -> float | None:
        """What is left of the time limit, if there is one."""
        limit = self._settings.limits.seconds
        return None if limit is None else limit - self._spent().seconds

    def _describe_time_limit(self) -> str:
        if self._limit_reason:
            return f"{self._limit_reason} The model did not wrap up within {WRAP_UP_SECONDS:g} seconds."
        return f"The limit of {self._settings.limits.seconds:g} seconds is reached."

    async def _recover(self, error: ModelError) -> Run | None:
        """Fail the run, unless it is at a limit, or a hook has a message for the model and a request is left."""
        has_advice = await self._errors.report_request_error(error)
        if self._limit_reason:
            return await self._finish("stopped", f"{self._limit_reason} The model did not wrap up: {error}")
        if has_advice and find_reached_limit(self._settings.limits, self._spent()) is None:
            return None
        return await self._finish("failed", str(error))

    async def _finish(self, status: RunStatus, reason: str = "", *, output: Any = None) -> Run | None:
        """Remember the end, or that the run waits; None if a message arrived meanwhile."""
        state = self._state
        if status == "stopped":
            output = self._settings.output.parse_if_valid(state.last_text)
        report = {"text": state.last_text, "output": self._settings.output.to_json(output)}
        if not await self._record.finish(status, self._spent(), report=report, reason=reason):
            return None
        run = await build_run(self._scope, state, status, reason=reason, output=output)
        if status != "waiting":
            await self._hooks.call("on_complete", run)
        return run


def _describe_waiting(calls: Sequence[StepCall]) -> str:
    names = ", ".join(dict.fromkeys(call.name for call in calls))
    return f"Waiting for {names}."


def _find_budget_refusal(step: Step) -> str | None:
    """Why no call of the step was made, if the budget of the turn refused them all: the next ones would fail too."""
    outcomes = [call.shown_outcome for call in step.calls]
    # The failure of an agent that reached a limit of its own has the same code, and says that it ran.
    refusals = [
        each
        for each in outcomes
        if isinstance(each, Failed)
        and (each.code == "over_budget" or (each.code == "limit_exceeded" and not each.executed))
    ]
    return f"The budget of this run is spent: {refusals[0].message}" if len(refusals) == len(outcomes) else None


def _count_corrections(steps: Sequence[Step]) -> int:
    """How often the model was asked in a row to correct its output."""
    count = 0
    for step in reversed(steps):
        if step.purpose != "correct_output":
            break
        count += 1
    return count
