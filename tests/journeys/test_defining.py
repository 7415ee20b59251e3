"""Defining tools: one object, whatever it is made from and whoever uses it."""

from pathlib import Path
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, Field

from surehand import Context, DefinitionError, Done, Failed, Json, Runtime, Text, Tool, ToolError, tool

BOX = {"type": "object", "properties": {"width": {"type": "integer"}, "height": {"type": "integer"}}}


class City(BaseModel):
    name: str
    days: int = Field(1, ge=1, description="How many days ahead.")


@tool(name="forecast", description="Forecast the weather of a city.", parameters=City)
async def forecast(city: City) -> str:
    return f"sun in {city.name} for {city.days}"


async def test_one_tool_is_shown_to_a_model_run_by_itself_and_put_into_a_runtime() -> None:
    by_itself = await forecast.run({"name": "Oslo", "days": "2"})
    async with Runtime(forecast) as runtime:
        called = await runtime.call("forecast", '{"name": "Oslo", "days": 2}')
        [shown] = runtime.describe("anthropic")

    assert by_itself == called == Done("sun in Oslo for 2")
    assert (shown["name"], shown["description"]) == ("forecast", "Forecast the weather of a city.")
    assert shown["input_schema"]["properties"]["days"]["description"] == "How many days ahead."


async def test_the_same_tool_serves_two_runtimes_at_once() -> None:
    async with Runtime(forecast) as one, Runtime(forecast) as two:
        assert (await one.call("forecast", {"name": "Oslo"})).ok
        assert (await two.call("forecast", {"name": "Rome"})).ok
        assert (one.stats().calls["forecast"].count, two.stats().calls["forecast"].count) == (1, 1)


async def test_a_handler_never_sees_arguments_that_do_not_fit() -> None:
    seen: list[Any] = []

    @tool(parameters=City)
    async def look(city: City) -> None:
        """Look."""
        seen.append(city)

    async with Runtime(look) as runtime:
        for wrong in ({"days": 1}, {"name": "Oslo", "days": 0}, {"name": "Oslo", "hours": 1}, "[]"):
            outcome = await runtime.call("look", wrong)
            assert isinstance(outcome, Failed)
            assert (outcome.code, outcome.executed) == ("invalid_arguments", False)

    assert seen == []


async def test_a_raw_schema_reaches_every_model_as_it_was_given() -> None:
    measure = tool(name="measure", description="Measure a box.", parameters=BOX)(lambda args: args["width"])

    async with Runtime(measure) as runtime:
        [anthropic] = runtime.describe("anthropic")
        [mcp] = runtime.describe("mcp")
        outcome = await runtime.call("measure", {"width": 3, "height": 4})

    assert anthropic["input_schema"] == mcp["inputSchema"] == measure.schema == BOX
    assert outcome == Done(3)


async def test_every_kind_of_tool_is_a_tool_with_the_same_face() -> None:
    async def made() -> Tool[..., Any]:
        return forecast.evolve(name="later")

    show = tool.client("show_chart", "Show a chart.", parameters=BOX)
    search = tool.hosted("search", options={"openai": {"type": "web_search"}})
    job = tool.external("run_batch", "Start a batch.")
    async with Runtime(forecast, show, search, job, tool.lazy("later", made)) as runtime:
        listings = {listing.name: listing for listing in runtime.catalogue}

    assert {name: listing.kind for name, listing in listings.items()} == {
        "forecast": "function",
        "show_chart": "client",
        "search": "hosted",
        "run_batch": "external",
        "later": "function",
    }
    for listing in listings.values():
        assert isinstance(listing.tool, Tool)
        assert listing.tool.description
        assert isinstance(listing.tool.schema, dict)


async def test_a_client_tool_that_says_nothing_more_renders_and_is_not_waited_for() -> None:
    show = tool.client("show_chart", "Show a chart.", parameters=BOX)

    async with Runtime(show) as runtime:
        outcome = await runtime.call("show_chart", {"width": 3})

        assert outcome.text == "[show_chart rendered on client]"
        assert await runtime.pending() == []
    assert (show.kind, show.presentation.intent) == ("client", "render")


@pytest.mark.parametrize("intent", ["render", "action", "compute"])
def test_a_tool_says_what_it_is_meant_for(intent: Any) -> None:
    @tool(intent=intent)
    async def work() -> None:
        """Work."""

    assert work.presentation.intent == intent
    assert forecast.presentation.intent == "compute"


def test_a_meaning_that_nobody_knows_is_a_mistake_at_definition() -> None:
    with pytest.raises(DefinitionError, match="use render, action or compute"):
        tool(name="work", intent="decorate")(lambda: None)


async def test_a_tool_without_work_of_its_own_cannot_be_run_by_itself() -> None:
    search = tool.hosted("search", options={"openai": {"type": "web_search"}})

    with pytest.raises(DefinitionError, match="search has no handler of its own"):
        await search.run({})


async def test_a_handler_answers_in_blocks_of_text_and_data() -> None:
    @tool
    async def measure() -> list[Text | Json]:
        """Measure."""
        return [Text("The box is small."), Json({"width": 3}, text="width 3")]

    async with Runtime(measure) as runtime:
        outcome = await runtime.call("measure")

    assert [block.type for block in outcome.content] == ["text", "json"]
    assert (outcome.text, outcome.unwrap()) == ("The box is small.\nwidth 3", {"width": 3})


@pytest.mark.parametrize(
    ("error", "code", "shown"),
    [
        (ToolError("the box is glued shut"), "failed", "(tool failed: the box is glued shut)"),
        (ValueError("bad box"), "crashed", "ValueError: bad box"),
    ],
)
async def test_an_exception_is_an_outcome_for_the_model_to_read(error: Exception, code: str, shown: str) -> None:
    @tool
    async def open_box() -> None:
        """Open the box."""
        raise error

    async with Runtime(open_box) as runtime:
        outcome = await runtime.call("open_box")

    assert isinstance(outcome, Failed)
    assert outcome.code == code
    assert shown in outcome.text


async def test_a_definition_may_be_made_late_from_what_is_known_only_then(tmp_path: Path) -> None:
    async def make() -> Tool[..., Any]:
        known = (tmp_path / "cities").read_text().split()

        @tool(description=f"Forecast one of {', '.join(known)}.")
        def forecast(name: str) -> str:
            return name.upper()

        return forecast

    lazy = tool.lazy("forecast", make)
    (tmp_path / "cities").write_text("Oslo Rome")
    async with Runtime(lazy) as runtime:
        [shown] = runtime.describe("anthropic")
        outcome = await runtime.call("forecast", {"name": "Oslo"})

    assert shown["description"] == "Forecast one of Oslo, Rome."
    assert outcome == Done("OSLO")


async def test_a_text_file_beside_the_tool_is_what_models_read(tmp_path: Path) -> None:
    (tmp_path / "list.txt").write_text("List the files of ${workspace}.\n")

    @tool(name="list", description=tmp_path / "list.txt")
    async def list_files(ctx: Context) -> str:
        """Say what is there."""
        return ctx.workspace

    async with Runtime(list_files, workspace="/srv/project") as runtime:
        [shown] = runtime.describe("anthropic")
        outcome = await runtime.call("list")

    assert shown["description"] == "List the files of /srv/project."
    assert outcome == Done("/srv/project")


async def test_what_a_model_reads_is_short_and_every_parameter_is_told() -> None:
    @tool(max_bytes=500)
    async def read(path: Annotated[str, Field(description="The file to read.")]) -> str:
        """Read a file."""
        return path * 1_000

    async with Runtime(read) as runtime:
        await runtime.call("read", {"path": "notes"})
        shown = runtime.describe("anthropic")

    assert [each["name"] for each in shown] == ["read", "tool_output"]
    for each in shown:
        assert len(each["description"].split()) <= 40
        assert all(field.get("description") for field in each["input_schema"]["properties"].values())
