"""Messages of OpenAI's Responses API."""

from __future__ import annotations

from typing import Any

import pytest
from openai.types.responses import Response, ResponseInputItemParam
from pydantic import TypeAdapter

from surehand import Call, messages
from tests.messages.samples import DONE, FAILED, PDF, PICTURE, RECORDING

ANSWER: dict[str, Any] = {
    "id": "r",
    "object": "response",
    "created_at": 1.0,
    "model": "m",
    "parallel_tool_calls": True,
    "tool_choice": "auto",
    "tools": [],
    "status": "completed",
    "output": [
        {"type": "reasoning", "id": "x", "summary": []},
        {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "add", "arguments": '{"a": 1}'},
        {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search", "query": "x"}},
        {"type": "function_call", "id": "fc_2", "call_id": "call_2", "name": "pay", "arguments": "{}"},
    ],
}


@pytest.mark.parametrize(
    "response",
    [ANSWER, ANSWER["output"], Response.model_validate(ANSWER), Response.model_validate(ANSWER).output],
    ids=["dictionary", "items", "SDK object", "SDK items"],
)
def test_function_calls_are_read_and_items_of_hosted_tools_are_not(response):
    calls = messages.responses.calls(response, run="r1", step=2)

    assert [(call.tool, call.arguments, call.model_id, call.id) for call in calls] == [
        ("add", '{"a": 1}', "call_1", "r1.2.0"),
        ("pay", "{}", "call_2", "r1.2.1"),
    ]


def test_calls_of_an_incomplete_response_are_refused():
    with pytest.raises(ValueError, match="cut at its token limit"):
        messages.responses.calls(ANSWER | {"incomplete_details": {"reason": "max_output_tokens"}})


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"status": None}, "has not ended"),
        ({"status": "in_progress"}, "has not ended"),
        ({"status": "incomplete"}, "was broken off"),
        ({"status": "failed"}, "was broken off"),
        ({"status": "incomplete", "incomplete_details": {"reason": "content_filter"}}, "the provider's filter"),
        ({"incomplete_details": {"reason": "another"}}, "was broken off"),
    ],
)
@pytest.mark.parametrize("read", [dict, Response.model_construct])
def test_calls_of_a_response_that_did_not_end_well_are_refused(fields, message, read):
    with pytest.raises(ValueError, match=message):
        messages.responses.calls(read(**ANSWER | fields))


@pytest.mark.parametrize("read", [dict, Response.model_construct])
def test_a_response_without_a_status_is_read(read):
    bare = {name: value for name, value in ANSWER.items() if name != "status"}

    assert len(messages.responses.calls(read(**bare))) == 2


def test_what_is_no_response_is_an_error_that_says_what_is_expected():
    with pytest.raises(TypeError, match="takes a response or a list of output items, got str"):
        messages.responses.calls("hello")


def test_each_outcome_is_an_output_item_with_its_images_and_files():
    calls = [Call(name, model_id=name) for name in ("add", "slow", "draw", "pdf", "hear")]

    built = messages.responses.results(calls, [DONE, FAILED, PICTURE, PDF, RECORDING])

    TypeAdapter(list[ResponseInputItemParam]).validate_python(built)
    assert [each["call_id"] for each in built] == ["add", "slow", "draw", "pdf", "hear"]
    assert built[0]["output"] == "4"
    assert built[1]["output"] == FAILED.text
    assert built[2]["output"][1] == {"type": "input_image", "image_url": "data:image/png;base64,aGk="}
    assert built[3]["output"][1]["filename"] == "report.pdf"
    assert "cannot be shown to you here" in built[4]["output"]
