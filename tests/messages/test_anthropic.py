"""Messages of Anthropic's Messages API."""

from __future__ import annotations

from typing import Any

import pytest
from anthropic.types import Message, MessageParam
from pydantic import TypeAdapter

from surehand import Call, messages
from tests.messages.samples import ARCHIVE, DONE, FAILED, LINKED_PICTURE, PDF, PENDING, PICTURE

ANSWER: dict[str, Any] = {
    "id": "m", "type": "message", "role": "assistant", "model": "m", "stop_reason": "tool_use", "stop_sequence": None,
    "usage": {"input_tokens": 1, "output_tokens": 1},
    "content": [
        {"type": "text", "text": "Let me see."},
        {"type": "tool_use", "id": "toolu_1", "name": "add", "input": {"a": 1}},
        {"type": "tool_use", "id": "toolu_2", "name": "pay", "input": {}},
    ],
}  # fmt: skip


@pytest.mark.parametrize(
    "response",
    [ANSWER, ANSWER["content"], Message.model_validate(ANSWER), Message.model_validate(ANSWER).content],
    ids=["dictionary", "blocks", "SDK object", "SDK blocks"],
)
def test_tool_use_blocks_are_read_from_dictionaries_and_sdk_objects(response):
    calls = messages.anthropic.calls(response, run="r1")

    assert [(call.tool, call.arguments, call.model_id, call.id) for call in calls] == [
        ("add", {"a": 1}, "toolu_1", "r1.0.0"),
        ("pay", {}, "toolu_2", "r1.0.1"),
    ]


def test_a_message_of_plain_text_has_no_calls():
    assert messages.anthropic.calls({"role": "assistant", "content": "Hello."}) == []


def test_calls_of_a_message_that_was_cut_at_its_token_limit_are_refused():
    with pytest.raises(ValueError, match="cut at its token limit"):
        messages.anthropic.calls(ANSWER | {"stop_reason": "max_tokens"})


@pytest.mark.parametrize(
    ("stop_reason", "message"),
    [
        (None, "has not ended"),
        ("refusal", "the model refused to go on"),
        ("model_context_window_exceeded", "the context of the model is full"),
    ],
)
@pytest.mark.parametrize("read", [dict, Message.model_construct])
def test_calls_of_a_message_that_did_not_end_well_are_refused(stop_reason, message, read):
    with pytest.raises(ValueError, match=message):
        messages.anthropic.calls(read(**ANSWER | {"stop_reason": stop_reason}))


@pytest.mark.parametrize("read", [dict, Message.model_construct])
def test_a_message_without_a_stop_reason_is_read(read):
    bare = {name: value for name, value in ANSWER.items() if name != "stop_reason"}

    assert len(messages.anthropic.calls(read(**bare))) == 2
    assert messages.anthropic.calls(ANSWER | {"stop_reason": None, "content": "Hello."}) == []


def test_what_is_no_message_is_an_error_that_says_what_is_expected():
    with pytest.raises(TypeError, match="takes a message or a list of content blocks, got NoneType"):
        messages.anthropic.calls(None)


def test_all_results_are_in_one_user_message_and_failures_are_marked():
    calls = [Call(name, model_id=name) for name in ("add", "slow", "pay")]

    built = messages.anthropic.results(calls, [DONE, FAILED, PENDING])

    TypeAdapter(list[MessageParam]).validate_python(built)
    [message] = built
    assert message["role"] == "user"
    assert message["content"] == [
        {"type": "tool_result", "tool_use_id": "add", "content": "4"},
        {"type": "tool_result", "tool_use_id": "slow", "content": FAILED.text, "is_error": True},
        {"type": "tool_result", "tool_use_id": "pay", "content": PENDING.text},
    ]


def test_images_and_pdf_files_are_blocks_of_their_result():
    calls = [Call(name, model_id=name) for name in ("draw", "link", "pdf", "pack")]

    built = messages.anthropic.results(calls, [PICTURE, LINKED_PICTURE, PDF, ARCHIVE])

    TypeAdapter(list[MessageParam]).validate_python(built)
    drawn, linked, pdf, packed = built[0]["content"]
    assert drawn["content"][1] == {
        "type": "image",
        "source": {"type": "base64", "media_type": "image/png", "data": "aGk="},
    }
    assert linked["content"][1] == {"type": "image", "source": {"type": "url", "url": "https://example.com/a.png"}}
    assert pdf["content"][1]["type"] == "document"
    assert pdf["content"][1]["title"] == "report.pdf"
    assert "a.zip" in packed["content"]


def test_without_calls_there_is_no_message():
    assert messages.anthropic.results([], []) == []
