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
)
from ag_ui.encoder import EventEncoder
from fastapi.sse import KEEPALIVE_COMMENT

from surehand.core.events import RunEnded
from surehand.gateway.agent_runs import FinishedRun
from surehand.gateway.agui.run_input import client_tool_names, find_tool_results, response_schema
from surehand.gateway.agui.translation import AguiTranslation
from surehand.gateway.events.event_json import run_event_to_json
from surehand.gateway.events.event_log import LoggedEvent
from surehand.gateway.gateway import Gateway
from surehand.runtime.pending.pending_call import PendingCall

PROTOCOL_VERSION = "1.0"
WAIT_SECONDS = 1.0
"""How often the stream looks whether the run is over and its last event was missed."""
CANCELLED_WORD = "Cancelled"


@dataclass(frozen=True, slots=True)
class AguiRun:
    """One run for one client."""

    gateway: Gateway
    run_input: RunAgentInput
    run_id: str
    """The id of the run here; the client has another one for each time that the run goes on."""
    user: str | None
    after: int
    """The number of the last event before the run started or went on."""
    task: asyncio.Task[FinishedRun]

    async def frames(self) -> AsyncIterator[bytes]:
        """The events as they are sent."""
        encoder = EventEncoder()
        scope = self.gateway.runtime.scope(user=self.user, session=self.run_input.thread_id)
        translation = AguiTranslation(self.run_id, scope.state, find_tool_results(self.run_input))
        yield _encode(encoder, [self._started(), *translation.snapshot_state()])
        async for fields in self._follow():
            if fields is None:
                yield KEEPALIVE_COMMENT
                continue
            events = [*translation.translate(fields)]
            if fields["type"] == "RunEnded" and fields["run_id"] == self.run_id:
                events.append(await self._finished(fields))
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
        async with feed.listen(self._is_of_run) as listener:
            number = 0
            async for each in feed.event_log.read_after(self.after):
                if isinstance(each, LoggedEvent):
                    number = each.number
                    if self._is_of_run(each.fields):
                        yield each.fields
            while True:
                is_over = self.task.done()
                news = await listener.wait(WAIT_SECONDS)
                for each in news:
                    if isinstance(each, LoggedEvent) and each.number > number:
                        yield each.fields
                if listener.is_closed:
                    return
                if not news and is_over:
                    yield self._last_event()
                elif not news:
                    yield None

    def _is_of_run(self, fields: Mapping[str, Any]) -> bool:
        return self.run_id in (fields.get("run_id"), fields.get("turn"))

    def _last_event(self) -> Mapping[str, Any]:
        error = self.task.exception()
        if error is None:
            return run_event_to_json(RunEnded(self.task.result()))
        return {"type": "RunEnded", "run_id": self.run_id, "status": "failed", "reason": str(error), "output": None}

    def _started(self) -> BaseEvent:
        ids: dict[str, Any] = {"thread_id": self.run_input.thread_id, "run_id": self.run_input.run_id}
        return RunStartedEvent(**ids, protocol_version=PROTOCOL_VERSION)

    async def _finished(self, fields: Mapping[str, Any]) -> BaseEvent:
        status = fields["status"]
        if status == "failed":
            return RunErrorEvent(message=fields["reason"] or "The run failed.", code="failed")
        ids: dict[str, Any] = {"thread_id": self.run_input.thread_id, "run_id": self.run_input.run_id}
        if status == "waiting":
            return RunFinishedEvent(**ids, outcome=await self._waiting_outcome(fields["waiting"]))
        if status == "stopped" and fields["reason"].startswith(CANCELLED_WORD):
            return RunFinishedEvent(**ids, outcome=RunFinishedCancelledOutcome())
        return RunFinishedEvent(**ids, result=fields["output"], outcome=RunFinishedSuccessOutcome())

    async def _waiting_outcome(
        self, call_ids: Sequence[str]
    ) -> RunFinishedInterruptOutcome | RunFinishedSuccessOutcome:
        """What the run waits for: interrupts, or else calls of tools that the client runs itself."""
        statuses = [await self.gateway.runtime.status(call_id) for call_id in call_ids]
        waits = [each.question for each in statuses if each is not None and each.question is not None]
        own_tools = client_tool_names(self.run_input)
        own_calls = [each.call_id for each in waits if each.tool in own_tools and each.waiting_for == "result"]
        interrupts = [self._interrupt(each) for each in waits if each.call_id not in own_calls]
        if interrupts:
            return RunFinishedInterruptOutcome(interrupts=interrupts)
        return RunFinishedSuccessOutcome(pending_tool_call_ids=own_calls)

    def _interrupt(self, wait: PendingCall) -> Interrupt:
        listing = self.gateway.runtime.find(wait.tool)
        expires_at = None if wait.expires_at is None else datetime.fromtimestamp(wait.expires_at, UTC).isoformat()
        return Interrupt(
            id=wait.call_id,
            reason=wait.waiting_for,
            message=wait.message or None,
            tool_call_id=wait.call_id,
            response_schema=response_schema(
                wait.waiting_for, wait.request, None if listing is None else listing.tool.schema
            ),
            expires_at=expires_at,
            metadata={"tool": wait.tool, "arguments": dict(wait.arguments), "round": wait.round},
        )


def _encode(encoder: EventEncoder, events: Iterator[BaseEvent] | list[BaseEvent]) -> bytes:
    return "".join(map(encoder.encode, events)).encode()
