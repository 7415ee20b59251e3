"""The ambient context, the tools on offer to a handler, the caller's own context, and the last results."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from surehand import Context, Done, Failed, Runtime, tool


def current_user() -> str | None:
    return Context.get().user


@tool
async def whoami() -> str | None:
    """Tell the user."""
    return current_user()


@tool
async def whoami_later() -> str | None:
    """Tell the user after a pause."""
    await asyncio.sleep(0)
    return current_user()


@tool
def whoami_sync() -> str | None:
    """Tell the user from a thread."""
    return current_user()


@tool
async def whoami_stream() -> Any:
    """Tell the user, piece by piece."""
    yield "looking"
    yield current_user()


@tool
async def outer(ctx: Context) -> Any:
    """Ask another tool, then oneself."""
    inner = (await ctx.call("whoami")).unwrap()
    return [inner, current_user(), Context.get().call_id == ctx.call_id]


@pytest.mark.parametrize("name", ["whoami", "whoami_later", "whoami_sync", "whoami_stream"])
async def test_a_handler_finds_its_context_without_being_given_it(name: str) -> None:
    async with Runtime(whoami, whoami_later, whoami_sync, whoami_stream) as runtime:
        outcomes = await asyncio.gather(*(runtime.scope(user=each).call(name) for each in ("ann", "bob")))

    assert [outcome.data for outcome in outcomes] == ["ann", "bob"]


async def test_after_a_nested_call_the_context_is_the_outer_one_again() -> None:
    async with Runtime(whoami, outer) as runtime:
        outcome = await runtime.scope(user="ann").call("outer")

    assert outcome == Done(["ann", "ann", True])


async def test_confirm_its_message_and_preview_find_the_context() -> None:
    seen: list[Any] = []

    def note(args: Any, ctx: Context) -> Any:
        seen.append(current_user())
        return True

    @tool(confirm=note, confirm_message=note, preview=note)
    async def pay() -> None:
        """Pay."""

    async with Runtime(pay) as runtime:
        await runtime.scope(user="ann").call("pay")

    assert seen == ["ann", "ann", "ann"]


async def test_middleware_finds_the_context() -> None:
    seen: list[Any] = []

    async def watch(invocation: Any, proceed: Any) -> Any:
        seen.append(current_user())
        outcome = await proceed(invocation)
        seen.append(current_user())
        return outcome

    async with Runtime(whoami_later, middleware=[watch]) as runtime:
        await runtime.scope(user="ann").call("whoami_later")

    assert seen == ["ann", "ann"]


async def test_a_tool_run_without_a_runtime_has_a_context_too() -> None:
    assert await whoami.run() == Done(None)


async def test_outside_a_call_there_is_no_context() -> None:
    async with Runtime(whoami) as runtime:
        await runtime.call("whoami")

        with pytest.raises(LookupError, match="outside a call"):
            Context.get()


# The tools on offer


@tool(aliases=("say",))
async def echo(text: str) -> str:
    """Say it again."""
    return text


@tool
async def look(name: str, ctx: Context) -> Any:
    """Look up a tool."""
    found = ctx.find(name)
    return {"found": found and found.name, "offered": [each.name for each in ctx.tools]}


async def test_a_handler_finds_a_tool_by_name_or_alias() -> None:
    async with Runtime(echo, look) as runtime:
        by_name = await runtime.call("look", {"name": "echo"})
        by_alias = await runtime.call("look", {"name": "say"})
        missing = await runtime.call("look", {"name": "nothing"})

    assert by_name.data == by_alias.data == {"found": "echo", "offered": ["echo", "look"]}
    assert missing.data["found"] is None


async def test_a_handler_finds_no_tool_that_its_scope_may_not_use() -> None:
    async with Runtime(echo, look) as runtime:
        runtime.catalogue.toolset("small", "look")
        outcome = await runtime.scope(toolset="small").call("look", {"name": "echo"})

    assert outcome.data == {"found": None, "offered": ["look"]}


async def test_a_handler_finds_a_tool_for_people_but_models_are_not_offered_it() -> None:
    @tool(audience="user", aliases=("mount",))
    async def add_folder(path: str) -> str:
        """Mount a folder."""
        return path

    async with Runtime(add_folder, look) as runtime:
        by_name = await runtime.call("look", {"name": "add_folder"})
        by_alias = await runtime.call("look", {"name": "mount"})

    assert by_name.data == by_alias.data == {"found": "add_folder", "offered": ["look"]}


async def test_a_handler_finds_no_tool_that_the_policy_denies_to_everyone() -> None:
    async with Runtime(echo, look, policy=[{"tools": "echo", "decision": "deny"}]) as runtime:
        assert (await runtime.call("look", {"name": "echo"})).data["found"] is None


# metadata.error, the init context, the caller's context


async def test_a_result_whose_metadata_has_an_error_is_a_failure() -> None:
    @tool
    async def read() -> Done:
        """Read."""
        return Done("No file a.txt.", metadata={"error": "NOT_FOUND", "path": "a.txt"})

    @tool
    async def silent() -> Done:
        """Fail without a text."""
        return Done(metadata={"error": "it broke"})

    async with Runtime(read, silent) as runtime:
        outcome = await runtime.call("read")
        without_text = await runtime.call("silent")

    metadata = {"error": "NOT_FOUND", "path": "a.txt"}
    assert outcome == Failed("failed", "No file a.txt.", executed=True, data=metadata)
    assert without_text == Failed("failed", "it broke", executed=True, data={"error": "it broke"})
    assert runtime.stats().calls["read"].failures == 1


async def test_a_lazy_factory_that_takes_an_argument_gets_the_working_directory(tmp_path: Any) -> None:
    def make(init: Any) -> Any:
        async def where() -> str:
            """Tell the folder."""
            return str(init.working_dir)

        return where

    async def make_async(init: Any) -> Any:
        return make(init)

    lazy = [tool.lazy("where", make), tool.lazy("where2", make_async), tool.lazy("plain", lambda: echo)]
    async with Runtime(lazy, workspace=str(tmp_path)) as runtime:
        assert (await runtime.call("where")).data == str(tmp_path)
        assert (await runtime.call("where2")).data == str(tmp_path)
        assert (await runtime.call("plain", {"text": "hi"})).data == "hi"


@tool
async def whose(ctx: Context) -> Any:
    """Tell whose call it is."""
    return [ctx.user, ctx.session, ctx.agent]


async def test_a_call_takes_the_callers_own_context() -> None:
    async with Runtime(whose) as runtime:
        fields = await runtime.call("whose", context={"user": "ann", "session": "s1", "agent": "a"})
        fixed = await runtime.scope(user="bob").call("whose", context={"user": "ann", "agent": "a"})
        wrong = await runtime.call("whose", context={"usr": "ann"})

    assert fields.data == ["ann", "s1", "a"]
    assert fixed.data == ["bob", None, "a"]
    assert isinstance(wrong, Failed)
    assert (wrong.code, "usr" in wrong.message) == ("invalid_arguments", True)


async def test_a_call_with_the_context_of_another_call_is_nested_in_it() -> None:
    events: list[Any] = []

    async with Runtime(whose) as runtime:

        @tool
        async def relay(ctx: Context) -> Any:
            """Call on through the runtime."""
            return (await runtime.call("whose", context=ctx)).unwrap()

        await runtime.add(relay)
        runtime.listen(events.append)
        outcome = await runtime.scope(user="ann", session="s1").call("relay", call_id="c1")

    assert outcome.data == ["ann", "s1", None]
    assert events[1].parent == "c1"


# Last results and on_commit


async def test_the_last_results_of_a_session_are_newest_first() -> None:
    async with Runtime(echo) as runtime:
        scope = runtime.scope(user="ann", session="s1")
        await scope.call("echo", {"text": "one"})
        await scope.call("echo", {"text": "two"})
        await scope.call("nothing")
        await runtime.scope(user="bob", session="s1").call("echo", {"text": "bob's"})
        await runtime.scope(session="s2").call("echo", {"text": "other"})
        await runtime.call("echo", {"text": "no session"})

        newest = runtime.last_results("s1", limit=2)

        assert [(name, outcome.data) for name, outcome in newest] == [("echo", "bob's"), ("nothing", None)]
        assert [outcome.ok for _, outcome in scope.last_results()] == [False, True, True]
        assert runtime.scope(user="ann").last_results("s2") == []
        assert runtime.scope(session="s2").last_results("s1") == []


async def test_on_commit_is_awaited_before_the_end_is_told() -> None:
    order: list[Any] = []

    async def on_commit(outcome: Any) -> None:
        await asyncio.sleep(0)
        order.append((outcome.meta.tool, outcome.ok))

    async with Runtime(echo, on_commit=on_commit) as runtime:
        runtime.listen(lambda event: order.append(type(event).__name__))
        await runtime.call("echo", {"text": "hi"})
        await runtime.call("nothing")

    assert order == ["CallStarted", ("echo", True), "CallEnded", ("nothing", False), "CallStarted", "CallEnded"]


async def test_on_commit_comes_after_the_outcome_is_stored(tmp_path: Any) -> None:
    stored: list[Any] = []

    async def on_commit(outcome: Any) -> None:
        status = await runtime.status(outcome.meta.call_id)
        stored.append(status and status.outcome)

    async with Runtime(echo, on_commit=on_commit, store=tmp_path / "s.db") as runtime:
        await runtime.call("echo", {"text": "hi"}, call_id="c1")

    assert stored == [Done("hi")]


async def test_an_on_commit_that_raises_does_not_change_the_outcome(caplog: pytest.LogCaptureFixture) -> None:
    async def on_commit(outcome: Any) -> None:
        raise RuntimeError("no")

    async with Runtime(echo, on_commit=on_commit) as runtime:
        assert await runtime.call("echo", {"text": "hi"}) == Done("hi")

    assert "on_commit raised for a call of echo" in caplog.text
