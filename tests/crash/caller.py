"""The callers: an agent and its people, who make the calls of a scenario and finish them after every crash."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from surehand import Done, Failed, Outcome, Runtime
from surehand.runtime.pending.pending_call import PendingCall
from tests.crash.agent_driver import AgentDriver
from tests.crash.run_driver import AGENT, RunDriver
from tests.crash.run_log import RunLog
from tests.crash.scenarios import RequestedCall, Scenario
from tests.crash.tools import VERIFIED_TOOLS, OwnTools

_SELECT_CALLS = "SELECT call_id FROM ledger"
_SELECT_OPEN_CALLS = "SELECT call_id, state, tool, arguments, context FROM ledger WHERE state <> 'ended'"
UNKNOWN_EFFECT = {"unknown_effect": True}
"""The request of a call whose effect is unknown."""
NOT_HAPPENED = "A person has checked: it has not happened."


class Person:
    """Answers calls that wait, in any process: also in one that has neither the agents nor their own tools.

    Uses only the public API of the runtime, and records every reply in the run log.
    """

    def __init__(self, scenario: Scenario, run_log: RunLog, runtime: Runtime) -> None:
        self.scenario = scenario
        self.run_log = run_log
        self.runtime = runtime
        self.scope = runtime.scope(agent=AGENT, session=scenario.session)

    async def answer_all(self) -> None:
        """Answer until nothing waits for an answer."""
        while waits := [wait for wait in await self.scope.pending() if self._is_answerable(wait)]:
            for wait in waits:
                await self.answer(wait)
            await asyncio.sleep(0.005)

    def _is_answerable(self, wait: PendingCall) -> bool:
        is_left_to_verify = wait.request == UNKNOWN_EFFECT and wait.tool in VERIFIED_TOOLS
        is_left_to_expire = wait.waiting_for == "approval" and self.scenario.decision == "nothing"
        return wait.missing_agent is None and not is_left_to_verify and not is_left_to_expire

    async def answer(self, wait: PendingCall) -> None:
        """Answer a pending call as a person would."""
        if wait.waiting_for == "approval":
            if self.scenario.decision != "nothing":
                await self.reply(self.scenario.decision, self._call_to_answer(wait.call_id))
        elif wait.request == UNKNOWN_EFFECT:
            if wait.tool not in VERIFIED_TOOLS:  # otherwise the tool's own verify function answers
                await self.reply("resolve", wait.call_id)
        else:
            await self.reply("settle", wait.call_id)

    async def reply(self, verb: str, call_id: str) -> Outcome:
        self.run_log.points.reach(f"before {verb}")
        match verb:
            case "approve":
                outcome = await self.scope.approve(call_id, arguments=self.scenario.edited_arguments, by="boss")
            case "reject":
                outcome = await self.scope.reject(call_id, "too expensive", by="boss")
            case "settle":
                outcome = await self.scope.settle(call_id, self.scenario.answer)
            case _:
                happened = self.run_log.has_happened(call_id)
                outcome = await self.scope.settle(call_id, Done("seen") if happened else Failed("failed", NOT_HAPPENED))
        return self.run_log.record_reply(verb, outcome, call_id)

    def _call_to_answer(self, inner: str) -> str:
        """The outer call if its caller knows that it is pending, because an answer to it must reach the inner call."""
        for nested in self.run_log.lines("nested"):
            if nested["inner"] == inner and any(
                _is_pending_approval(line, nested["outer"]) for line in self.run_log.lines("replies")
            ):
                return str(nested["outer"])
        return inner


class Caller(Person):
    """Also makes the calls of a scenario, and drives the runs of its agents."""

    def __init__(self, scenario: Scenario, run_log: RunLog, runtime: Runtime, own_tools: OwnTools) -> None:
        super().__init__(scenario, run_log, runtime)
        self._results: dict[str, asyncio.Task[None]] = {}
        """Tasks that wait for the end of a call, by its id."""
        self.driver: RunDriver | AgentDriver = RunDriver(runtime, run_log, own_tools)
        if scenario.runs:
            self.driver = AgentDriver(runtime, run_log, own_tools, scenario)

    async def begin(self) -> None:
        """Make all calls of the scenario, and answer until they have ended."""
        await asyncio.gather(*map(self.call, self.scenario.calls))
        await self.answer_until_ended()

    async def finish(self) -> None:
        """After a crash: repeat calls that have an id, or all, answer pending calls, and repeat earlier answers."""
        if self.scenario.asks_again:
            await asyncio.gather(*map(self.call, self.scenario.calls))
        else:
            await self.repeat_calls()
        await self.answer_until_ended()
        await self.repeat_answers()
        await asyncio.gather(*self._results.values())
        await self.await_all_results()

    async def begin_to_await_results(self) -> None:
        """Wait in the background for the end of each call that has one to come, also if another process ends it."""
        for call in await self._open_calls():
            if call["state"] != "idle" and call["call_id"] not in self._results:
                self._results[call["call_id"]] = asyncio.create_task(self._await_result(call["call_id"]))

    async def await_all_results(self) -> None:
        """The result of every call in the store."""
        assert self.runtime.store is not None
        calls = await self.runtime.store.database.read(_SELECT_CALLS)
        await asyncio.gather(*(self._await_result(call["call_id"]) for call in calls))

    async def _await_result(self, call_id: str) -> None:
        self.run_log.record_reply("result", await self.scope.result(call_id), call_id)

    async def repeat_calls(self) -> None:
        """Request the calls that have an id again, under the same id."""
        await asyncio.gather(*(self.call(requested) for requested in self.scenario.calls if requested.call_id))

    async def answer_until_ended(self) -> None:
        """Drive the runs and answer pending calls until every run and every call has ended."""
        while await self.driver.drive_all() + len(calls := await self._open_calls()):
            await self._retry_idle_calls([call for call in calls if call["state"] == "idle"])
            for wait in await self.scope.pending():
                await self.answer(wait)
            await asyncio.sleep(0.005)
        await self.repeat_calls()

    async def _retry_idle_calls(self, calls: list[dict[str, Any]]) -> None:
        """Request calls again that are stored but have not run, or whose outcome was not written."""
        of_no_run = [
            call for call in calls if json.loads(call["context"]).get("turn") is None
        ]  # drivers make the others
        for call in of_no_run:
            await self.call(RequestedCall(call["tool"], json.loads(call["arguments"]), call["call_id"]))

    async def _open_calls(self) -> list[dict[str, Any]]:
        assert self.runtime.store is not None
        return await self.runtime.store.database.read(_SELECT_OPEN_CALLS)

    async def call(self, requested: RequestedCall) -> Outcome:
        self.run_log.points.reach("before the call")
        outcome = await self.scope.call(requested.tool, dict(requested.arguments), call_id=requested.call_id)
        self.run_log.record_reply("call", outcome, requested.call_id)
        if (handle := _output_handle(outcome)) is not None:
            read = await self.scope.call("tool_output", {"handle": handle, "head": 1})
            self.run_log.note("read", {"handle": handle, "ok": read.ok})
        return outcome

    async def repeat_answers(self) -> None:
        """Repeat every answer, as a person does who does not know that it arrived. It must change nothing."""
        for verb, call_id in {(line["verb"], line["call_id"]): None for line in self.run_log.lines("replies")}:
            if verb not in ("call", "result"):
                await self.reply(verb, call_id)


def _is_pending_approval(line: dict[str, Any], call_id: str) -> bool:
    return line["call_id"] == call_id and line.get("waiting_for") == "approval"


def _output_handle(outcome: Outcome) -> str | None:
    if not isinstance(outcome, Done) or not outcome.text.startswith('{"tool_output"'):
        return None
    return str(json.loads(outcome.text)["tool_output"]["handle"])
