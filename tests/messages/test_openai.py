"""Messages of OpenAI's Chat Completions API."""

from __future__ import annotations

from typing import Any

import pytest
from openai.types.chat import ChatCompletion, ChatCompletionMessageParam
from pydantic import TypeAdapter

from surehand import Call, messages
from tests.messages.samples import ARCHIVE, DONE, FAILED, LINKED_PICTURE, PDF, PENDING, PICTURE, RECORDING


def tool_call(id: str, name: str, arguments: str) -> dict[str, Any]:
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


def completion(*tool_calls: dict[str, Any], finish_reason: str | None = "tool_calls") -> dict[str, Any]:
    message = {"role": "assistant", "content": None, "tool_calls": list(tool_calls) or None}
    choice = {"index": 0, "finish_reason": finish_reason, "message": message}
    return {"id": "r", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}


TWO_CALLS = completion(tool_call("call_1", "add", '{"a": 1}'), tool_call("call_1", "git__log", "{broken"))


def check_messages(built: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The messages, once the SDK's own types accept them."""
    TypeAdapter(list[ChatCompletionMessageParam]).validate_python(built)
    return built


@pytest.mark.parametrize(
    "response",
    [
        TWO_CALLS,
        TWO_CALLS["choices"][0],
        TWO_CALLS["choices"][0]["message"],
        ChatCompletion.model_validate(TWO_CALLS),
        ChatCompletion.model_validate(TWO_CALLS).choices[0],
        ChatCompletion.model_validate(TWO_CALLS).choices[0].message,
    ],
    ids=["dictionary", "choice", "message", "SDK object", "SDK choice", "SDK message"],
)
def test_calls_are_read_from_dictionaries_and_sdk_objects_with_their_arguments_as_written(response):
    first, second = messages.openai.calls(response)

    assert (first.tool, first.arguments, first.model_id, first.id) == ("add", '{"a": 1}', "call_1", None)
    assert (second.tool, second.arguments, second.model_id) == ("git__log", "{broken", "call_1")


def test_ids_derive_from_run_step_and_position_and_not_from_the_model_s_ids():
    calls = messages.openai.calls(TWO_CALLS, run="r1", step=3)

    assert [(call.id, call.turn) for call in calls] == [("r1.3.0", "r1"), ("r1.3.1", "r1")]
    assert messages.openai.calls(TWO_CALLS, run="r1", step=3) == calls


def test_the_id_of_a_call_in_a_run_with_a_long_name_stays_within_the_limit():
    [first, second] = messages.openai.calls(TWO_CALLS, run="r" * 300)

    assert len(str(first.id)) <= 200
    assert first.id != second.id


def test_an_answer_without_calls_has_none():
    assert messages.openai.calls(completion(finish_reason="stop")) == []
    assert messages.openai.calls({"role": "assistant", "content": "Hello."}) == []


def test_what_is_no_answer_is_an_error_that_says_what_is_expected():
    with pytest.raises(TypeError, match="takes a chat completion, a choice or a message, got int"):
        messages.openai.calls(3)


def test_calls_of_an_answer_that_was_cut_at_its_token_limit_are_refused():
    cut = completion(tool_call("call_1", "pay", '{"amount": 1'), finish_reason="length")

    with pytest.raises(ValueError, match="cut at its token limit"):
        messages.openai.calls(cut)
    assert messages.openai.calls(completion(finish_reason="length")) == []


@pytest.mark.parametrize(
    ("finish_reason", "message"), [(None, "has not ended"), ("content_filter", "stopped by the provider's filter")]
)
@pytest.mark.parametrize("read", [dict, ChatCompletion.model_construct])
def test_calls_of_an_answer_that_did_not_end_well_are_refused(finish_reason, message, read):
    broken = completion(tool_call("call_1", "pay", "{}"), finish_reason=finish_reason)

    with pytest.raises(ValueError, match=message):
        messages.openai.calls(read(**broken))
    with pytest.raises(ValueError, match=message):
        messages.openai.calls(read(**broken)["choices"][0] if read is dict else read(**broken).choices[0])


@pytest.mark.parametrize("finish_reason", ["tool_calls", "stop", "function_call"])
def test_calls_of_an_answer_that_ended_are_read_whatever_the_server_calls_it(finish_reason):
    assert len(messages.openai.calls(completion(tool_call("call_1", "pay", "{}"), finish_reason=finish_reason))) == 1


@pytest.mark.parametrize("read", [dict, ChatCompletion.model_construct])
def test_a_choice_without_a_finish_reason_is_read_as_its_message(read):
    bare = completion(tool_call("call_1", "pay", "{}"))
    del bare["choices"][0]["finish_reason"]

    assert len(messages.openai.calls(read(**bare))) == 1


def test_each_outcome_is_a_tool_message_under_the_model_s_id_in_order():
    calls = [Call("add", model_id="a"), Call("slow", model_id="b"), Call("pay", model_id="c")]

    built = check_messages(messages.openai.results(calls, [DONE, FAILED, PENDING]))

    assert [(each["role"], each["tool_call_id"]) for each in built] == [("tool", "a"), ("tool", "b"), ("tool", "c")]
    assert [each["content"] for each in built] == [DONE.text, FAILED.text, PENDING.text]


def test_images_recordings_and_pdf_files_follow_the_tool_messages_in_a_user_message():
    calls = [
        Call("draw", model_id="a"),
        Call("link", model_id="b"),
        Call("hear", model_id="c"),
        Call("pdf", model_id="d"),
    ]

    built = check_messages(messages.openai.results(calls, [PICTURE, LINKED_PICTURE, RECORDING, PDF]))

    *tool_messages, media = built
    assert [each["role"] for each in tool_messages] == ["tool"] * 4
    assert media["role"] == "user"
    assert [part["type"] for part in media["content"]] == [
        "text", "image_url", "text", "image_url", "text", "input_audio", "text", "file",
    ]  # fmt: skip
    assert media["content"][1]["image_url"] == {"url": "data:image/png;base64,aGk="}
    assert media["content"][3]["image_url"] == {"url": "https://example.com/a.png"}
    assert media["content"][7]["file"] == {"filename": "report.pdf", "file_data": "data:application/pdf;base64,aGk="}
    assert media["content"][0]["text"] == "From the result of draw (a):"


def test_a_file_that_the_api_cannot_carry_is_mentioned_with_where_it_can_be_seen():
    [built] = messages.openai.results([Call("pack", id="c1", model_id="a")], [ARCHIVE])

    assert built["content"].endswith(
        "(a.zip, application/zip, cannot be shown to you here. The person finds it in the result of call c1.)"
    )


def test_there_must_be_one_outcome_for_each_call():
    with pytest.raises(ValueError, match="got 0 for 1 calls"):
        messages.openai.results([Call("add", model_id="a")], [])


def test_a_call_without_an_id_of_the_model_cannot_be_answered():
    with pytest.raises(ValueError, match="The call of add has no `model_id`"):
        messages.openai.results([Call("add")], [DONE])
