"""Messages of Google's Gemini API."""

from __future__ import annotations

from typing import Any

import pytest
from google.genai import types

from surehand import Call, messages
from tests.messages.samples import DONE, FAILED, LINKED_PICTURE, PICTURE

ANSWER: dict[str, Any] = {
    "candidates": [
        {
            "finishReason": "STOP",
            "content": {
                "role": "model",
                "parts": [
                    {"text": "Let me see."},
                    {"functionCall": {"name": "add", "args": {"a": 1}}},
                    {"functionCall": {"id": "f2", "name": "now"}},
                ],
            },
        }
    ]
}
SDK_ANSWER = types.GenerateContentResponse.model_validate(ANSWER)


@pytest.mark.parametrize(
    "response",
    [
        ANSWER,
        ANSWER["candidates"][0],
        ANSWER["candidates"][0]["content"],
        SDK_ANSWER,
        SDK_ANSWER.candidates and SDK_ANSWER.candidates[0],
        SDK_ANSWER.model_dump(),
    ],
    ids=["dictionary", "candidate", "content", "SDK object", "SDK candidate", "snake case"],
)
def test_function_calls_are_read_from_dictionaries_and_sdk_objects(response):
    calls = messages.gemini.calls(response, run="r1", step=1)

    assert [(call.tool, call.arguments, call.model_id, call.id) for call in calls] == [
        ("add", {"a": 1}, None, "r1.1.0"),
        ("now", {}, "f2", "r1.1.1"),
    ]


def test_an_answer_that_was_blocked_has_no_calls():
    assert messages.gemini.calls({"candidates": [{"finishReason": "SAFETY"}]}) == []
    assert messages.gemini.calls({"candidates": []}) == []


def test_calls_of_an_answer_that_was_cut_at_its_token_limit_are_refused():
    cut = ANSWER["candidates"][0] | {"finishReason": "MAX_TOKENS"}

    with pytest.raises(ValueError, match="cut at its token limit"):
        messages.gemini.calls({"candidates": [cut]})
    with pytest.raises(ValueError, match="cut at its token limit"):
        messages.gemini.calls(types.GenerateContentResponse.model_validate({"candidates": [cut]}))


@pytest.mark.parametrize(
    ("finish_reason", "message"),
    [
        (None, "has not ended"),
        ("SAFETY", "stopped by the provider's filter"),
        ("MALFORMED_FUNCTION_CALL", "was broken off"),
        ("OTHER", "was broken off"),
    ],
)
@pytest.mark.parametrize("read", [dict, types.Candidate.model_validate])
def test_calls_of_a_candidate_that_did_not_end_well_are_refused(finish_reason, message, read):
    with pytest.raises(ValueError, match=message):
        messages.gemini.calls(read(ANSWER["candidates"][0] | {"finishReason": finish_reason}))


@pytest.mark.parametrize("read", [dict, types.Candidate.model_validate])
def test_a_candidate_without_a_finish_reason_is_read(read):
    assert len(messages.gemini.calls(read({"content": ANSWER["candidates"][0]["content"]}))) == 2


def test_what_is_no_response_is_an_error_that_says_what_is_expected():
    with pytest.raises(TypeError, match="takes a response, a candidate or a content, got dict"):
        messages.gemini.calls({})


def test_all_responses_are_in_one_content_by_name_and_id_and_images_follow_them():
    calls = [Call("add"), Call("slow", model_id="f2"), Call("draw"), Call("link")]

    built = messages.gemini.results(calls, [DONE, FAILED, PICTURE, LINKED_PICTURE])

    [content] = built
    assert content["role"] == "user"
    assert content["parts"][0] == {"functionResponse": {"name": "add", "response": {"output": "4"}}}
    assert content["parts"][1] == {"functionResponse": {"id": "f2", "name": "slow", "response": {"error": FAILED.text}}}
    read_back = types.Content.model_validate(content).parts
    assert read_back is not None
    assert read_back[5].inline_data is not None
    assert read_back[5].inline_data.data == b"hi"
    assert read_back[7].file_data is not None
    assert read_back[7].file_data.file_uri == "https://example.com/a.png"
