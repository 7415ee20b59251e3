"""The response to an AG-UI client: one run, from RUN_STARTED to RUN_FINISHED or RUN_ERROR."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from ag_ui.core import (
    BaseEvent,
    Interrupt,
    RunAgentInput,
    RunErrorEvent,
    RunFinishedCancelledOutcome,
    RunFinishedEvent,
    RunFinishedInterruptOutcome,
    RunFinishedSuccessOutcome,
    RunStartedEvent,
    TokenUsage,
)
from ag_ui.encoder import EventEncoder
from fastapi.sse import KEEPALIVE_COMMENT

from surehand.core.events import Missed, RunEnded
from surehand.gateway.agent_runs import FinishedRun
from surehand.gateway.agui.interrupt_id import InterruptId
from surehand.gateway.agui.message_writer import KnownCalls
from surehand.gateway.agui.run_input import client_tool_names, find_known_calls, find_tool_results, response_schema
from surehand.gateway.agui.run_tree import RunTree
from surehand.gateway.agui.translation import AguiTranslation, is_cancelled
from surehand.gateway.events.event_json import run_event_to_json
from surehand.gateway.events.event_log import LoggedEvent
from surehand.gateway.gateway import Gateway
from surehand.runtime.pending.pending_call import PendingCall

PROTOCOL_VERSION = "1.0"
WAIT_SECONDS = 1.0
"""How often the stream looks whether the run is over and its last event was missed."""


@dataclass(frozen=True, slots=True)
class AguiRun:
    """One run for one client."""

    gateway: Gateway
    run_input: RunAgentInput
    runs: RunTree
    """The run under its id here; the client has another one for each time that the run goes on."""
    user: str | None
    after: int
    """The number of the last event before the run started or went on."""
    task: asyncio.Task[FinishedRun]
    earlier_usage: Mapping[str, Any]
    """What the run had used before it went on."""

    async def frames(self) -> AsyncIterator[bytes]:
        """The events as they are sent."""
        encoder = EventEncoder()
        known_calls = KnownCalls(find_known_calls(self.run_input), {*find_tool_results(self.run_input)})
        scope = self.gateway.runtime.scope(user=self.user, session=self.run_input.thread_id)
        translation = AguiTranslation(self.runs, scope.state, known_calls)
        yield _encode(encoder, [self._started(), *translation.snapshot_state()])
        async for fields in self._follow():
            if fields is None:
                yield KEEPALIVE_COMMENT
                continue
            events = [*translation.translate(fields)]
            if fields["type"] == "RunEnded" and fields["run_id"] == self.runs.top:
                waits = await self._list_waits(fields)
                events += translation.close({_interrupt_id(each): each.turn or "" for each in waits})
                events.append(self._finished(fields, waits))
                yield _encode(encoder, events)
                return
            if events:
                yield _encode(encoder, events)
        yield _encode(
            encoder, [*translation.close(), RunErrorEvent(message="The server shuts down.", code="unavailable")]
        )

    async def _follow(self) -> AsyncIterator[Mapping[str, Any] | None]:
        """The events of the run; None if nothing has happened for a while. Ends early when the gateway shuts down."""
        feed = self.gateway.feed
        async with feed.listen(self.runs.includes, ends_at_shutdown=False) as listener:
            number = self.after
            must_read_log = True
            while True:
                if must_read_log:
                    async for each in feed.event_log.read_after(number):
                        if isinstance(each, LoggedEvent):
                            number = each.number
                            if self.runs.includes(each.fields):
                                yield each.fields
                is_over = self.task.done() and not self.task.cancelled()
                news = await listener.wait(WAIT_SECONDS)
                for each in news:
                    if isinstance(each, LoggedEvent) and each.number > number:
                        number = each.number
                        yield each.fields
                if listener.is_closed:
                    return
                # A client that read too slowly gets the events that its listener has dropped from the log.
                must_read_log = any(isinstance(each, Missed) for each in news)
                if not news and is_over:
                    yield self._last_event()
                elif not news:
                    yield None

    def _last_event(self) -> Mapping[str, Any]:
        error = self.task.exception()
        if error is None:
            return run_event_to_json(RunEnded(self.task.result()))
        failure: dict[str, Any] = {"status": "failed", "reason": str(error), "output": None, "waiting": []}
        return {"type": "RunEnded", "run_id": self.runs.top, **failure}

    def _started(self) -> BaseEvent:
        ids: dict[str, Any] = {"thread_id": self.run_input.thread_id, "run_id": self.run_input.run_id}
        return RunStartedEvent(**ids, protocol_version=PROTOCOL_VERSION)

    async def _list_waits(self, run_ended: Mapping[str, Any]) -> list[PendingCall]:
        """The calls that the run waits for, without those that end with the outcome of another one."""
        statuses = [await self.gateway.runtime.status(call_id) for call_id in run_ended["waiting"]]
        waits = [each.question for each in statuses if each is not None and each.question is not None]
        return [each for each in waits if not each.is_following]

    def _finished(self, fields: Mapping[str, Any], waits: Sequence[PendingCall]) -> BaseEvent:
        status = fields["status"]
        if status == "failed":
            return RunErrorEvent(message=fields["reason"] or "The run failed.", code="failed")
        ids: dict[str, Any] = {
            "thread_id": self.run_input.thread_id,
            "run_id": self.run_input.run_id,
            "usage": [self._usage(fields["usage"])],
        }
        if status == "waiting":
            return RunFinishedEvent(**ids, outcome=self._waiting_outcome(waits))
        if is_cancelled(fields):
            return RunFinishedEvent(**ids, outcome=RunFinishedCancelledOutcome())
        return RunFinishedEvent(**ids, result=fields["output"], outcome=RunFinishedSuccessOutcome())

    def _usage(self, usage: Mapping[str, Any]) -> TokenUsage:
        """The tokens since the run started or went on, with those of its sub-agents."""
        tokens_in, tokens_out = (
            max((usage.get(name) or 0) - (self.earlier_usage.get(name) or 0), 0) for name in ("tokens_in", "tokens_out")
        )
        return TokenUsage(input_tokens=tokens_in, output_tokens=tokens_out, total_tokens=tokens_in + tokens_out)

    def _waiting_outcome(self, waits: Sequence[PendingCall]) -> RunFinishedInterruptOutcome | RunFinishedSuccessOutcome:
        """What the run waits for: interrupts, or else calls of tools that the client runs itself."""
        own_tools = client_tool_names(self.run_input)
        own_calls = [each.call_id for each in waits if each.tool in own_tools and each.waiting_for == "result"]
        interrupts = [self._interrupt(each) for each in waits if each.call_id not in own_calls]
        if interrupts:
            return RunFinishedInterruptOutcome(interrupts=interrupts)
        return RunFinishedSuccessOutcome(pending_tool_call_ids=own_calls)

    def _interrupt(self, wait: PendingCall) -> Interrupt:
        expires_at = None if wait.expires_at is None else datetime.fromtimestamp(wait.expires_at, UTC).isoformat()
        return Interrupt(
            id=_interrupt_id(wait),
            subagent_run_id=None if wait.turn == self.runs.top else wait.turn,
            reason=wait.waiting_for,
            message=wait.message or None,
            tool_call_id=wait.call_id,
            response_schema=response_schema(wait.waiting_for, wait.request),
            expires_at=expires_at,
            metadata={"tool": wait.tool, "arguments": dict(wait.arguments), "round": wait.round},
        )


def _interrupt_id(wait: PendingCall) -> str:
    return str(InterruptId(wait.call_id, wait.round))


def _encode(encoder: EventEncoder, events: Iterator[BaseEvent] | list[BaseEvent]) -> bytes:
    return "".join(map(encoder.encode, events)).encode()
