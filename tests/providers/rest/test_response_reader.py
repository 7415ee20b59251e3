"""Responses become data, text, attachments, progress or errors."""

import asyncio
import json
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from surehand.core.content import Audio, File, Image
from surehand.core.errors import DefinitionError, ToolError
from surehand.providers.rest.fields import FieldMask, PickPath
from surehand.providers.rest.response_reader import ResponseReader
from surehand.providers.rest.streams import EventStreamFormat, JsonStreamFormat, NdjsonFormat
from tests.http.server import chunked, reply
from tests.providers.rest.sending import exchanging


async def read(answer, reader=None, progress=None):
    async with exchanging(answer if callable(answer) else lambda asked: answer) as exchange:
        if progress is not None:
            exchange.progress = progress
        return await exchange.send(reader=reader)


async def failure(answer, reader=None):
    with pytest.raises(ToolError) as failed:
        await read(answer, reader)
    return failed.value


@pytest.mark.parametrize(
    ("body", "content_type", "data"),
    [
        ('{"a": [1, 2.5, null, true]}', "application/json", {"a": [1, 2.5, None, True]}),
        ('{"a": 1}', "application/vnd.api+json; charset=utf-8", {"a": 1}),
        ('[{"a": 1}]', "text/json", [{"a": 1}]),
        ('{"a": 1}', "application/x-json", {"a": 1}),
        ('{"a": 1}', "application/vnd.github.v3.raw+json", {"a": 1}),
        ('"text"', "application/json", "text"),
        ("123456789012345678901234567890", "application/json", 123456789012345678901234567890),
        ('{"a": 1}', None, {"a": 1}),
        ("plain", None, "plain"),
        ('{"a": 1}', "text/plain", '{"a": 1}'),
        ("{broken", "application/json", "{broken"),
        ("<a>ö</a>", "application/xml", "<a>ö</a>"),
        ("", "application/json", None),
    ],
)
async def test_json_and_text_are_the_data(body, content_type, data):
    done = await read(reply(body, content_type=content_type))

    assert done.data == data


async def test_text_is_decoded_by_its_charset():
    done = await read(reply("Köln".encode("latin-1"), content_type="text/plain; charset=iso-8859-1"))

    assert done.data == "Köln"


async def test_a_model_sees_no_hidden_characters():
    as_text = await read(reply("a\x1b[31mb\u202ec", content_type="text/plain"))
    as_json = await read(reply('{"a": "b\u202ec"}', content_type="application/json"))

    assert as_text.text == "abc"
    assert as_json.text == '{"a":"bc"}'
    assert as_json.data == {"a": "b\u202ec"}


async def test_no_content_is_no_data():
    done = await read(b"HTTP/1.1 204 No Content\r\n\r\n")

    assert (done.data, done.text) == (None, "HTTP 204 No Content")


async def test_the_answer_to_a_head_request_is_its_headers():
    async with exchanging(lambda asked: reply(b"", etag='"7"', set_cookie="sid=1", content_length=0)) as exchange:
        done = await exchange.send(method="HEAD")

    assert done.data == {"status": 200, "headers": {"etag": '"7"', "content-length": "0"}}


async def test_a_large_answer_is_read_like_a_small_one():
    large = [{"n": number, "text": "x" * 100} for number in range(5_000)]

    done = await read(reply(json.dumps(large), content_type="application/json"))

    assert done.data == large


@pytest.mark.parametrize(
    ("content_type", "disposition", "block"),
    [
        ("image/png", None, Image("AP8B", "image/png")),
        ("audio/mpeg", None, Audio("AP8B", "audio/mpeg")),
        ("application/pdf", 'attachment; filename="../../a b.pdf"', File("AP8B", "application/pdf", "a b.pdf")),
        ("application/octet-stream", "attachment; filename*=UTF-8''%C3%B6.bin", None),
        (None, None, File("AP8B", "application/octet-stream", "")),
    ],
)
async def test_other_content_is_an_attachment(content_type, disposition, block):
    done = await read(reply(b"\x00\xff\x01", content_type=content_type, content_disposition=disposition))

    expected = block or File("AP8B", "application/octet-stream", "ö.bin")
    assert done.attachments == (expected,)
    assert done.data["bytes"] == 3


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (400, "failed"),
        (401, "denied"),
        (403, "denied"),
        (404, "not_found"),
        (408, "timed_out"),
        (409, "failed"),
        (429, "rate_limited"),
        (500, "unavailable"),
        (503, "unavailable"),
        (504, "timed_out"),
    ],
)
async def test_an_error_status_has_its_failure_code(status, code):
    error = await failure(reply("because", status, "Reason", content_type="text/plain"))

    assert error.code == code
    assert str(error) == f"HTTP {status} Reason: because"
    assert error.data == {"status": status, "reason": "Reason", "body": "because"}


@pytest.mark.parametrize(
    ("body", "content_type", "useful"),
    [
        ('{"error": {"code": 7, "message": "no such city"}}', "application/json", "no such city"),
        ('{"error": "invalid", "error_description": "scope is wrong"}', "application/json", "scope is wrong"),
        ('{"title": "Bad", "detail": "age must be > 0"}', "application/problem+json", "age must be > 0"),
        ('{"errors": [{"field": "age"}]}', "application/json", '[{"field":"age"}]'),
        ('{"weird": 1}', "application/json", '{"weird":1}'),
        ("<html><head><title>Not &amp; found</title></head><body>long</body></html>", "text/html", "Not & found"),
        ("<p>Some</p> <b>words</b><script>x</script>", "text/html", "Some words"),
        (b"\x00\x01", "image/png", ""),
    ],
)
async def test_an_error_tells_the_useful_part_of_its_body(body, content_type, useful):
    error = await failure(reply(body, 400, "Bad Request", content_type=content_type))

    assert str(error) == f"HTTP 400 Bad Request: {useful}".removesuffix(": ")


async def test_a_long_error_is_cut():
    error = await failure(reply("x" * 200_000, 500, "Oops", content_type="text/plain"))

    assert len(str(error)) < 700


async def test_retry_after_is_read_as_seconds_or_as_a_date():
    soon = format_datetime(datetime.now(UTC) + timedelta(seconds=100), usegmt=True)

    seconds = await failure(reply("", 429, "Slow", retry_after="7"))
    date = await failure(reply("", 503, "Slow", retry_after=soon))
    nonsense = await failure(reply("", 503, "Slow", retry_after="soon"))

    assert seconds.retry_after == 7
    assert 0 < date.retry_after <= 100
    assert nonsense.retry_after is None


PEOPLE = '{"data": {"people": [{"name": "Ada", "ssn": "1"}, {"name": "Bob", "ssn": "2"}], "SSN": "3"}}'


@pytest.mark.parametrize(
    ("pick", "data"),
    [
        ("data.people[1].name", "Bob"),
        ("data.people.0.name", "Ada"),
        ("data.people.*.name", ["Ada", "Bob"]),
        ("data.people[].name", ["Ada", "Bob"]),
        ("data['people'][0]", {"name": "Ada", "ssn": "1"}),
    ],
)
async def test_pick_takes_a_part_of_the_answer(pick, data):
    done = await read(reply(PEOPLE, content_type="application/json"), ResponseReader(PickPath.parse(pick)))

    assert done.data == data


async def test_a_pick_that_finds_nothing_says_what_is_there():
    error = await failure(reply(PEOPLE, content_type="application/json"), ResponseReader(PickPath.parse("data.users")))

    assert str(error) == "The answer has no data.users: data is an object with people, SSN."


@pytest.mark.parametrize("text", ["", "a..b", "a[", "a[x]", ".a.", "a b"])
def test_a_wrong_path_is_a_definition_error(text):
    with pytest.raises(DefinitionError):
        PickPath.parse(text)


@pytest.mark.parametrize(
    ("fields", "masked"),
    [
        ("ssn", ["1", "2", "3"]),
        (["data.people.*.ssn"], ["1", "2"]),
        (["data.people.ssn"], ["1", "2"]),
        (["data.people[1].ssn"], ["2"]),
    ],
)
async def test_masked_fields_do_not_reach_the_model(fields, masked):
    done = await read(reply(PEOPLE, content_type="application/json"), ResponseReader(mask=FieldMask.parse(fields)))

    assert [number for number in "123" if f'"{number}"' not in done.text] == masked
    assert "Ada" in done.text


async def test_lines_of_json_are_progress_and_together_the_result():
    progress = []
    answer = chunked(b'{"text": "on', b'e"}\n\n{"n"', b": 2}\r\n3", content_type="application/x-ndjson")

    done = await read(answer, progress=progress)

    assert done.data == [{"text": "one"}, {"n": 2}, 3]
    assert progress == [{"message": "one", "text": "one"}, {"n": 2}, {"item": 3}]


async def test_lines_may_arrive_byte_by_byte():
    pieces = [bytes([byte]) for byte in b'{"n": 1}\r\n\n[2]\n"three"']
    done = await read(chunked(*pieces, content_type="application/x-ndjson"))

    assert done.data == [{"n": 1}, [2], "three"]


async def test_the_last_item_can_be_the_result():
    answer = chunked(b'{"n": 1}\n{"n": 2}\n', content_type="application/x-ndjson")

    assert (await read(answer, ResponseReader(stream=NdjsonFormat("last")))).data == {"n": 2}


async def test_events_are_progress_and_together_the_result():
    progress = []
    body = b': hi\n\ndata: {"n": 1}\n\nevent: note\ndata: some\ndata: words\n\nid: 7\n\ndata: [DONE]\n\ndata: late\n\n'

    done = await read(chunked(body, content_type="text/event-stream"), progress=progress)

    assert done.data == [{"n": 1}, {"event": "note", "data": "some\nwords"}]
    assert progress == done.data


async def test_the_json_stream_mode_gives_the_answer():
    progress = []
    lines = (
        b'data: {"type": "token", "content": "Hel"}\n',
        b'data: {"type": "token", "content": "lo"}\nnoise\n\ndata: [DONE]\n',
        b'data: {"type": "done", "answer": "Hello!"}\ndata: {"type": "token", "content": "late"}\n',
    )
    answer = chunked(*lines, content_type="text/event-stream")

    done = await read(answer, ResponseReader(stream=JsonStreamFormat(line_prefix="data: ")), progress)

    assert done.data == "Hello!"
    assert progress == [{"message": "Hel"}, {"message": "lo"}]


async def test_a_json_stream_without_an_end_gives_its_tokens():
    answer = chunked(b'{"type":"token","content":"a"}\n{"type":"token","content":"b"}', content_type="text/plain")

    assert (await read(answer, ResponseReader(stream=JsonStreamFormat()))).data == "ab"


@pytest.mark.parametrize("stream", [JsonStreamFormat(), NdjsonFormat("last"), EventStreamFormat("last")])
async def test_a_stream_of_very_many_small_items_is_too_large(stream, monkeypatch):
    monkeypatch.setattr("surehand.providers.rest.streams.MAX_REPORTED_ITEMS", 100)
    line = b"data: {}\n\n" if isinstance(stream, EventStreamFormat) else b"{}\n"
    reader = ResponseReader(stream=stream)

    assert await read(chunked(line * 100, content_type="text/plain"), reader)
    error = await failure(chunked(line * 101, content_type="text/plain"), reader)

    assert error.code == "too_large"
    assert "more than 100 items" in str(error)


async def test_an_error_status_of_a_stream_is_an_error():
    error = await failure(reply("busy", 503, "Busy", content_type="text/event-stream"))

    assert error.code == "unavailable"


async def test_a_stream_that_breaks_off_is_unavailable():
    async def answer(asked):
        yield chunked(b'{"n": 1}\n', content_type="application/x-ndjson").removesuffix(b"0\r\n\r\n")
        yield None

    error = await failure(answer)

    assert error.code == "unavailable"


async def test_a_line_that_is_no_json_is_unavailable():
    error = await failure(chunked(b'{"n": 1}\n{"n', content_type="application/x-ndjson"))

    assert error.code == "unavailable"


@pytest.mark.parametrize("content_type", ["application/x-ndjson", "text/event-stream"])
async def test_a_line_without_end_is_too_large(content_type):
    async def answer(asked):
        yield chunked(content_type=content_type).removesuffix(b"0\r\n\r\n")
        while True:
            yield b"10000\r\n" + b"x" * 65536 + b"\r\n"

    error = await failure(answer)

    assert error.code in ("too_large", "failed")


async def test_a_stream_without_end_is_too_large():
    async def answer(asked):
        yield chunked(content_type="application/x-ndjson").removesuffix(b"0\r\n\r\n")
        line = b'"' + b"x" * 1000 + b'"\n'
        while True:
            yield b"%x\r\n%b\r\n" % (len(line) * 60, line * 60)

    error = await failure(answer)

    assert error.code == "too_large"


async def test_items_arrive_while_the_stream_goes_on():
    go_on = asyncio.Event()
    progress = []

    async def answer(asked):
        yield chunked(b'{"n": 1}\n', content_type="application/x-ndjson").removesuffix(b"0\r\n\r\n")
        await go_on.wait()
        yield b"0\r\n\r\n"

    class Report(list):
        def append(self, item):
            super().append(item)
            go_on.set()

    progress = Report()
    done = await read(answer, ResponseReader(stream=NdjsonFormat()), progress)

    assert done.data == progress == [{"n": 1}]


async def test_the_stream_format_can_be_given_where_the_content_type_says_nothing():
    done = await read(
        chunked(b"data: 1\n\n", content_type="text/plain"), ResponseReader(stream=EventStreamFormat("last"))
    )

    assert done.data == 1


@pytest.mark.parametrize("page", ["<" * 60_000, "<script " * 7_000, "<script>" * 7_000, "<style>a</sty" * 5_000])
@pytest.mark.timeout(10)  # a pattern that looks to the end of the page from each `<` takes longer
async def test_a_hostile_error_page_is_read_in_linear_time(page):
    error = await failure(reply(page + "the end", 400, "Bad Request", content_type="text/html"))

    assert str(error).startswith("HTTP 400 Bad Request")
