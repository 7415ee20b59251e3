"""Hooks of agents and tools are called at the moments that their names say."""

import asyncio

import pytest

from surehand import Agent, DefinitionError, Runtime, ToolError, tool
from surehand.agent.models.base import ModelError
from surehand.core.facets import HOOK_NAMES
from surehand.core.ids import new_id
from surehand.testing import ScriptedModel


def recorder(calls, label):
    def hook(name):
        def record(data, ctx):
            calls.append((label, name, data, ctx))

        return record

    return {name: hook(name) for name in HOOK_NAMES}


def names(calls, label):
    return [name for owner, name, _, _ in calls if owner == label]


async def test_hooks_of_the_agent_and_of_its_tools_are_called_in_order(store):
    calls = []

    @tool(hooks=recorder(calls, "tool"))
    async def add(a: int, b: int) -> int:
        """Add."""
        return a + b

    model = ScriptedModel([("add", {"a": 1, "b": 2})], "3")
    agent = Agent("counter", model=model, hooks=recorder(calls, "agent"))
    async with Runtime(add, store=store) as runtime:
        run = await agent.run("Go", runtime=runtime, user="ada")

    tick = ["on_tick_start", "render", "on_after_compile", "on_tick_end"]
    assert names(calls, "agent") == names(calls, "tool") == ["on_start", *tick, *tick, "on_complete"]
    ends = [data for owner, name, data, _ in calls if (owner, name) == ("agent", "on_tick_end")]
    assert [(end.tick, end.text, len(end.calls)) for end in ends] == [(1, "", 1), (2, "3", 0)]
    completed, context = next((data, ctx) for _, name, data, ctx in calls if name == "on_complete")
    assert completed == run
    assert (context.run_id, context.agent, context.user) == (run.id, "counter", "ada")


async def test_what_render_returns_is_added_to_the_instructions():
    async def render(data, ctx):
        return f"Tick {data.tick}."

    model = ScriptedModel("Hi")
    await Agent("poet", model=model, instructions="Be kind.", hooks={"render": render}).run("Go")

    assert model.requests[0].messages[0] == {"role": "system", "content": "Be kind.\n\nTick 1."}


async def test_after_an_error_a_hook_may_have_the_model_asked_again():
    model = ScriptedModel(ModelError("down"), "Hi")
    run = await Agent("poet", model=model, hooks={"on_error": lambda error, ctx: f"Sorry: {error}"}).run("Go")

    assert (run.status, run.text) == ("done", "Hi")
    assert model.requests[1].messages[-1]["content"] == "Sorry: down"


async def test_hooks_hear_of_calls_that_fail_and_what_they_return_is_told_the_model(store):
    heard = []

    def hear(error, ctx):
        if isinstance(error, ModelError):
            return "Go on."
        heard.append((error.tool, error.arguments, error.outcome.code, str(error)))
        return f"Do not use {error.tool}."

    @tool
    async def fetch(page: str) -> str:
        """Fetch a page."""
        raise ToolError(f"There is no page {page}.")

    model = ScriptedModel([("fetch", {"page": "x"}), ("nothing", {})], ModelError("down"), "Sorry.")
    agent = Agent("reader", model=model, hooks={"on_error": hear})
    async with Runtime(fetch, store=store) as runtime:
        run = await agent.run("Go", runtime=runtime)

    assert run.text == "Sorry."
    assert heard[0] == ("fetch", '{"page": "x"}', "failed", "There is no page x.")
    assert [(name, code) for name, _, code, _ in heard] == [("fetch", "failed"), ("nothing", "not_found")]
    for request, advice in ((model.requests[1], []), (model.requests[2], ["Go on."])):
        told = [each["content"] for each in request.messages if each["role"] == "user"]
        assert told == ["Go", "Do not use fetch.", "Do not use nothing.", *advice]


async def test_hooks_hear_of_a_call_that_was_rejected_while_the_run_waited(store):
    heard = []

    @tool(confirm=True)
    async def send() -> str:
        """Send a letter."""
        return "Sent."

    agent = Agent("writer", model=ScriptedModel([("send", {})], "Not sent."))
    agent.add_hook("on_error", lambda error, ctx: heard.append(error.outcome.code))
    async with Runtime(send, store=store) as runtime:
        waiting = await agent.run("Go", runtime=runtime)
        assert heard == []
        await runtime.reject(waiting.waiting[0].call_id)
        run = await agent.resume(waiting.id, runtime=runtime)

    assert (run.status, heard) == ("done", ["rejected"])


def remember_end(calls):
    return {
        "on_start": lambda messages, ctx: ctx.state.update(has_started=True),
        "on_complete": lambda run, ctx: calls.append((run, dict(ctx.state))),
    }


async def test_hooks_hear_once_that_a_run_at_work_was_cancelled(store):
    calls = []
    asked = asyncio.Event()

    async def hang(messages):
        asked.set()
        await asyncio.Event().wait()

    agent = Agent("poet", model=ScriptedModel(hang), hooks=remember_end(calls))
    async with Runtime(store=store) as runtime:
        task = asyncio.create_task(agent.run("Go", runtime=runtime, run_id="r1"))
        await asked.wait()
        await agent.cancel("r1", reason="Enough.", runtime=runtime)
        run = await task
        await agent.resume("r1", runtime=runtime)

    assert (run.status, run.reason) == ("stopped", "Enough.")
    assert calls == [(run, {"has_started": True})]


async def test_hooks_of_the_agent_and_its_tools_hear_once_that_a_waiting_run_was_cancelled(store):
    calls = []

    @tool(confirm=True, hooks={"on_complete": lambda run, ctx: calls.append((run, "tool"))})
    async def send() -> str:
        """Send a letter."""
        return "Sent."

    agent = Agent("writer", model=ScriptedModel([("send", {})]), tools=[send], hooks=remember_end(calls))
    async with Runtime(store=store) as runtime:
        waiting = await agent.run("Go", runtime=runtime)
        assert calls == []
        await agent.cancel(waiting.id, runtime=runtime)
        run = await agent.resume(waiting.id, runtime=runtime)

    assert run.status == "stopped"
    assert calls == [(run, {}), (run, "tool")]


async def test_hooks_hear_that_a_run_was_cancelled_whose_process_is_dead(tmp_path):
    calls = []
    address = str(tmp_path / "s.db")
    agent = Agent("poet", model=ScriptedModel(), hooks=remember_end(calls))
    async with Runtime(store=address) as runtime:
        await runtime.store.runs.begin("r1", "poet", [], owner=new_id())
        await agent.cancel("r1", runtime=runtime)

    assert [run.status for run, _ in calls] == ["stopped"]


async def test_hooks_hear_that_a_run_was_given_up(tmp_path):
    calls = []
    agent = Agent("poet", model=ScriptedModel(), hooks=remember_end(calls))
    async with Runtime(store=str(tmp_path / "s.db")) as runtime:
        await runtime.store.runs.begin("r1", "poet", [], owner=new_id())
        await agent.give_up("r1", reason="Six attempts.", runtime=runtime)

    assert [(run.status, run.reason) for run, _ in calls] == [("failed", "Six attempts.")]


async def test_a_hook_that_raises_is_logged_and_changes_nothing(caplog):
    def fail(data, ctx):
        raise ValueError("broken hook")

    run = await Agent("poet", model=ScriptedModel("Hi"), hooks={"on_start": fail}).run("Go")

    assert run.status == "done"
    assert "The hook on_start raised" in caplog.text


async def test_hooks_can_be_added_and_removed_while_the_agent_runs():
    heard = []

    def reply(messages):
        remove()
        agent.add_hook("on_complete", lambda run, ctx: heard.append("complete"))
        return "Hi"

    agent = Agent("poet", model=ScriptedModel(reply))
    remove = agent.add_hook("on_tick_end", lambda tick, ctx: heard.append("tick"))
    await agent.run("Go")

    assert heard == ["complete"]


async def test_middleware_can_be_added_and_removed_while_the_agent_runs(store):
    seen = []
    removals = []

    async def see(call, proceed):
        seen.append(call.arguments["n"])
        return await proceed(call)

    @tool
    async def count(n: int) -> int:
        """Count."""
        return n

    def add_it(messages):
        removals.append(runtime.add_middleware(see))
        return [("count", {"n": 2})]

    def remove_it(messages):
        removals.pop()()
        return [("count", {"n": 3})]

    async with Runtime(count, store=store) as runtime:
        model = ScriptedModel([("count", {"n": 1})], add_it, remove_it, "Done.")
        run = await Agent("counter", model=model).run("Count", runtime=runtime)

    assert (run.status, run.usage.calls, seen) == ("done", 3, [2])


def test_hooks_that_can_never_be_called_are_refused():
    with pytest.raises(ValueError, match="There is no hook 'on_stop'"):
        Agent("poet", model=ScriptedModel(), hooks={"on_stop": print})
    with pytest.raises(TypeError, match="must be a function"):
        Agent("poet", model=ScriptedModel(), hooks={"on_start": 1})
    with pytest.raises(DefinitionError, match="There is no hook 'on_stop'"):
        tool(hooks={"on_stop": print})(test_hooks_that_can_never_be_called_are_refused)
