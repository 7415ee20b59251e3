"""Scopes: principals, offered values, own tools, session state and lifespans."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from surehand import Call, Context, DefinitionError, Done, Failed, Outcome, Policy, Provider, Runtime, Tool, tool, use

WHO = ("agent", "session", "message", "task", "user", "space")


@tool
async def who(ctx: Context) -> dict[str, str | None]:
    """Say for whom the call is made."""
    return {name: getattr(ctx, name) for name in WHO}


@tool
async def count(ctx: Context) -> int:
    """Count the calls of a session."""
    ctx.state["count"] = ctx.state.get("count", 0) + 1
    return ctx.state["count"]


class Sandbox:
    """Something that tools need."""

    def __init__(self, name: str) -> None:
        self.name = name


class Subbox(Sandbox):
    """A special one."""


@tool
async def where(sandbox: Sandbox = use(Sandbox)) -> str:
    """Say which sandbox was given."""
    return sandbox.name


def failed(outcome: Outcome, code: str) -> Failed:
    assert isinstance(outcome, Failed), outcome
    assert outcome.code == code, outcome
    return outcome


# For whom


async def test_the_fields_of_a_scope_reach_the_handler() -> None:
    fields = {name: f"the {name}" for name in WHO}
    async with Runtime(who) as runtime:
        in_scope = await runtime.scope(**fields, turn="t1").call("who")
        outside = await runtime.call("who")

    assert in_scope == Done(fields)
    assert outside == Done(dict.fromkeys(WHO))


async def test_an_inner_scope_inherits_the_fields_that_it_does_not_set() -> None:
    async with Runtime(who) as runtime:
        outer = runtime.scope(user="ann", session="s1")
        inner = await outer.scope(session="s2", agent="a").call("who")
        still = await outer.call("who")

    assert {name: inner.unwrap()[name] for name in ("user", "session", "agent")} == {
        "user": "ann",
        "session": "s2",
        "agent": "a",
    }
    assert still.unwrap()["session"] == "s1"


async def test_a_call_may_say_for_whom_it_is_made() -> None:
    async with Runtime(who) as runtime:
        (outcome,) = await runtime.scope(space="sp").call_many([Call("who", user="bob", message="m1")])

    assert outcome.unwrap() == {**dict.fromkeys(WHO), "user": "bob", "space": "sp", "message": "m1"}


async def test_a_call_cannot_change_the_user_or_session_of_its_scope() -> None:
    async with Runtime(who) as runtime:
        scope = runtime.scope(user="ann", session="s1")
        (outcome,) = await scope.call_many([Call("who", user="bob", session="s2", agent="a")])

    assert (outcome.unwrap()["user"], outcome.unwrap()["session"]) == ("ann", "s1")
    assert outcome.unwrap()["agent"] == "a"


# Tools of a scope


def greeting(words: str, **options: Any) -> Tool[..., Any]:
    @tool(name="greet", **options)
    async def greet(name: str) -> str:
        """Greet somebody."""
        return f"{words} {name}"

    return greet


async def test_the_tools_of_a_scope_come_before_those_of_the_runtime() -> None:
    async with Runtime(greeting("Hello"), who) as runtime:
        formal = runtime.scope(tools=[greeting("Good day")], user="ann")

        assert (await formal.call("greet", {"name": "Bob"})).data == "Good day Bob"
        assert (await runtime.call("greet", {"name": "Bob"})).data == "Hello Bob"
        assert (await formal.call("who")).data["user"] == "ann"
        assert (await formal.call("nobody")).code == "not_found"


async def test_an_inner_scope_has_the_outer_ones_tools_unless_it_brings_others() -> None:
    async with Runtime(who) as runtime:
        outer = runtime.scope(tools=[greeting("Good day")])
        inner = outer.scope(tools=[greeting("Hi")], user="ann")

        assert (await outer.scope(user="bob").call("greet", {"name": "Bob"})).data == "Good day Bob"
        assert (await inner.call("greet", {"name": "Bob"})).data == "Hi Bob"
        assert (await runtime.call("greet", {"name": "Bob"})).code == "not_found"


async def test_a_model_is_shown_a_scopes_own_tools_first_and_each_name_once() -> None:
    async with Runtime(greeting("Hello"), who) as runtime:
        shown = runtime.scope(tools=[greeting("Good day")]).describe("openai")

    assert [entry["function"]["name"] for entry in shown] == ["greet", "who"]


async def test_a_pending_call_of_a_scopes_own_tool_is_resumed_with_that_tool() -> None:
    async with Runtime(greeting("Hello")) as runtime:
        scope = runtime.scope(tools=[greeting("Good day", confirm=True)])
        asked = await scope.call("greet", {"name": "Bob"})

        assert (await runtime.approve(asked.call_id)).data == "Good day Bob"


async def test_policy_holds_for_the_tools_of_a_scope_even_when_it_changes() -> None:
    async with Runtime(who) as runtime:
        scope = runtime.scope(tools=[greeting("Hi")])
        assert (await scope.call("greet", {"name": "Bob"})).ok

        runtime.policy = Policy([{"tools": "greet", "decision": "deny"}])

        assert (await scope.call("greet", {"name": "Bob"})).code == "denied"


async def test_an_invalid_tool_of_a_scope_raises_when_the_scope_is_created() -> None:
    @tool
    async def broken(what: "Nothing") -> None: ...  # noqa: F821 - that is the mistake

    async with Runtime(who) as runtime:
        with pytest.raises(DefinitionError):
            runtime.scope(tools=[broken])


async def test_every_verb_of_a_scope_is_made_for_it() -> None:
    async with Runtime(who) as runtime:
        scope = runtime.scope(user="ann")
        dispatched = await scope.dispatch("who")
        streamed = [event async for event in scope.stream("who")][-1]

    assert dispatched.unwrap()["user"] == "ann"
    assert streamed.outcome.unwrap()["user"] == "ann"


async def test_a_field_that_does_not_exist_is_refused() -> None:
    async with Runtime(who) as runtime:
        with pytest.raises(TypeError, match="A scope has no tenant"):
            runtime.scope(tenant="x")


async def test_state_is_shared_by_the_calls_of_a_session() -> None:
    async with Runtime(count) as runtime:
        first, second = runtime.scope(session="s1"), runtime.scope(session="s2")
        counted = [(await scope.call("count")).unwrap() for scope in (first, first, second, first)]
        deeper = await first.scope(turn="t2").call("count")
        outside = await runtime.call("count")

    assert counted == [1, 2, 1, 3]
    assert deeper == Done(4)
    assert outside == Done(1)


async def test_a_session_has_one_state_however_it_is_entered() -> None:
    async with Runtime(count) as runtime:
        await runtime.scope(session="s1").call("count")
        again = await runtime.scope(session="s1").call("count")
        (as_value,) = await runtime.call_many([Call("count", session="s1")])

    assert (again, as_value) == (Done(2), Done(3))


async def test_the_state_of_one_user_is_not_seen_by_another_one() -> None:
    async with Runtime(count) as runtime:
        await runtime.scope(user="ann", session="s1").call("count")
        await runtime.scope(user="ann").call("count")
        others = [
            await runtime.scope(user="eve", session="s1").call("count"),
            await runtime.scope(user="ann", session="s1").scope(user="eve").call("count"),
        ]

    assert others == [Done(1), Done(2)]


# What calls may use


async def test_the_same_tool_under_two_scopes_gets_two_values() -> None:
    async with Runtime(where) as runtime:
        first, second = runtime.scope(Sandbox("one")), runtime.scope(Sandbox("two"))

        assert [(await scope.call("where")).unwrap() for scope in (first, second, first)] == ["one", "two", "one"]


async def test_the_nearest_scope_wins() -> None:
    async with Runtime(where) as runtime:
        outer = runtime.scope(Sandbox("outer"))
        inner = outer.scope(Sandbox("inner"))
        narrower = inner.scope(user="ann")

        assert (await outer.call("where")).unwrap() == "outer"
        assert (await inner.call("where")).unwrap() == "inner"
        assert (await narrower.call("where")).unwrap() == "inner"


async def test_a_value_of_a_subclass_will_do_and_others_are_passed_over() -> None:
    async with Runtime(where) as runtime:
        outcome = await runtime.scope("a string", 7, Subbox("special"), Sandbox("plain")).call("where")

    assert outcome == Done("special")


async def test_a_value_that_no_scope_offers_makes_the_tool_unavailable_with_a_hint() -> None:
    async with Runtime(where) as runtime:
        outcome = failed(await runtime.scope("something else").call("where"), "unavailable")

    assert "needs a Sandbox" in outcome.text
    assert "runtime.scope(<Sandbox>)" in outcome.text


async def test_used_values_are_not_in_the_schema_and_cannot_be_sent_by_models() -> None:
    async with Runtime(where) as runtime:
        (described,) = runtime.describe("anthropic")
        sent = await runtime.scope(Sandbox("mine")).call("where", {"sandbox": "theirs"})

    assert described["input_schema"]["properties"] == {}
    failed(sent, "invalid_arguments")


async def test_run_directly_a_tool_gets_none() -> None:
    @tool
    async def maybe(sandbox: Sandbox = use(Sandbox)) -> bool:
        """Whether there is a sandbox."""
        return sandbox is None

    assert await maybe.run() == Done(True)


async def test_an_optional_use_is_none_if_no_scope_offers_a_value() -> None:
    @tool
    async def maybe(sandbox: Sandbox | None = use(Sandbox)) -> str:
        """Which sandbox, if any."""
        return sandbox.name if sandbox else "none"

    async with Runtime(maybe) as runtime:
        assert await runtime.call("maybe") == Done("none")
        assert await runtime.scope(Sandbox("one")).call("maybe") == Done("one")


async def test_a_context_finds_the_values_that_scopes_offer() -> None:
    @tool
    async def through_context(ctx: Context) -> str:
        """Use a sandbox."""
        return ctx.use(Sandbox).name

    async with Runtime(through_context) as runtime:
        assert await runtime.scope(Sandbox("one")).call("through_context") == Done("one")
        failed(await runtime.call("through_context"), "unavailable")


async def test_a_resumed_call_gets_the_values_of_its_own_scope() -> None:
    @tool(confirm=True)
    async def careful(ctx: Context, sandbox: Sandbox = use(Sandbox)) -> list[Any]:
        """Say which sandbox was given, to whom."""
        return [sandbox.name, ctx.user]

    async with Runtime(careful) as runtime:
        await runtime.scope(Sandbox("hers"), user="ann").call("careful", call_id="c1")
        outcome = await runtime.scope(Sandbox("admin's")).approve("c1")

    assert outcome == Done(["hers", "ann"])


# Lifespans


class Pool:
    """What a lifespan gives, and a record of how it went."""

    def __init__(self, log: list[str], name: str) -> None:
        self.log, self.name = log, name
        self.tasks: list[Any] = []

    @asynccontextmanager
    async def lifespan(self) -> AsyncIterator["Pool"]:
        self.log.append(f"enter {self.name}")
        self.tasks.append(asyncio.current_task())
        try:
            yield self
        finally:
            self.tasks.append(asyncio.current_task())
            self.log.append(f"leave {self.name}")

    def tool(self, name: str) -> Tool[..., Any]:
        @tool(name=name, lifespan=self.lifespan)
        async def query(pool: Pool = use(Pool)) -> str:
            """Ask the pool."""
            return pool.name

        return query


async def test_a_lifespan_is_entered_with_the_runtime_and_left_with_it() -> None:
    log: list[str] = []
    pool = Pool(log, "a")
    async with Runtime(pool.tool("query")) as runtime:
        during = list(log)
        outcomes = [await runtime.call("query") for _ in range(3)]

    assert during == ["enter a"]
    assert outcomes == [Done("a")] * 3
    assert log == ["enter a", "leave a"]


async def test_lifespans_are_left_in_reverse_order() -> None:
    log: list[str] = []
    async with Runtime(*(Pool(log, name).tool(f"query_{name}") for name in "abc")):
        pass

    assert log == ["enter a", "enter b", "enter c", "leave c", "leave b", "leave a"]


async def test_one_task_enters_and_leaves_a_lifespan_whichever_tasks_open_and_close_the_runtime() -> None:
    pool = Pool([], "a")
    runtime = Runtime(pool.tool("query"))
    await asyncio.create_task(runtime.__aenter__())
    outcome = await asyncio.create_task(runtime.call("query"))
    await asyncio.create_task(runtime.close())

    entered, left = pool.tasks
    assert entered is left
    assert outcome == Done("a")


async def test_a_cancel_scope_inside_a_lifespan_stays_whole() -> None:
    @asynccontextmanager
    async def grouped() -> AsyncIterator[None]:
        async with asyncio.TaskGroup() as group:
            working = group.create_task(asyncio.Event().wait())
            yield
            working.cancel()

    @tool(lifespan=grouped)
    async def query() -> int:
        """Ask."""
        return 1

    runtime = Runtime(query)
    await asyncio.create_task(runtime.__aenter__())
    outcome = await runtime.call("query")
    await asyncio.create_task(runtime.close())

    assert outcome == Done(1)


async def test_tools_that_share_a_lifespan_enter_it_once() -> None:
    log: list[str] = []
    pool = Pool(log, "shared")

    shared = pool.lifespan

    @tool(lifespan=shared)
    async def one(pool: Pool = use(Pool)) -> str:
        """First."""
        return pool.name

    @tool(lifespan=shared)
    async def two(pool: Pool = use(Pool)) -> str:
        """Second."""
        return pool.name

    async with Runtime(one, two) as runtime:
        outcomes = [await runtime.call("one"), await runtime.call("two")]

    assert outcomes == [Done("shared")] * 2
    assert log == ["enter shared", "leave shared"]


async def test_the_value_of_its_own_lifespan_is_nearer_than_any_scope() -> None:
    log: list[str] = []
    async with Runtime(Pool(log, "own").tool("query")) as runtime:
        assert await runtime.scope(Pool(log, "offered")).call("query") == Done("own")


async def test_a_tool_added_to_the_catalogue_while_running_is_mounted_by_its_first_call() -> None:
    log: list[str] = []
    async with Runtime() as runtime:
        runtime.catalogue.add(Pool(log, "late").tool("query"))
        before = list(log)
        outcomes = await runtime.call_many([Call("query") for _ in range(5)])
        during = list(log)

    assert before == []
    assert outcomes == [Done("late")] * 5
    assert during == ["enter late"]
    assert log == ["enter late", "leave late"]


async def test_a_tool_added_to_the_runtime_is_mounted_at_once() -> None:
    log: list[str] = []
    async with Runtime() as runtime:
        await runtime.add(Pool(log, "late").tool("query"))

        assert log == ["enter late"]
        assert await runtime.call("query") == Done("late")
    assert log == ["enter late", "leave late"]


@asynccontextmanager
async def failing() -> AsyncIterator[None]:
    raise RuntimeError("no connection")
    yield


async def test_a_lifespan_that_fails_fails_the_start_and_leaves_nothing_running() -> None:
    log: list[str] = []

    class Server(Provider):
        namespace = "server"

        async def start(self) -> None:
            log.append("start server")

        async def stop(self) -> None:
            log.append("stop server")

        async def tools(self) -> list[Tool[..., Any]]:
            return []

    broken = tool(name="broken", lifespan=failing)(where.function)
    runtime = Runtime(Pool(log, "a").tool("query"), broken, Server())

    with pytest.raises(RuntimeError, match="no connection"):
        await runtime.__aenter__()

    assert sorted(log) == ["enter a", "leave a", "start server", "stop server"]
    failed(await runtime.call("query"), "unavailable")


async def test_a_lifespan_that_fails_at_the_first_call_fails_that_call_only() -> None:
    async with Runtime(who) as runtime:
        runtime.catalogue.add(tool(name="broken", lifespan=failing)(who.function))
        outcome = failed(await runtime.call("broken"), "crashed")

        assert "no connection" in outcome.text
        assert (await runtime.call("who")).ok


async def test_a_lifespan_that_fails_on_the_way_out_keeps_nothing_else_open() -> None:
    log: list[str] = []

    class Server(Provider):
        namespace = "server"

        async def stop(self) -> None:
            log.append("stop server")

        async def tools(self) -> list[Tool[..., Any]]:
            return []

    @asynccontextmanager
    async def stuck() -> AsyncIterator[None]:
        yield
        raise RuntimeError("cannot disconnect")

    broken = tool(name="broken", lifespan=stuck)(who.function)
    runtime = Runtime(Pool(log, "a").tool("query"), broken, Server())
    await runtime.__aenter__()
    try:
        await runtime.close()
    except RuntimeError as error:
        log.append(str(error))

    assert "leave a" in log
    assert "stop server" in log


async def test_a_runtime_may_be_used_again_after_it_closed() -> None:
    log: list[str] = []
    runtime = Runtime(Pool(log, "a").tool("query"))
    for _ in range(2):
        async with runtime:
            assert await runtime.call("query") == Done("a")

    assert log == ["enter a", "leave a"] * 2


# Lazy tools


def make() -> Tool[..., Any]:
    @tool
    async def anything() -> str:
        """Made late."""
        return "made"

    return anything


async def make_async() -> Tool[..., Any]:
    await asyncio.sleep(0)
    return make()


def make_function() -> Any:
    async def anything() -> str:
        """Made late."""
        return "made"

    return anything


@pytest.mark.parametrize("factory", [make, make_async, make_function])
async def test_a_lazy_tool_is_made_once_when_the_runtime_starts(factory: Any) -> None:
    made: list[int] = []

    def counting() -> Any:
        made.append(1)
        return factory()

    runtime = Runtime(tool.lazy("late", counting))
    before = list(made)
    async with runtime:
        outcomes = [await runtime.call("late") for _ in range(2)]

    assert before == []
    assert made == [1]
    assert outcomes == [Done("made")] * 2


async def test_a_lazy_tool_may_be_added_while_running() -> None:
    async with Runtime() as runtime:
        await runtime.add(tool.lazy("late", make_async))

        assert await runtime.call("late") == Done("made")


async def test_a_lazy_factory_that_makes_no_tool_is_a_definition_error() -> None:
    with pytest.raises(DefinitionError, match="The factory of late returned int"):
        async with Runtime(tool.lazy("late", lambda: 7)):
            pass


async def test_a_lazy_factory_that_fails_fails_the_start() -> None:
    def fails() -> Any:
        raise RuntimeError("no such file")

    with pytest.raises(DefinitionError, match="The factory of late failed: RuntimeError: no such file"):
        async with Runtime(tool.lazy("late", fails)):
            pass


async def test_a_plain_call_opens_no_store() -> None:
    async with Runtime(who) as runtime:
        assert (await runtime.call("who")).ok
        assert runtime.store is None

        assert (await runtime.call("who", call_id="remembered")).ok
        assert runtime.store is not None
