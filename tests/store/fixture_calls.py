"""Makes calls in every state that a store can hold: waiting, ready, running in a dead process, unknown, ended.

`python -m tests.store.fixture_calls ADDRESS` writes them into an empty store, with the code of this version. The tests
use the same tools to settle the calls in stores of earlier versions. It uses names that all versions have.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from typing import Any

from surehand import Call, Context, Pending, Provider, Runtime, Store, tool

A_CENTURY_SECONDS = 100 * 365 * 86_400.0


@tool(effects={"write"}, confirm=True)
async def transfer(amount: int, to: str = "ann") -> str:
    """Transfer money."""
    return f"sent {amount} to {to}"


@tool(effects={"write"})
async def pay(amount: int, ctx: Context) -> str:
    """Pay money."""
    if "die" in sys.argv:
        os._exit(1)
    return f"paid {amount}"


ask = tool.client("ask", "Ask the person.", parameters={"type": "object"}, reply="later")
job = tool.external("job", "Start a job.", parameters={"type": "object"})


@tool(effects={"write"})
async def order(item: str, ctx: Context) -> Any:
    """Order something, once the person has chosen."""
    return await ctx.call("ask", {"about": item})


class Form(Provider):
    """A form that asks for one line."""

    namespace = "form"

    async def tools(self) -> list[Any]:
        return [tool.external("fill", "Fill in the form.", parameters={"type": "object"}).evolve(handler=None)]

    async def invoke(self, call: Call, context: Context) -> Any:
        return Pending("input", message="Your name?", request={"type": "object"}, state={"line": 1})

    async def resume(self, call: Call, state: Any, answer: Any, context: Any) -> Any:
        return f"line {state['line']}: {answer}"


def open_runtime(address: str) -> Runtime:
    """A runtime with all tools, whose calls wait as long as the files are kept."""
    return Runtime(transfer, pay, ask, job, order, Form(), store=address, defaults={"pending_ttl": A_CENTURY_SECONDS})


async def make_calls(address: str) -> None:
    """Make one call for every state, in several processes."""
    async with open_runtime(address) as runtime:
        assert runtime.store is not None
        await runtime.store.spaces.create("team")
        scope = runtime.scope(user="ada", session="s1", agent="helper", turn="run-1")
        for call_id in ("approval", "to-reject", "to-edit", "to-cancel", "ready"):
            await scope.call("transfer", {"amount": 5}, call_id=call_id)
        await scope.call("transfer", {"amount": 6})
        await scope.call("ask", {"about": "colour"}, call_id="result")
        await scope.call("job", {"size": 3}, call_id="external")
        await scope.call("form__fill", {}, call_id="input")
        await scope.call("order", {"item": "tea"}, call_id="outer")
        await scope.call("pay", {"amount": 1}, call_id="ended")
        await runtime.scope(user="ada", session="s1", space="team").call("ask", {"about": "size"}, call_id="shown")
        await scope.call("transfer", {"amount": 7}, call_id="granted")
        await scope.approve("granted", always=True, by="bob")
        # The grant holds for ada alone; this one waits without a user.
        await runtime.call("transfer", {"amount": 8}, call_id="nobody")
    async with Runtime(store=address) as without_tools:
        await without_tools.approve("ready", by="bob")
    run_process(address, "die", "unknown")
    async with Runtime(store=address):
        pass  # sees that the process is dead, and asks what came of its call
    run_process(address, "die", "running")
    await make_runs(address)


async def make_runs(address: str) -> None:
    """Make one run for every state: an owner that left, or never came back, drives none of them."""
    async with Store.open(address) as store:
        await store.owners.join("dead")
        for state in ("running", "waiting", "done", "stopped", "failed"):
            run = await store.runs.begin(
                f"run-{state}", "helper", "Buy tea.", owner="dead", user="ada", session="s1", context={"space": "team"}
            )
            await store.steps.add(run, 0, {"text": "I ask."}, ["approval", "ended"], spent={"requests": 1})
            await store.steps.set_outcomes(run, 0, {"ended": {"done": "paid 1"}})
            await store.runs.send(run.run_id, "steer", "Rather coffee.")
            if state != "running":
                await store.runs.save(run, state, report={"text": "No tea."}, reason="a reason")


def run_process(address: str, *arguments: str) -> None:
    """Run this file as another process, which dies in the middle of a call."""
    subprocess.run([sys.executable, __file__, address, *arguments], check=False, env=dict(os.environ))


async def die_in_call(address: str, call_id: str) -> None:
    """Call `pay`, which ends the process. It has no other tool, so that it resumes no other call."""
    async with Runtime(pay, store=address) as runtime:
        await runtime.scope(user="ada", session="s1").call("pay", {"amount": 9}, call_id=call_id)


if __name__ == "__main__":
    asyncio.run(die_in_call(sys.argv[1], sys.argv[3]) if "die" in sys.argv else make_calls(sys.argv[1]))
