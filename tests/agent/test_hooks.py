"""Hooks of agents and tools are called at the moments that their names say."""

import pytest

from surehand import Agent, DefinitionError, Runtime, tool
from surehand.agent.models.base import ModelError
from surehand.core.facets import HOOK_NAMES
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
