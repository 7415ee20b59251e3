"""Agents that the tests of workers run in the background, and what they wait for."""

from __future__ import annotations

import asyncio
from typing import Any

from surehand import Agent, Runtime, tool
from surehand.store.tables.inbox import InboxEvent
from surehand.store.tables.runs import RunRow
from surehand.testing import ScriptedModel


class Desk:
    """A tool that has an effect, and an agent that calls it on what it was triggered with; both count what they did."""

    def __init__(self, *, confirm: bool = False) -> None:
        self.prompts: list[Any] = []
        self.sent: list[str] = []
        self.running = 0
        self.most_running = 0

        @tool(effects={"write"}, confirm=confirm)
        async def send(text: str) -> str:
            """Send a letter."""
            self.running += 1
            self.most_running = max(self.most_running, self.running)
            await self.before_sending(text)
            self.running -= 1
            self.sent.append(text)
            return f"Sent {text}."

        self.send = send

    async def before_sending(self, text: str) -> None:
        """What happens in the middle of the call."""
        await asyncio.sleep(0)

    def agent(self, name: str = "clerk") -> Agent:
        """The agent as each process has it."""
        return Agent(name, model=ScriptedModel(*[self._reply] * 500), tools=[self.send])

    def _reply(self, messages: list[dict[str, Any]]) -> Any:
        prompt = messages[0]["content"]
        if messages[-1]["role"] == "tool":
            return f"Heard: {messages[-1]['content']}"
        self.prompts.append(prompt)
        return [("send", {"text": prompt})]


async def wait_for_end(runtime: Runtime, event: InboxEvent) -> InboxEvent:
    """The event when its run has ended."""
    return await wait_for_run_status(runtime, event, "done", "failed", "stopped")


async def wait_for_run_status(runtime: Runtime, event: InboxEvent, *statuses: str) -> InboxEvent:
    while True:
        found = await runtime.find_event(event.agent, event.id)
        assert found is not None
        if found.run_status in statuses:
            return found
        await asyncio.sleep(0.02)


async def wait_for_run_end(runtime: Runtime, run_id: str) -> RunRow:
    """The stored run when it has ended."""
    assert runtime.store is not None
    while True:
        run = await runtime.store.runs.find(run_id)
        assert run is not None
        if run.has_ended:
            return run
        await asyncio.sleep(0.02)
