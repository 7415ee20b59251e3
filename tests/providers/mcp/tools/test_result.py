"""Results of tools as outcomes: data, content, errors and output schemas."""

import json
import time
from base64 import b64encode
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mcp_types import (
    AudioContent,
    BlobResourceContents,
    CallToolResult,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
    TextResourceContents,
)

from surehand import Done, ToolError
from surehand.core.content import Audio, File, Image, Resource, Text, to_json
from surehand.providers.mcp.tools.result import build_output_validator, done_from_result

PIXEL = b64encode(b"\x89PNG pixel").decode()


def result(*blocks: Any, **fields: Any) -> CallToolResult:
    return CallToolResult(content=list(blocks), **fields)


def text(words: str, **fields: Any) -> TextContent:
    return TextContent(text=words, **fields)


def wire(*blocks: Any, **fields: Any) -> dict[str, Any]:
    return {"content": list(blocks), **fields}


# --- data and text


def test_a_single_text_is_the_data():
    done = done_from_result(result(text("hello")))

    assert done == Done("hello")
    assert done.text == "hello"
    assert not done.has_own_content  # nothing is kept twice


def test_texts_are_joined_by_a_newline():
    assert done_from_result(result(text("a"), text("b"))).data == "a\nb"
    assert done_from_result(result(text("a"), text("b"))).text == "a\nb"


def test_an_empty_result_is_none():
    assert done_from_result(result()).data is None
    assert done_from_result(result()).text == "(no output)"


def test_structured_content_is_the_data_and_the_text_is_the_content():
    done = done_from_result(result(text("Three."), structured_content={"result": 3}))

    assert done.data == {"result": 3}
    assert done.text == "Three."


def test_structured_content_without_blocks_is_shown_as_json():
    assert done_from_result(result(structured_content={"a": [1]})).text == '{"a":[1]}'
    assert done_from_result(result(structured_content=[1, 2])).data == [1, 2]
    assert done_from_result(result(text("x"), structured_content=None)).data == "x"


def test_a_value_is_unwrapped_only_if_the_server_marks_it():
    schema = {"type": "object", "properties": {"result": {"type": "integer"}}, "required": ["result"]}
    given = result(text("3"), structured_content={"result": 3})

    assert done_from_result(given, build_output_validator(schema)).data == {"result": 3}
    assert done_from_result(given, build_output_validator({**schema, "x-fastmcp-wrap-result": True})).data == 3
    assert done_from_result(given.model_copy(update={"meta": {"fastmcp": {"wrap_result": True}}})).data == 3
    both = wire(structuredContent={"result": 1, "more": 2}, _meta={"fastmcp": {"wrap_result": True}})
    assert done_from_result(both).data == {"result": 1, "more": 2}


def test_content_has_no_control_or_hidden_characters():
    words = "a\x1b[31mred\x1b[0m\x00\u202eb\U000e0041\tc\r\nd 👩‍🚀"

    done = done_from_result(result(text(words)))

    assert done.text == "aredb\tc\nd 👩‍🚀"
    assert done.data == words  # as it was sent, for programs


def test_structured_content_is_kept_and_its_text_is_cleaned():
    data = {"a": "x\u202ey"}

    done = done_from_result(result(structured_content=data))

    assert done.data == data
    assert done.text == '{"a":"xy"}'


# --- blocks


def test_each_kind_of_block_is_converted():
    done = done_from_result(
        result(
            text("Look:"),
            ImageContent(data=PIXEL, mime_type="image/PNG; x=y"),
            AudioContent(data=PIXEL, mime_type="audio/wav"),
            EmbeddedResource(resource=TextResourceContents(uri="file:///a.txt", text="inside", mime_type="text/plain")),
            EmbeddedResource(resource=BlobResourceContents(uri="file:///x/b%20c.zip?q", blob=PIXEL)),
            EmbeddedResource(resource=BlobResourceContents(uri="ui://p", blob=PIXEL, mime_type="image/jpeg")),
            ResourceLink(uri="file:///d.md", name="d", mime_type="text/markdown", description="More."),
        )
    )

    assert done.content == (
        Text("Look:"),
        Image(PIXEL, "image/png"),
        Audio(PIXEL, "audio/wav"),
        Resource("file:///a.txt", mime_type="text/plain", text="inside"),
        File(PIXEL, "application/octet-stream", "b c.zip"),
        Image(PIXEL, "image/jpeg"),
        Resource("file:///d.md", "d", "text/markdown"),
    )
    assert done.text.splitlines() == [
        "Look:",
        "[image: image/png, 10 bytes]",
        "[audio: audio/wav, 10 bytes]",
        "inside",
        "[file: application/octet-stream, 10 bytes]",
        "[image: image/jpeg, 10 bytes]",
        "[resource: file:///d.md]",
    ]
    assert done.data[0] == "Look:"
    assert done.data[1] == {"type": "image", "mime_type": "image/png", "text": "[image: image/png, 10 bytes]"}
    assert done.data[6]["uri"] == "file:///d.md"


def test_extra_fields_of_blocks_are_kept_without_their_payload():
    done = done_from_result(
        result(
            text("a"),
            ImageContent(data=PIXEL * 100, mime_type="image/png", annotations={"audience": ["user"]}),
            EmbeddedResource(resource=BlobResourceContents(uri="file:///b", blob=PIXEL, meta={"k": 1})),
            ResourceLink(uri="file:///d", name="d", title="D", size=5),
            meta={"trace": "t1", "io.modelcontextprotocol/serverInfo": {"name": "git"}},
        )
    )

    assert done.metadata["_meta"] == {"trace": "t1"}
    assert done.metadata["blocks"]["1"] == {"annotations": {"audience": ["user"]}}
    assert done.metadata["blocks"]["2"]["resource"] == {"uri": "file:///b", "_meta": {"k": 1}}
    assert done.metadata["blocks"]["3"]["title"] == "D"
    assert "0" not in done.metadata["blocks"]
    assert PIXEL not in json.dumps([done.data, dict(done.metadata)])


def test_an_unknown_block_becomes_a_note():
    done = done_from_result(
        wire({"type": "text", "text": "a"}, {"type": "hologram", "depth": 3}, {"no": "type"}, "what")
    )

    lines = done.text.splitlines()
    assert lines[0] == "a"
    assert lines[1].startswith("[hologram: ")
    assert "depth" in lines[1]
    assert lines[2].startswith("[unknown: ")
    assert "what" in lines[3]
    assert done.metadata["blocks"]["1"] == {"depth": 3}


@pytest.mark.parametrize("data", ["!!!", "", "a", "ä" * 8, "QUJD\x00"])
def test_invalid_base64_becomes_a_note(data):
    done = done_from_result(result(ImageContent(data=data, mime_type="image/png")))

    assert done.content == (Text(f"[image: image/png, {len(data)} characters that are no base64]"),)


@pytest.mark.parametrize("data", ["-_-_", "QUJD\nQUJD", "QUI", " QUI= "])
def test_base64_is_normalised(data):
    (block,) = done_from_result(result(ImageContent(data=data, mime_type="image/png"))).content

    assert isinstance(block, Image)
    assert set(block.data) <= set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=")
    assert len(block.data) % 4 == 0


@pytest.mark.parametrize("mime", ["", "image", "../../x", "image/\u202epng", "text/html\r\nX: y", "a" * 1_000])
def test_an_odd_mime_type_makes_it_a_file(mime):
    (block,) = done_from_result(result(ImageContent(data=PIXEL, mime_type=mime))).content

    assert isinstance(block, File)
    assert block.mime_type in ("application/octet-stream", "text/html")


def test_uris_and_file_names_are_cleaned():
    link = ResourceLink(uri="file:///a\u202eb\nc", name="n\x1b[1m")
    blob = EmbeddedResource(resource=BlobResourceContents(uri="file:///..%2F..%2Fetc%2Fpasswd", blob=PIXEL))

    first, second = done_from_result(result(link, blob)).content

    assert first == Resource("file:///ab c", "n")
    assert "/" not in second.filename
    assert not second.filename.startswith(".")


# --- errors


def test_an_error_keeps_its_own_message():
    with pytest.raises(ToolError, match=r"^No such branch: x$") as error:
        done_from_result(result(text("No such branch: x"), is_error=True))

    assert (error.value.code, error.value.executed) == ("failed", True)
    assert error.value.data == {"content": [{"type": "text", "text": "No such branch: x"}]}


def test_an_error_without_a_message_gets_one():
    for blocks in ([], [text("")], [text(" \n ")]):
        with pytest.raises(ToolError, match=r"^The MCP tool returned an error$"):
            done_from_result(result(*blocks, is_error=True))


def test_an_error_is_not_validated_and_keeps_its_structured_content():
    check = build_output_validator({"type": "object", "required": ["a"]})

    with pytest.raises(ToolError, match="bad") as error:
        done_from_result(result(text("bad"), is_error=True, structured_content={"code": 7}), check)

    assert error.value.data["structuredContent"] == {"code": 7}


def test_the_payload_of_a_large_error_is_not_kept():
    with pytest.raises(ToolError) as error:
        done_from_result(result(text("x" * 1_000_000), is_error=True))

    assert error.value.data is None


# --- output schemas


def test_without_an_output_schema_nothing_is_validated():
    assert build_output_validator(None) is None
    assert build_output_validator([]) is None


def test_a_result_that_breaks_the_output_schema_is_an_error_with_its_path():
    check = build_output_validator(
        {"type": "object", "properties": {"rows": {"items": {"properties": {"id": {"type": "integer"}}}}}}
    )
    long = "x" * 100_000

    with pytest.raises(ToolError, match=r"output schema: `rows\.1\.id`: .*integer") as error:
        done_from_result(result(structured_content={"rows": [{"id": 1}, {"id": f"{long}\n\u202e"}]}), check)

    assert error.value.code == "failed"
    assert error.value.executed
    assert len(str(error.value)) < 500
    assert str(error.value).isprintable()


def test_declared_structured_content_must_be_present():
    check = build_output_validator({"type": "object"})

    with pytest.raises(ToolError, match="no structured content"):
        done_from_result(result(text("hello")), check)
    assert done_from_result(result(text("hello"), structured_content={}), check).data == {}


def test_an_output_schema_may_have_any_type_and_refer_to_itself():
    assert build_output_validator({"type": "array", "items": {"type": "integer"}})([1, "x"]).startswith("`1`: ")
    check = build_output_validator({"type": "object", "properties": {"next": {"$ref": "#"}}})
    assert check({"next": {"next": {}}}) is None
    assert check({"next": {"next": 1}}).startswith("`next.next`: ")


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "strng"},
        {"$ref": "https://evil.example/x"},
        {"pattern": "(?=a)"},
        {"description": "x" * 300_000},
        {"properties": {"a": {"$ref": "#/nowhere"}}},
    ],
)
def test_an_unusable_output_schema_validates_nothing_with_a_warning(schema, caplog):
    assert build_output_validator(schema, where="git: log") is None
    assert "git: log: its output schema" in caplog.text


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        (lambda: {"items": {"allOf": [{"type": "integer"}] * 10_000}}, lambda: [0] * 300_000),
        (lambda: {"items": {"enum": [{"a": n} for n in range(10_000)]}}, lambda: [{"a": 9_999}] * 50_000),
        (lambda: {"allOf": [{"pattern": f"[ab]*a[ab]{{400}}c{n}"} for n in range(50)]}, lambda: "ab" * 1_000_000),
        (
            lambda: {"patternProperties": {f"^x{n}[a-z]+$": {} for n in range(500)}},
            lambda: {f"v{n}": 1 for n in range(100_000)},
        ),
        (lambda: {"uniqueItems": True}, lambda: [[n] for n in range(200_000)]),
    ],
)
def test_a_server_cannot_make_the_validation_of_its_result_take_long(schema, value):
    check, large = (
        build_output_validator(schema()),
        value(),
    )  # not made before, by every process that only collects the tests
    started = time.process_time()

    check(large)

    assert time.process_time() - started < 2


BLOCKS = st.dictionaries(
    st.sampled_from(["type", "text", "data", "mimeType", "resource", "uri", "blob", "name", "annotations", "_meta"]),
    st.sampled_from(["text", "image", "audio", "resource", "resource_link"])
    | st.text(max_size=20)
    | st.none()
    | st.integers()
    | st.dictionaries(st.sampled_from(["uri", "text", "blob", "mimeType"]), st.text(max_size=20) | st.none()),
)


@given(st.lists(BLOCKS, max_size=4), st.none() | st.integers() | st.text() | st.dictionaries(st.text(), st.text()))
@settings(deadline=None)
def test_any_result_becomes_an_outcome_that_can_be_serialised(blocks, structured):
    fields = {} if structured is None else {"structuredContent": structured}

    done = done_from_result(wire(*blocks, **fields))

    to_json([done.data, dict(done.metadata)])
    done.text.encode()
    assert not set(done.text) & set("\x00\x1b\u202e")
