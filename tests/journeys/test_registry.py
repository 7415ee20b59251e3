"""The registry: tools come, are looked up in many ways, are counted, and go."""

from pathlib import Path
from typing import Any

import pytest

from surehand import Context, DefinitionError, Done, Failed, Runtime, Tool, ToolError, events, tool

CATEGORIES = ("system", "file", "network", "data", "memory", "code", "mcp", "custom")


def named(name: str, **facets: Any) -> Tool[..., Any]:
    @tool(name=name, description=f"Do {name}.", **facets)
    async def work() -> str:
        return name

    return work


async def test_tools_are_registered_found_listed_and_taken_out_while_running() -> None:
    async with Runtime(named("one")) as runtime:
        await runtime.add(named("two", category="file"), [named("three", category="file")])
        catalogue = runtime.catalogue
        listed = [listing.name for listing in catalogue]
        files = [listing.name for listing in catalogue.category("file")]
        found, missing = catalogue.find("two"), catalogue.find("four")
        catalogue.remove("two")
        gone = await runtime.call("two")

    assert (listed, files) == (["one", "two", "three"], ["two", "three"])
    assert found is not None
    assert found.tool.description == "Do two."
    assert missing is None
    assert isinstance(gone, Failed)
    assert gone.code == "not_found"


async def test_a_tool_that_is_registered_again_takes_the_place_of_the_first_if_one_says_so() -> None:
    @tool(name="one")
    async def second() -> str:
        """Do it the other way."""
        return "second"

    async with Runtime(named("one")) as runtime:
        with pytest.raises(DefinitionError, match="add it with on_conflict='replace' or 'rename'"):
            await runtime.add(second)
        before = await runtime.call("one")
        await runtime.add(second, on_conflict="rename")
        renamed = [listing.name for listing in runtime.catalogue]
        await runtime.add(second, on_conflict="replace")
        after = await runtime.call("one")
        [described, _] = runtime.describe("anthropic")

    assert (before, after) == (Done("one"), Done("second"))
    assert renamed == ["one", "one_2"]
    assert described["description"] == "Do it the other way."


async def test_the_same_name_twice_is_refused_and_nothing_of_the_second_is_added() -> None:
    with pytest.raises(DefinitionError, match="There is a tool 'one' already"):
        Runtime(named("one"), named("one"))

    async with Runtime(named("one")) as runtime:
        with pytest.raises(DefinitionError, match="There is a tool 'one' already"):
            await runtime.add(named("one", category="file"))

        assert runtime.stats().by_category["file"] == 0


async def test_a_definition_can_be_replaced_while_running() -> None:
    async with Runtime(named("one")) as runtime:
        before = await runtime.call("one")

        @tool(name="one", description="Do one anew.")
        async def better() -> str:
            return "better"

        runtime.catalogue.add(better, on_conflict="replace")
        after = await runtime.call("one")
        [shown] = runtime.describe("anthropic")

    assert (before.data, after.data) == ("one", "better")
    assert shown["description"] == "Do one anew."


async def test_every_category_and_every_call_is_counted() -> None:
    @tool(category="data")
    async def divide(a: float, b: float) -> float:
        """Divide."""
        if b == 0:
            raise ToolError("b is zero; give another one")
        return a / b

    async with Runtime(divide, named("read", category="file")) as runtime:
        await runtime.call("divide", {"a": 4, "b": 2})
        await runtime.call("divide", {"a": 4, "b": 0})
        await runtime.call("divide", {"a": 4})
        stats = runtime.stats()

    assert stats.total == 2
    assert stats.by_category == dict.fromkeys(CATEGORIES, 0) | {"data": 1, "file": 1}
    assert (stats.calls["divide"].count, stats.calls["divide"].failures) == (3, 2)
    assert stats.calls["divide"].avg_duration > 0
    assert "read" not in stats.calls


async def test_what_models_are_shown_follows_the_registry() -> None:
    async with Runtime(named("one", aliases=("uno",)), named("clear", audience="user")) as runtime:
        first = [each["name"] for each in runtime.describe("anthropic")]
        await runtime.add(named("two"))
        second = [each["name"] for each in runtime.describe("anthropic")]
        runtime.catalogue.remove("uno")
        third = [each["name"] for each in runtime.describe("anthropic")]

    assert (first, second, third) == (["one"], ["one", "two"], ["two"])


async def test_a_person_reaches_every_tool_and_a_model_only_its_own() -> None:
    async with Runtime(named("one"), named("clear", audience="user", aliases=("cls",))) as runtime:
        people = [await runtime.dispatch(name) for name in ("one", "clear", "cls")]
        model = [await runtime.call(name) for name in ("one", "clear", "cls")]
        found = runtime.catalogue.find("cls")

    assert people == [Done("one"), Done("clear"), Done("clear")]
    assert [outcome.ok for outcome in model] == [True, False, False]
    assert found is not None
    assert found.name == "clear"


async def test_the_first_to_claim_an_alias_keeps_it_until_it_goes() -> None:
    async with Runtime(named("one", aliases=("it",)), named("two", aliases=("it",))) as runtime:
        both = await runtime.call("it")
        runtime.catalogue.remove("one")
        gone = await runtime.call("it")

    assert both == Done("one")
    assert not gone.ok


async def test_a_tool_is_enabled_by_what_it_must_do_and_not_by_what_it_may_do_besides() -> None:
    tools = [
        named("read", effects={"read"}, optional_effects={"network"}),
        named("edit", effects={"read", "write"}),
        named("bash", effects={"execute"}),
        named("fetch", effects={"network"}),
        named("undeclared"),
    ]
    async with Runtime(*tools) as runtime:
        enabled = {
            permission: [listing.name for listing in runtime.catalogue.enabled({"read", permission})]
            for permission in ("read", "write", "execute", "network")
        }

    assert enabled == {
        "read": ["read", "undeclared"],
        "write": ["read", "edit", "undeclared"],
        "execute": ["read", "bash", "undeclared"],
        "network": ["read", "fetch", "undeclared"],
    }


async def test_a_tool_is_registered_with_its_permissions_and_the_file_that_describes_it(tmp_path: Path) -> None:
    (tmp_path / "write.txt").write_text("Write a file below ${workspace}.")

    @tool(name="write", effects={"write"}, description=tmp_path / "write.txt")
    async def write(path: str) -> str:
        return path

    async with Runtime(write, workspace="/srv") as runtime:
        [shown] = runtime.describe("anthropic")
        listing = runtime.catalogue.find("write")

    assert shown["description"] == "Write a file below /srv."
    assert listing is not None
    assert listing.tool.effects == {"write"}


async def test_every_result_reaches_whoever_listens_and_is_told_whole() -> None:
    @tool
    async def answer(as_text: bool) -> Any:
        """Answer."""
        return "forty-two" if as_text else {"answer": 42}

    results: dict[str, Any] = {}

    def keep(event: Any) -> None:
        if isinstance(event, events.CallEnded):
            results[event.tool] = event.outcome

    async with Runtime(answer) as runtime:
        stop = runtime.listen(keep)
        text = await runtime.call("answer", {"as_text": True})
        assert results["answer"] is text
        value = await runtime.call("answer", {"as_text": False})
        stop()

    assert (text.text, value.text) == ("forty-two", '{"answer":42}')
    assert results["answer"].data == {"answer": 42}


async def test_a_framework_gives_each_call_its_own_context() -> None:
    @tool
    async def who(ctx: Context) -> list[str | None]:
        """Say for whom."""
        return [ctx.call_id, ctx.session, ctx.message, ctx.agent]

    async with Runtime(who) as runtime:
        scopes = [runtime.scope(session=f"s{n}", message=f"m{n}", agent="helper") for n in (1, 2)]
        told = [await scope.call("who", call_id=f"c{n}") for n, scope in enumerate(scopes, 1)]

    assert [outcome.data for outcome in told] == [["c1", "s1", "m1", "helper"], ["c2", "s2", "m2", "helper"]]
