"""Content blocks: classes of ours, plain dictionaries, and kinds without a class."""

from typing import Any

import pytest

from surehand import Audio, Done, File, Image, Json, OtherBlock, Outcome, Resource, Runtime, Store, Text, tool
from surehand.core.content import block_text
from surehand.store.serialization import deserialize_outcome, serialize_outcome

OTHER_BLOCKS = [
    {"type": "document", "source": {"type": "url", "url": "https://example.com/a.pdf"}, "title": "A"},
    {"type": "video", "source": {"type": "base64", "data": "AAAA"}},
    {"type": "tool_use", "id": "c1", "name": "add", "input": {"a": 1}},
    {"type": "tool_result", "toolUseId": "c1", "content": []},
    {"type": "reasoning", "text": "because"},
    {"type": "xml", "text": "<a/>"},
    {"type": "csv", "text": "a,b", "headers": ["x", "y"]},
    {"type": "html", "text": "<p>"},
    {"type": "code", "text": "1 + 1", "language": "python"},
    {"type": "generated_image", "data": "AAAA", "mimeType": "image/png"},
    {"type": "generated_file", "uri": "file:///a", "mimeType": "text/plain"},
    {"type": "executable_code", "code": "1 + 1", "language": "python"},
    {"type": "code_execution_result", "output": "2"},
]


async def result_of(value: Any) -> Outcome:
    @tool
    async def give() -> Any:
        """Give."""
        return value

    async with Runtime(give) as runtime:
        return await runtime.call("give")


async def test_lists_of_plain_dictionaries_that_are_content_blocks_are_content_blocks() -> None:
    outcome = await result_of([{"type": "text", "text": "4"}, {"type": "json", "text": "a is 1", "data": {"a": 1}}])

    assert outcome.content == (Text("4"), Json({"a": 1}, "a is 1"))
    assert (outcome.text, outcome.data) == ("4\na is 1", {"a": 1})


@pytest.mark.parametrize(
    ("plain", "block"),
    [
        ({"type": "image", "data": "AAAA", "mimeType": "image/gif"}, Image("AAAA", "image/gif")),
        ({"type": "image", "source": {"type": "base64", "media_type": "image/gif", "data": "AAAA"}},
         Image("AAAA", "image/gif")),
        ({"type": "image", "source": {"type": "url", "url": "https://example.com/a.png"}, "altText": "A"},
         Image(url="https://example.com/a.png")),
        ({"type": "audio", "data": "AAAA", "mime_type": "audio/mp3"}, Audio("AAAA", "audio/mp3")),
        ({"type": "file", "data": "AAAA", "filename": "a.bin"}, File("AAAA", filename="a.bin")),
        ({"type": "resource", "uri": "db://a", "text": "A"}, Resource("db://a", text="A")),
        ({"type": "resource", "resource": {"uri": "db://a", "mimeType": "text/plain", "text": "A"}},
         Resource("db://a", mime_type="text/plain", text="A")),
    ],
)  # fmt: skip
async def test_a_plain_object_of_a_kind_of_ours_becomes_that_block(plain: dict[str, Any], block: Any) -> None:
    assert (await result_of(plain)).content == (block,)


@pytest.mark.parametrize("plain", OTHER_BLOCKS, ids=lambda plain: plain["type"])
async def test_a_kind_without_a_class_of_ours_passes_through_unchanged(plain: dict[str, Any]) -> None:
    outcome = await result_of([plain])

    fields = {name: value for name, value in plain.items() if name != "type"}
    assert outcome.content == (OtherBlock(plain["type"], fields),)
    assert isinstance(outcome, Done)
    assert deserialize_outcome(serialize_outcome(outcome)).content == outcome.content


@pytest.mark.parametrize(
    "data",
    [
        [{"type": "text", "words": 4}],
        [{"type": "user", "name": "ann"}],
        [{"type": "text", "text": "4"}, {"rows": 1}],
        [{"type": "text", "text": 4}],
        {"type": "image", "path": "a.png"},
        {"type": None, "text": "4"},
        [],
    ],
)
async def test_a_dictionary_without_the_fields_of_its_kind_is_data(data: Any) -> None:
    outcome = await result_of(data)

    assert isinstance(outcome, Done)
    assert not outcome.has_own_content
    assert outcome.data == data


def test_a_json_block_carries_text_and_data() -> None:
    assert Json({"a": 1}) == Json({"a": 1}, '{"a":1}')
    assert Json({"a": 1}).text == '{"a":1}'


def test_the_text_of_a_block_without_text_leaves_out_long_strings() -> None:
    assert block_text(OtherBlock("code", {"text": "1 + 1"})) == "1 + 1"
    assert block_text(OtherBlock("video", {"source": {"data": "A" * 4_000}})) == (
        '{"type":"video","source":{"data":"[4000 characters]"}}'
    )


def test_attachments_are_part_of_the_content() -> None:
    picture = Image("AAAA")
    done = Done("a desk", attachments=[picture])

    assert done.content == (Text("a desk"), picture)
    assert deserialize_outcome(serialize_outcome(done)) == done
    assert done.with_clipped_text("a d").content == (Text("a d"), picture)
    assert Done(content=[Text("long"), picture]).with_clipped_text("l").content == (Text("l"), picture)


async def test_the_default_of_a_client_tool_may_be_plain_blocks() -> None:
    show = tool.client("show", "Show.", default=[{"type": "text", "text": "4"}])

    async with Runtime(show) as runtime:
        outcome = await runtime.call("show")

    assert (outcome.text, outcome.content) == ("4", (Text("4"),))


async def test_a_clients_answer_may_be_plain_blocks() -> None:
    ask = tool.client("ask", "Ask.", reply="later")

    async with Store.open(":memory:") as store, Runtime(ask, store=store) as runtime:
        await runtime.call("ask", call_id="c1")
        settled = await runtime.settle("c1", [{"type": "text", "text": "4"}, {"type": "code", "text": "x"}])
        recalled = await runtime.call("ask", call_id="c1")

    assert settled.text == "4\nx"
    assert settled.content == recalled.content == (Text("4"), OtherBlock("code", {"text": "x"}))
