"""ScriptedModel gives its replies in order and records what it was shown."""

import pytest

from surehand.agent.models.base import Model, ModelAnswer, ModelError, ModelRequest, TextChunk, ToolInputChunk, Usage
from surehand.agent.models.scripted import ScriptedModel


async def ask(model, *messages, tools=()):
    chunks = [chunk async for chunk in model.stream(ModelRequest(list(messages), list(tools)))]
    return chunks[:-1], chunks[-1]


def user(text):
    return {"role": "user", "content": text}


async def test_a_text_is_streamed_in_chunks_and_then_given_whole():
    chunks, answer = await ask(ScriptedModel("A haiku about the sea"), user("Write"))

    assert "".join(chunk.text for chunk in chunks if isinstance(chunk, TextChunk)) == "A haiku about the sea"
    assert len(chunks) > 1
    assert answer.text == "A haiku about the sea"
    assert answer.stop_reason == "stop"


async def test_a_list_of_pairs_is_a_list_of_calls():
    chunks, answer = await ask(ScriptedModel([("add", {"a": 1}), ("sub", '{"a": ')]), user("Count"))

    assert [(call.name, call.arguments) for call in answer.calls] == [("add", '{"a": 1}'), ("sub", '{"a": ')]
    assert [call.model_id for call in answer.calls] == ["call_1", "call_2"]
    assert {(chunk.position, chunk.name) for chunk in chunks if isinstance(chunk, ToolInputChunk)} == {
        (0, "add"),
        (1, "sub"),
    }


async def test_a_function_gets_the_messages_after_they_were_recorded():
    model = ScriptedModel(lambda messages: f"{len(model.requests)} {messages[-1]['content']}")

    _, answer = await ask(model, user("Hello"))

    assert answer.text == "1 Hello"


async def test_an_asynchronous_function_may_give_calls():
    async def reply(messages):
        return [("add", None)]

    _, answer = await ask(ScriptedModel(reply), user("Hello"))

    assert answer.calls[0].arguments == "{}"


@pytest.mark.parametrize("reply", [LookupError("no"), LookupError, lambda messages: LookupError("no")])
async def test_an_exception_is_raised(reply):
    with pytest.raises(LookupError):
        await ask(ScriptedModel(reply), user("Hello"))


async def test_a_prepared_answer_is_given_as_it_is():
    prepared = ModelAnswer("Hi", usage=Usage(10, 20, 0.5))

    assert (await ask(ScriptedModel(prepared), user("Hello")))[1] is prepared


async def test_a_request_after_the_last_reply_is_an_error():
    model = ScriptedModel("one")
    await ask(model, user("Hello"))

    with pytest.raises(ModelError, match="1 replies, and this is request 2"):
        await ask(model, user("Hello"))


async def test_requests_hold_copies_of_messages_and_tools():
    message = user("Hello")
    tool = {"type": "function", "function": {"name": "add"}}
    model = ScriptedModel("one")
    await ask(model, message, tools=[tool])

    message["content"] = "changed"
    tool["type"] = "changed"

    assert model.requests[0].messages == [user("Hello")]
    assert model.requests[0].tools == [{"type": "function", "function": {"name": "add"}}]


async def test_usage_is_a_fourth_of_the_characters():
    _, answer = await ask(ScriptedModel("b" * 400, cost=0.25), user("a" * 40))

    assert answer.usage == Usage(10, 100, 0.25)


def test_it_is_a_model():
    assert isinstance(ScriptedModel(), Model)
