"""Prepared call: a call that has its id before it runs. `Scope.prepare` makes it; `Scope.stream` runs one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from surehand.core.events import CallEnded, Event
from surehand.core.outcome import Outcome
from surehand.runtime.invocation.invocation import Invocation, NextStage
from surehand.runtime.listeners import EventBuffer, Listeners


class PreparedCall:
    """A call that was made and does not run yet. Register listeners for its id before you run it."""

    def __init__(self, invocation: Invocation, run: NextStage, listeners: Listeners) -> None:
        self._invocation = invocation
        self._run = run
        self._listeners = listeners
        self._has_started = False

    @property
    def id(self) -> str:
        """The id that its events, its outcome and a question of it will have."""
        return self._invocation.id

    async def run(self) -> Outcome:
        """Run the call, once, and return Done, Failed or Pending."""
        if self._has_started:
            raise RuntimeError(f"The call {self.id} was started already. Prepare another one.")
        self._has_started = True
        return await self._run(self._invocation)

    async def stream(self) -> AsyncIterator[Event]:
        """Run the call and yield its events; the last is `CallEnded`. Leaving the loop cancels the call."""
        buffer = EventBuffer()
        call_id = self.id
        unsubscribe = self._listeners.listen(
            lambda event: buffer.put(event) if getattr(event, "call_id", None) == call_id else None
        )
        task = asyncio.create_task(self.run())
        try:
            while True:
                event = await self._next_event(buffer, task)
                yield event
                if isinstance(event, CallEnded):
                    return
        finally:
            unsubscribe()
            task.cancel()
            await asyncio.wait({task})

    async def _next_event(self, buffer: EventBuffer, task: asyncio.Task[Outcome]) -> Event:
        """The next event; `CallEnded` if the call ended and the runtime emits none (`auto_complete=False`)."""
        invocation = self._invocation
        next_event = asyncio.ensure_future(buffer.get())
        try:
            await asyncio.wait({next_event, task}, return_when=asyncio.FIRST_COMPLETED)
            if next_event.done():
                return next_event.result()
            if (event := buffer.get_nowait()) is not None:
                return event
            return CallEnded(invocation.id, invocation.tool_name, task.result(), 0.0, *invocation.identity)
        finally:
            next_event.cancel()
