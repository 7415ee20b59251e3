"""Caller: an agent and the people around it, who come back after every crash and finish what they began."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from surehand import Done, Failed, Outcome, Runtime
from tests.crash.scenarios import Asked, Scenario
from tests.crash.tools import VERIFIED
from tests.crash.world import World

AGENT = "agnes"
PATIENCE = 20.0
"""Seconds after which a call that has not ended counts as stuck."""
_OPEN = "SELECT call_id, state, tool, arguments FROM ledger WHERE state <> 'ended'"
NOT_HAPPENED = "Somebody has looked: it has not happened."


class Caller:
    """Comes in through the public door only, and has everything told that it is told itself."""

    def __init__(self, scenario: Scenario, world: World, runtime: Runtime) -> None:
        self.scenario, self.world, self.runtime = scenario, world, runtime
        self.door = runtime.scope(agent=AGENT)

    async def begin(self) -> None:
        """Everything, from the first call to the last answer."""
        await asyncio.gather(*map(self.call, self.scenario.calls))
        await self.see_through()

    async def finish(self) -> None:
        """After a crash: ask again for what has an id, answer what waits, and answer again what was answered."""
        await self.ask_again()
        await self.see_through()
        await self.answer_again()

    async def ask_again(self) -> None:
        """The same ids, for the same calls."""
        await asyncio.gather(*(self.call(asked) for asked in self.scenario.calls if asked.call_id))

    async def see_through(self) -> None:
        """Answer whatever waits, until every call has ended."""
        try:
            async with asyncio.timeout(PATIENCE):
                while calls := await self._unended():
                    await self._retry([call for call in calls if call["state"] == "idle"])
                    for wait in await self.door.pending():
                        await self.answer(wait)
                    await asyncio.sleep(0.005)
        except TimeoutError:
            self.world.note("stuck", await self._unended())
        await self.ask_again()

    async def _retry(self, calls: list[dict[str, Any]]) -> None:
        """What is known, and was never run or not written: whoever asked for it asks again."""
        for call in calls:
            await self.call(Asked(call["tool"], json.loads(call["arguments"]), call["call_id"]))

    async def _unended(self) -> list[dict[str, Any]]:
        assert self.runtime.store is not None
        return await self.runtime.store.database.read(_OPEN)

    async def call(self, asked: Asked) -> Outcome:
        self.world.points.reach("before the call")
        outcome = await self.door.call(asked.tool, dict(asked.arguments), call_id=asked.call_id)
        self.world.told("call", outcome, asked.call_id)
        if (handle := _handle(outcome)) is not None:
            read = await self.door.call("tool_output", {"handle": handle, "head": 1})
            self.world.note("read", {"handle": handle, "ok": read.ok})
        return outcome

    async def answer(self, wait: Any) -> None:
        """What a person says to a question."""
        if wait.waiting_for == "approval":
            if self.scenario.decision != "nothing":
                await self.say(self.scenario.decision, self._through(wait.call_id))
        elif wait.request == {"unknown_effect": True}:
            if wait.tool not in VERIFIED:  # else the tool itself finds out
                await self.say("find out", wait.call_id)
        else:
            await self.say("settle", wait.call_id)

    async def say(self, verb: str, call_id: str) -> Outcome:
        self.world.points.reach(f"before {verb}")
        match verb:
            case "approve":
                outcome = await self.door.approve(call_id, arguments=self.scenario.edited, by="boss")
            case "reject":
                outcome = await self.door.reject(call_id, "too expensive", by="boss")
            case "settle":
                outcome = await self.door.settle(call_id, self.scenario.answer)
            case _:
                happened = self.world.has_happened(call_id)
                outcome = await self.door.settle(call_id, Done("seen") if happened else Failed("failed", NOT_HAPPENED))
        return self.world.told(verb, outcome, call_id)

    def _through(self, inner: str) -> str:
        """Whoever was told of the outer call answers that one; the answer finds its way."""
        for nested in self.world.lines("nested"):
            if nested["inner"] == inner and any(_waits(line, nested["outer"]) for line in self.world.lines("told")):
                return str(nested["outer"])
        return inner

    async def answer_again(self) -> None:
        """Somebody does not know that the answer came through: it must change nothing."""
        for verb, call_id in {(line["verb"], line["call_id"]): None for line in self.world.lines("told")}:
            if verb != "call":
                await self.say(verb, call_id)


def _waits(line: dict[str, Any], call_id: str) -> bool:
    return line["call_id"] == call_id and line.get("waiting_for") == "approval"


def _handle(outcome: Outcome) -> str | None:
    if not isinstance(outcome, Done) or not outcome.text.startswith('{"tool_output"'):
        return None
    return str(json.loads(outcome.text)["tool_output"]["handle"])
