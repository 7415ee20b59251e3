"""With an output type, a run that is done has a value of it."""

from dataclasses import dataclass

import pytest
from pydantic import BaseModel

from surehand import Agent, DefinitionError, Limits, Runtime
from surehand.testing import ScriptedModel


class Trip(BaseModel):
    city: str
    days: int


@dataclass
class Price:
    amount: float


@pytest.mark.parametrize("text", ['{"city": "Lisbon", "days": 3}', '```json\n{"city": "Lisbon", "days": 3}\n```'])
async def test_the_text_becomes_a_value_of_the_type(text):
    model = ScriptedModel(text)

    run = await Agent("travel", model=model, output=Trip).run("A trip")

    assert run.output == Trip(city="Lisbon", days=3)
    assert "Lisbon" in run.text
    assert model.requests[0].output_schema == Trip.model_json_schema()
    assert '"days"' in model.requests[0].messages[0]["content"]


@pytest.mark.parametrize(
    ("output", "text", "value"),
    [(Price, '{"amount": 2}', Price(2.0)), (list[int], "[1, 2]", [1, 2]), (str, "Hi", "Hi")],
)
async def test_the_type_may_be_any_that_pydantic_knows(output, text, value):
    assert (await Agent("a", model=ScriptedModel(text), output=output).run("Go")).output == value


TRIP_SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "days": {"type": "integer", "minimum": 1}},
    "required": ["city", "days"],
}


async def test_the_type_may_be_a_json_schema(store):
    model = ScriptedModel("Lisbon!", '{"city": "Lisbon", "days": 0}', '{"city": "Lisbon", "days": 3}')
    async with Runtime(store=store) as runtime:
        agent = Agent("travel", model=model, output=TRIP_SCHEMA)
        run = await agent.run("A trip", runtime=runtime)
        again = await agent.resume(run.id, runtime=runtime)

    assert (run.status, run.output, again.output) == ("done", {"city": "Lisbon", "days": 3}, run.output)
    assert model.requests[0].output_schema == TRIP_SCHEMA
    told = [request.messages[-1]["content"] for request in model.requests]
    assert "Your answer is not the JSON that is asked for" in told[1]
    assert "days: 0 is less than the minimum of 1" in told[2]


def test_a_json_schema_that_is_not_valid_is_refused():
    with pytest.raises(DefinitionError, match="The JSON Schema in `output` cannot be used"):
        Agent("travel", model=ScriptedModel(), output={"type": "trip"})


async def test_the_model_gets_two_more_tries(store):
    model = ScriptedModel("Lisbon!", '{"city": "Lisbon"}', '{"city": "Lisbon", "days": 3}')
    async with Runtime(store=store) as runtime:
        run = await Agent("travel", model=model, output=Trip).run("A trip", runtime=runtime)

    assert (run.status, run.output, len(model.requests)) == ("done", Trip(city="Lisbon", days=3), 3)
    assert "days: Field required" in model.requests[2].messages[-1]["content"]


async def test_after_three_invalid_answers_the_run_fails(store):
    model = ScriptedModel("Lisbon!", "Porto!", "Faro!", "more")
    async with Runtime(store=store) as runtime:
        run = await Agent("travel", model=model, output=Trip).run("A trip", runtime=runtime)

    assert (run.status, run.output, len(model.requests)) == ("failed", None, 3)
    assert "no valid output in 3 tries" in run.reason


async def test_tries_count_as_steps():
    model = ScriptedModel("Lisbon!", "Porto!", "Faro!")

    run = await Agent("travel", model=model, output=Trip, limits=Limits(steps=1)).run("A trip")

    assert (run.status, run.output, len(model.requests)) == ("stopped", None, 2)


async def test_a_stored_run_has_its_output_when_it_is_returned_again(tmp_path):
    agent = Agent("travel", model=ScriptedModel('{"city": "Lisbon", "days": 3}'), output=Trip)
    async with Runtime(store=str(tmp_path / "agent.db")) as runtime:
        run = await agent.run("A trip", runtime=runtime)

        assert (await agent.resume(run.id, runtime=runtime)).output == Trip(city="Lisbon", days=3)
        assert (await runtime.store.runs.find(run.id)).report["output"] == {"city": "Lisbon", "days": 3}
