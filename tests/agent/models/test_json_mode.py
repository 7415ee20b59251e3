"""JSON-schema mode: calls and text of a model without native tools, read from JSON."""

from __future__ import annotations

import json

import jsonschema_rs
import pytest

from surehand import tool
from surehand.agent.models.base import ModelAnswer, ModelRequest, TextChunk, ToolInputChunk
from surehand.agent.models.json_mode import JsonModeModel
from surehand.agent.models.scripted import ScriptedModel
from tests.agent.models.wires import WEATHER, collect, fail, user

NESTED = {
    "type": "function",
    "function": {
        "name": "book",
        "parameters": {
            "type": "object",
            "properties": {"seat": {"$ref": "#/$defs/Seat"}},
            "required": ["seat"],
            "$defs": {"Seat": {"enum": ["window", "aisle"]}},
        },
    },
}


def written(calls=(), answer=""):
    return json.dumps({"tool_calls": [{"tool": name, "arguments": args} for name, args in calls], "answer": answer})


async def test_calls_are_read_from_the_json_that_the_model_writes():
    scripted = ScriptedModel(written([("get_weather", {"city": "Paris"}), ("book", {"seat": "aisle"})]))
    chunks, answer = await collect(JsonModeModel(scripted), ModelRequest([user("Go")], [WEATHER, NESTED]))

    assert [(call.name, json.loads(call.arguments)) for call in answer.calls] == [
        ("get_weather", {"city": "Paris"}),
        ("book", {"seat": "aisle"}),
    ]
    assert [chunk.position for chunk in chunks if isinstance(chunk, ToolInputChunk)] == [0, 1]
    assert answer.stop_reason == "tool_calls"


async def test_an_answer_is_text_and_not_json():
    chunks, answer = await collect(
        JsonModeModel(ScriptedModel(written(answer="Sunny."))), ModelRequest([user("Go")], [WEATHER])
    )

    assert answer.text == "Sunny."
    assert chunks == [TextChunk("Sunny.")]


async def test_the_schema_allows_calls_of_the_tools_and_nothing_else():
    scripted = ScriptedModel(written())
    await collect(JsonModeModel(scripted), ModelRequest([user("Go")], [WEATHER, NESTED]))

    schema = scripted.requests[0].output_schema
    is_valid = jsonschema_rs.validator_for(schema).is_valid
    assert is_valid(json.loads(written([("get_weather", {"city": "Paris"}), ("book", {"seat": "aisle"})])))
    assert is_valid(json.loads(written(answer="Sunny.")))
    assert not is_valid(json.loads(written([("book", {"seat": "roof"})])))
    assert not is_valid(json.loads(written([("unknown", {})])))
    assert scripted.requests[0].tools == []


@pytest.mark.parametrize("tools", [[], [WEATHER]])
async def test_hosted_tools_are_passed_on(tools):
    hosted = (tool.hosted("search", options={"openai": {"type": "web_search"}}),)
    scripted = ScriptedModel(written(answer="News."))
    await collect(JsonModeModel(scripted), ModelRequest([user("News?")], tools, hosted=hosted))

    assert scripted.requests[0].hosted == hosted


async def test_the_conversation_is_told_without_tool_messages():
    call = {"id": "a", "type": "function", "function": {"name": "get_weather", "arguments": '{"city": "Paris"}'}}
    messages = [
        {"role": "system", "content": "Be brief."},
        user("Weather?"),
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "a", "name": "get_weather", "content": "Sunny."},
    ]
    scripted = ScriptedModel(written(answer="Sunny."))
    await collect(JsonModeModel(scripted), ModelRequest(messages, [WEATHER]))

    system, _, assistant, result = scripted.requests[0].messages
    assert system["content"].startswith("Be brief.")
    assert "get_weather: The weather in a city." in system["content"]
    assert json.loads(assistant["content"])["tool_calls"][0]["arguments"] == {"city": "Paris"}
    assert result == user("[Result of get_weather] Sunny.")


async def test_the_output_of_the_agent_takes_the_place_of_the_answer():
    schema = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
    scripted = ScriptedModel(written(answer={"city": "Paris"}))
    asked = ModelRequest([user("Go")], [WEATHER], output_schema=schema)
    _, answer = await collect(JsonModeModel(scripted), asked)

    assert json.loads(answer.text) == {"city": "Paris"}


async def test_without_tools_a_request_passes_unchanged():
    scripted = ScriptedModel("Hello.")
    chunks, answer = await collect(JsonModeModel(scripted), ModelRequest([user("Hi")]))

    assert answer.text == "Hello."
    assert scripted.requests[0].messages == [user("Hi")]
    assert chunks


@pytest.mark.parametrize("text", ["Sunny, I think.", '```json\n{"tool_calls": [], "answer": "Sunny, I think."}\n```'])
async def test_a_server_that_does_not_enforce_schemas_is_understood(text):
    _, answer = await collect(JsonModeModel(ScriptedModel(text)), ModelRequest([user("Go")], [WEATHER]))

    assert answer.text == "Sunny, I think."


async def test_json_that_was_cut_fails_the_answer():
    cut = ModelAnswer(written([("pay", {"amount": 500})])[:-5], stop_reason="length")
    error = await fail(JsonModeModel(ScriptedModel(cut)), ModelRequest([user("Go")], [WEATHER]))

    assert error.retryable


async def test_a_parameter_may_be_called_as_a_keyword_of_schemas_is():
    tool = {
        "type": "function",
        "function": {
            "name": "define",
            "parameters": {
                "type": "object",
                "properties": {"definitions": {"type": "object"}, "$ref": {"type": "string"}},
                "required": ["definitions"],
            },
        },
    }
    scripted = ScriptedModel(written())
    await collect(JsonModeModel(scripted), ModelRequest([user("Go")], [tool]))

    is_valid = jsonschema_rs.validator_for(scripted.requests[0].output_schema).is_valid
    assert is_valid(json.loads(written([("define", {"definitions": {"a": 1}, "$ref": "x"})])))
    assert not is_valid(json.loads(written([("define", {})])))
    assert not is_valid(json.loads(written([("define", {"definitions": 1})])))


async def test_a_schema_may_refer_to_itself():
    parameters = {
        "type": "object",
        "properties": {"name": {"type": "string"}, "child": {"$ref": "#"}, "other": {"$ref": "#/properties/name"}},
        "required": ["name"],
    }
    scripted = ScriptedModel(written())
    tool = {"type": "function", "function": {"name": "plant", "parameters": parameters}}
    await collect(JsonModeModel(scripted), ModelRequest([user("Go")], [tool]))

    is_valid = jsonschema_rs.validator_for(scripted.requests[0].output_schema).is_valid
    assert is_valid(json.loads(written([("plant", {"name": "a", "child": {"name": "b"}, "other": "c"})])))
    assert not is_valid(json.loads(written([("plant", {"name": "a", "child": {}})])))
    assert not is_valid(json.loads(written([("plant", {"name": "a", "other": 1})])))
