"""The result of an outcome."""

import math
from base64 import b64decode, b64encode
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pytest
from mcp import MCPError
from pydantic import BaseModel, model_serializer

from surehand import (
    Audio,
    Denied,
    Done,
    File,
    Image,
    InvalidArguments,
    Json,
    RateLimited,
    Resource,
    Runtime,
    Text,
    TimedOut,
    ToolError,
    gateway,
    tool,
)
from tests.gateway.mcp.sdk_clients import ERAS, HANDSHAKE, MODERN, sdk_client

eras = pytest.mark.parametrize("era", ERAS)
PICTURE = b64encode(b"\x89PNG").decode()


class Point(BaseModel):
    x: int
    y: float = 0.5


@dataclass
class Pair:
    left: int
    right: str


async def given(value: Any, era: str = MODERN, **facets: Any) -> Any:
    """What a client is given of a tool that returns, or raises, this."""

    @tool(**facets)
    async def give() -> Any:
        """Give it."""
        if isinstance(value, Exception):
            raise value
        return value

    async with sdk_client(Runtime(give), era) as client:
        return await client.call_tool("give")


@eras
async def test_an_object_is_given_as_text_and_as_structure(era):
    result = await given({"a": 1, "b": [True, None]}, era)

    assert not result.is_error
    assert result.structured_content == {"a": 1, "b": [True, None]}
    assert [block.text for block in result.content] == ['{"a":1,"b":[true,null]}']


@eras
@pytest.mark.parametrize("value", [3, 2.5, True, [1, 2], []])
async def test_data_that_is_not_an_object_is_wrapped_in_one(era, value):
    assert (await given(value, era)).structured_content == {"result": value}


@eras
async def test_a_text_is_only_a_text(era):
    result = await given("hello", era)

    assert result.content[0].text == "hello"
    assert result.structured_content is None


@pytest.mark.parametrize("value", [None, ""])
async def test_a_result_of_none_is_a_text(value):
    result = await given(value)

    assert [block.text for block in result.content] == ["(no output)"]
    assert result.structured_content is None


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (Point(x=1), {"x": 1, "y": 0.5}),
        (Pair(1, "r"), {"left": 1, "right": "r"}),
        ({"at": datetime(2026, 7, 28, tzinfo=UTC)}, {"at": "2026-07-28T00:00:00Z"}),
        ({"raw": b"\x00\xff"}, {"raw": "AP8="}),
        ({"nan": math.nan, "low": -math.inf}, {"nan": "NaN", "low": "-Infinity"}),
        ({1: 2}, {"1": 2}),
        ({"big": 2**70}, {"big": 2**70}),
        ({1, 2}, {"result": [1, 2]}),
    ],
)
@eras
async def test_values_that_json_does_not_know_are_written_as_the_text_shows_them(era, value, told):
    assert (await given(value, era)).structured_content == told


async def test_a_number_of_thousands_of_digits_is_shown_as_text_alone():
    result = await given({"huge": 10**4_400})

    assert not result.is_error
    assert result.structured_content is None


@eras
async def test_every_block_type_has_a_wire_form(era):
    blocks = [
        Text("one"),
        Json({"two": 2}),
        Image(PICTURE, "image/png"),
        Audio(PICTURE, "audio/wav"),
        File(PICTURE, "application/pdf", "a.pdf"),
        Resource("note://1", "first", "text/plain", "inside"),
        Resource("note://2", "second"),
        Image(url="https://example.com/pictures/cat.png"),
        File(url="https://example.com/b.zip", mime_type="application/zip", filename="b.zip"),
    ]
    one, two, picture, sound, file, inside, link, remote, archive = (await given(Done(content=blocks), era)).content

    assert (one.text, two.text) == ("one", '{"two":2}')
    assert (picture.type, picture.mime_type, b64decode(picture.data)) == ("image", "image/png", b"\x89PNG")
    assert (sound.type, sound.mime_type) == ("audio", "audio/wav")
    assert (file.resource.uri, file.resource.mime_type, file.resource.blob) == (
        "file:///a.pdf", "application/pdf", PICTURE,
    )  # fmt: skip
    assert (inside.type, inside.resource.uri, inside.resource.text) == ("resource", "note://1", "inside")
    assert (link.type, link.uri, link.name, link.mime_type) == ("resource_link", "note://2", "second", None)
    assert (remote.type, remote.uri, remote.name) == ("resource_link", blocks[-2].url, "cat.png")
    assert (archive.name, archive.mime_type) == ("b.zip", "application/zip")


@eras
async def test_attachments_follow_the_content(era):
    outcome = Done({"rows": 3}, content=[Text("three rows")], attachments=[Image(PICTURE), Text("and more")])
    result = await given(outcome, era)

    assert [block.type for block in result.content] == ["text", "image", "text"]
    assert result.structured_content == {"rows": 3}


async def test_a_list_beside_content_of_its_own_is_not_given_twice():
    result = await given(Done([1, 2, 3], content=[Text("three numbers")]))

    assert [block.text for block in result.content] == ["three numbers"]
    assert result.structured_content is None


@eras
@pytest.mark.parametrize("where", ["text", "link", "inside", "meta"])
async def test_a_lone_surrogate_does_not_end_the_connection(era, where):
    half = "\ud83d"
    made = {
        "text": half,
        "link": Done(content=[Resource(f"note://{half}", half)]),
        "inside": Done(content=[Resource("note://1", text=half)]),
        "meta": Done("x", metadata={"_meta": {half: [half]}}),
    }
    result = await given(made[where], era)

    assert "?" in result.model_dump_json()


async def test_metadata_of_a_servers_result_is_passed_on():
    beside = {"_meta": {"cost": 3}, "blocks": {"0": {"annotations": {"audience": ["user"]}, "secret": 1}}}
    result = await given(Done("x", content=[Text("x")], metadata=beside))

    assert result.meta["cost"] == 3
    assert result.content[0].annotations.audience == ["user"]
    assert "secret" not in result.model_dump_json()


@eras
@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ToolError("No such word."), "failed"),
        (Denied("Not for you."), "denied"),
        (TimedOut("Too late."), "timed_out"),
        (InvalidArguments("Not so."), "invalid_arguments"),
        (ToolError("Too much.", code="too_large"), "too_large"),
    ],
)
async def test_a_failure_is_a_result_with_its_code(era, error, code):
    result = await given(error, era)

    assert result.is_error
    assert result.content[0].text == str(error)
    assert result.meta["surehand/code"] == code
    assert result.structured_content is None


async def test_retry_after_is_in_the_metadata():
    result = await given(RateLimited("Too often.", retry_after=2.5))

    assert (result.meta["surehand/code"], result.meta["surehand/retryAfter"]) == ("rate_limited", 2.5)


@eras
async def test_of_an_unexpected_exception_the_client_gets_only_the_type(era, caplog):
    result = await given(ZeroDivisionError("by /home/ada/secret.py\nTraceback: more"), era)

    assert (result.is_error, result.meta["surehand/code"]) == (True, "crashed")
    assert result.content[0].text == "give crashed with ZeroDivisionError. Its details are in the server's log."
    assert "/home/ada/secret.py" in caplog.text


async def test_without_crash_details_the_message_of_a_crash_is_already_short(caplog):
    @tool
    async def give() -> str:
        """Give it."""
        raise ZeroDivisionError("by /home/ada")

    async with sdk_client(Runtime(give, crash_details=False)) as client:
        result = await client.call_tool("give")

    assert result.content[0].text.startswith("give crashed with ZeroDivisionError. Try other")


async def test_an_error_while_serializing_a_result_reveals_no_details(caplog):
    class Odd(BaseModel):
        x: int = 1

        @model_serializer
        def written(self) -> Any:
            raise ValueError("in /home/ada")

    result = await given(Odd())

    assert result.is_error
    assert "/home/ada" not in result.model_dump_json()


async def test_on_any_transport_the_text_of_an_exception_is_not_sent(monkeypatch, caplog):
    async def broken(*_: Any) -> Any:
        raise RuntimeError("in /home/ada")

    monkeypatch.setattr("surehand.gateway.mcp.resources.ResourceHandlers.list_resources", broken)
    server = gateway.mcp.server(Runtime())
    async with sdk_client(server) as client:
        with pytest.raises(MCPError) as refused:
            await client.list_resources()

    assert (refused.value.code, refused.value.message) == (-32603, "Internal server error")


@eras
@pytest.mark.parametrize("kind", ["surehand/code", "Surehand/callId", "io.modelcontextprotocol/related-task"])
async def test_reserved_metadata_keys_of_others_are_removed(era, kind):
    beside = {"_meta": {kind: "forged", "own": 1}, "blocks": {"0": {"_meta": {kind: "forged", "own": 2}}}}
    result = await given(Done("x", content=[Text("x")], metadata=beside), era)

    assert "forged" not in result.model_dump_json()
    assert (result.meta["own"], result.content[0].meta) == (1, {"own": 2})


@pytest.mark.parametrize(
    "uri",
    [
        "javascript:alert(1)",
        " JavaScript:alert(1)",
        "java\nscript:alert(1)",
        "vbscript:x",
        "data:text/html,x",
        "blob:x",
        " " * 2_001 + "javascript:alert(1)",
        "\x01" * 2_001 + "javascript:alert(1)",
    ],
    ids=range(8),
)
async def test_a_link_that_a_client_might_execute_becomes_text(uri):
    result = await given(Done(content=[Resource(uri, "a"), Resource(uri, text="inside"), File(url=uri)]))

    assert [block.type for block in result.content] == ["text"] * 3
    assert result.content[1].text == "inside"


@pytest.mark.parametrize("uri", ["https://example.com/a", "file:///a.txt", "ui://form", "note://1", "urn:isbn:1"])
async def test_any_other_address_is_a_link(uri):
    result = await given(Done(content=[Resource(uri, "a")]))

    assert (result.content[0].type, result.content[0].uri) == ("resource_link", uri)


async def test_a_picture_whose_address_is_its_data_is_a_picture():
    result = await given(Done(content=[Image(url=f"data:image/webp;base64,{PICTURE}")]))

    assert (result.content[0].type, result.content[0].mime_type) == ("image", "image/webp")
    assert result.content[0].data == PICTURE


async def test_a_file_is_addressed_by_its_name_whatever_it_is():
    result = await given(Done(content=[File(PICTURE, filename=name) for name in ("a b#c.pdf", "\ud83d", "")]))

    assert [block.resource.uri for block in result.content] == [
        "file:///a%20b%23c.pdf", "file:///%3F", "file:///output",
    ]  # fmt: skip


async def test_an_empty_block_becomes_text():
    result = await given(Done(content=[Image(), Audio(), File()]))

    assert [block.type for block in result.content] == ["text"] * 3


SOUND, LINK = "[audio: audio/wav, 4 bytes]", "[resource: note://1]"


@pytest.mark.parametrize(
    ("protocol", "told"),
    [
        ("2024-11-05", ["x", "image", SOUND, LINK]),
        ("2025-03-26", ["x", "image", "audio", LINK]),
        ("2025-06-18", ["x", "image", "audio", "resource_link"]),
        ("2025-11-25", ["x", "image", "audio", "resource_link"]),
    ],
)
async def test_a_client_of_an_old_protocol_is_given_no_block_that_it_does_not_know(protocol, told, monkeypatch):
    monkeypatch.setattr("mcp.client.session.LATEST_HANDSHAKE_VERSION", protocol)
    blocks = [Text("x"), Image(PICTURE), Audio(PICTURE), Resource("note://1")]
    result = await given(Done(content=blocks), HANDSHAKE)

    assert [block.text if block.type == "text" else block.type for block in result.content] == told


async def test_a_client_of_an_old_protocol_gets_the_uri_of_a_shortened_result(monkeypatch):
    monkeypatch.setattr("mcp.client.session.LATEST_HANDSHAKE_VERSION", "2025-03-26")
    result = await given("x" * 2_000, HANDSHAKE, max_bytes=1_000)

    assert result.content[1].text.startswith("[resource: surehand://outputs/")


async def test_plain_blocks_and_attachments_reach_a_client_once():
    @tool
    async def draw() -> Any:
        """Draw."""
        video = {"type": "video", "source": {"data": "A" * 900}}
        return [{"type": "text", "text": "4"}, video, {"type": "image", "data": "aGk=", "mimeType": "image/gif"}]

    @tool
    async def attach() -> Done:
        """Attach."""
        return Done("a desk", attachments=[Image("aGk=", "image/gif")])

    async with sdk_client(Runtime(draw, attach)) as client:
        drawn = (await client.call_tool("draw")).content
        attached = (await client.call_tool("attach")).content

    assert [block.type for block in drawn] == ["text", "text", "image"]
    assert drawn[1].text == '{"type":"video","source":{"data":"[900 characters]"}}'
    assert [block.type for block in attached] == ["text", "image"]
