"""The context of a call."""

from typing import Any

import pytest

from surehand import Context, Done, Runtime, tool
from surehand.core.events import CallProgress


@pytest.mark.parametrize(
    ("update", "named", "reported"),
    [
        (("contacting the bank",), {}, {"message": "contacting the bank"}),
        ((0.4, "half way"), {}, {"fraction": 0.4, "message": "half way"}),
        ((1,), {}, {"fraction": 1.0}),
        ((), {"title": "Transfer"}, {"title": "Transfer"}),
        (("now",), {"title": "T", "rows": 3}, {"message": "now", "title": "T", "data": {"rows": 3}}),
        (({"status": "loading", "fraction": 0.1},), {}, {"fraction": 0.1, "data": {"status": "loading"}}),
        ((True,), {}, {"message": "True"}),
        (("a", "b", 3), {}, {"message": "a b 3"}),
    ],
)
@pytest.mark.parametrize("sync", [False, True], ids=["async", "thread"])
async def test_progress_is_reported_in_many_forms(
    update: tuple[Any, ...], named: dict[str, Any], reported: dict[str, Any], sync: bool
) -> None:
    @tool(name="work")
    async def in_the_loop(ctx: Context) -> None:
        ctx.report(*update, **named)

    @tool(name="work")
    def in_a_thread(ctx: Context) -> None:
        ctx.report(*update, **named)

    heard = []
    async with Runtime(in_a_thread if sync else in_the_loop) as runtime:
        runtime.listen(lambda event: heard.append(event) if isinstance(event, CallProgress) else None)
        assert (await runtime.call("work")).ok

    (event,) = heard
    assert {"fraction": None, "message": None, "title": None, "data": {}} | reported == {
        name: getattr(event, name) for name in ("fraction", "message", "title", "data")
    }


async def test_run_directly_a_handler_gets_a_context_of_no_runtime() -> None:
    @tool
    async def look(ctx: Context) -> Any:
        ctx.report("nobody listens")
        ctx.state["n"] = 1
        return [len(ctx.call_id), ctx.call_id == ctx.idempotency_key, ctx.user, ctx.attempt, ctx.cancelled, ctx.state]

    assert await look.run() == Done([36, True, None, 1, False, {"n": 1}])


async def test_each_standalone_run_has_its_own_call_id() -> None:
    @tool
    async def look(ctx: Context) -> str:
        return ctx.call_id

    assert (await look.run()).data != (await look.run()).data


async def test_an_optional_context_is_none_without_a_runtime_and_set_in_one() -> None:
    @tool
    async def look(ctx: Context | None) -> bool:
        return ctx is None

    assert await look.run() == Done(True)
    async with Runtime(look) as runtime:
        assert await runtime.call("look") == Done(False)


async def test_a_handler_reaches_what_the_runtime_remembers() -> None:
    @tool
    async def note(text: str, ctx: Context) -> Any:
        notes = (await ctx.store()).notes
        await notes.put("me", "memory", {text: True})
        return list(await notes.all("me", "memory"))

    async with Runtime(note) as runtime:
        await runtime.call("note", {"text": "a"})
        assert await runtime.call("note", {"text": "b"}) == Done(["a", "b"])
    assert (await note.run({"text": "c"})).code == "unavailable"


async def test_a_plain_call_of_the_function_passes_its_own_context() -> None:
    @tool
    async def look(a: int, ctx: Context | None = None) -> list[Any]:
        return [a, ctx]

    assert await look(1) == [1, None]


async def test_a_context_knows_for_whom_it_works() -> None:
    @tool
    async def look(ctx: Context) -> Any:
        return [ctx.user, ctx.session, ctx.agent, ctx.space, ctx.task, ctx.message, ctx.workspace, ctx.log.name]

    async with Runtime(look, workspace="/work here") as runtime:
        outcome = await runtime.scope(user="ann", session="s", agent="a", space="sp").call("look")

    assert outcome == Done(["ann", "s", "a", "sp", None, None, "/work here", "surehand.tool.look"])


async def test_a_context_gives_what_a_scope_offers() -> None:
    class Sandbox:
        pass

    @tool
    async def look(ctx: Context) -> int:
        return id(ctx.use(Sandbox))

    sandbox = Sandbox()
    async with Runtime(look) as runtime:
        assert await runtime.scope(sandbox).call("look") == Done(id(sandbox))
        outcome = await runtime.call("look")
        assert (outcome.code, outcome.executed) == ("unavailable", True)
        assert "needs a Sandbox" in outcome.message
    assert (await look.run()).code == "unavailable"


async def test_a_handler_calls_other_tools_through_its_context() -> None:
    @tool
    async def double(x: int) -> int:
        return 2 * x

    @tool
    async def twice(x: int, ctx: Context) -> int:
        inner = await ctx.call("double", {"x": x})
        return (await ctx.call("double", {"x": inner.unwrap()})).unwrap()

    async with Runtime(double, twice) as runtime:
        assert await runtime.call("twice", {"x": 3}) == Done(12)
    assert "needs a runtime" in (await twice.run({"x": 3})).message
