"""The tools that parse and write JSON and base64."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from surehand import Runtime
from surehand.builtin.data import data, parse_json_text, to_json_text

pytestmark = pytest.mark.timeout(30)  # some of these have much to do, and a busy machine takes its time

TOOLS = {tool.name: tool for tool in data()}


async def run(name: str, **arguments: Any) -> Any:
    return await TOOLS[name].run(arguments)


async def test_json_text_becomes_data_and_comes_back_as_text():
    async with Runtime(data()) as runtime:
        parsed = await runtime.call("json_parse", {"text": '{"b": [1, 2.5, null], "a": "Grüße"}'})
        compact = await runtime.call("json_stringify", {"data": parsed.data["data"]})
        pretty = await runtime.call("json_stringify", {"data": {"a": 1}, "pretty": True})

    assert parsed.data == {"data": {"b": [1, 2.5, None], "a": "Grüße"}}
    assert compact.data == {"text": '{"b":[1,2.5,null],"a":"Grüße"}'}
    assert pretty.data == {"text": '{\n  "a": 1\n}'}


async def test_large_integers_are_kept_to_the_last_digit():
    outcome = await run("json_parse", text="[9007199254740993, 123456789012345678901234567890]")

    assert outcome.data["data"] == [9007199254740993, 123456789012345678901234567890]
    assert "123456789012345678901234567890" in outcome.text


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('{"a": 1 "b": 2}', 'line 1 column 9, near \'{"a": 1 "b": 2}\''),
        ('{\n  "a": tru\n}', "near '{\\n  \"a\": tru\\n}'"),
        ("", "EOF while parsing a value"),
        ("[NaN]", "expected value at line 1 column 2"),
        ("[-Infinity]", "line 1 column"),
        ("[1e999]", "inf is not a number that JSON can hold"),
        ('{"a": 1, "a": 2}', "The key 'a' is given twice"),
        ('{"a": {"b": 1, "b": 1}}', "The key 'b' is given twice"),
        ('"\\ud800"', "line 1 column"),
        ("[" * 100_000, "nested deeper than 200 levels"),
        ('{"a":' * 100_000, "nested deeper than 200 levels"),
        ("[" + "9" * 5_000 + "]", "number out of range"),
        ("\ufeff{}", "expected value at line 1 column 1"),
        ("{} {}", "trailing characters"),
        ("[1,]", "line 1 column 4"),
        ("{'a': 1}", "line 1 column 2"),
        ("[01]", "line 1 column 3"),
        ("[1] // no", "trailing characters"),
    ],
)
async def test_text_that_is_not_strict_json_is_refused_with_its_position(text, told):
    outcome = await run("json_parse", text=text)

    assert outcome.code == "invalid_arguments"
    assert told in outcome.message
    assert len(outcome.message) < 400


async def test_an_error_in_a_line_with_multibyte_characters_quotes_text():
    outcome = await run("json_parse", text='{"' + "ü" * 100 + '": tru, "more": "' + "ß" * 100 + '"}')

    assert "tru" in outcome.message
    assert "\ufffd" not in outcome.message


@pytest.mark.parametrize("part", ["[],", "{},", '"",', "0,", '{"a":0},'])
async def test_json_with_too_many_values_is_refused_before_parsing(part):
    outcome = await run("json_parse", text="[" + part * (999_000 // len(part)) + "0]")

    assert outcome.code == "too_large"


BOMBS = """
import asyncio, resource, sys
from surehand.builtin.data import data
from surehand.builtin.data import parse_json_text as parsed, to_json_text as written
parse = data()[0]
asyncio.run(parse.run({"text": "[1]"}))
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
bombs = ["[" * 999_000, '{"a":' * 190_000, "[" + "[]," * 330_000 + "0]", "[" + "{}," * 330_000 + "0]",
         "[" + "9" * 900_000 + "]", "[" + '"",' * 330_000 + "0]", '{"a":{' * 160_000, "[" + "[" * 150 + "]" * 150 + "]"]
for bomb in bombs:
    asyncio.run(parse.run({"text": bomb}))
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@pytest.mark.timeout(30)
def test_json_bombs_take_no_memory():
    grown = subprocess.run([sys.executable, "-c", BOMBS], capture_output=True, text=True, check=True)

    assert int(grown.stdout) < 32 * 1024


async def test_text_beyond_a_million_characters_is_refused():
    for name, argument in (("json_parse", "text"), ("base64_encode", "text"), ("base64_decode", "encoded")):
        assert (await run(name, **{argument: "a" * 1_000_001})).code == "invalid_arguments"


@pytest.mark.parametrize("value", [float("nan"), [float("inf")], {"a": {1, 2}}, {"a": object()}, "\ud800"])
async def test_values_that_json_cannot_express_are_refused(value):
    assert (await run("json_stringify", data=value)).code == "invalid_arguments"


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXT,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(TEXT, inner, max_size=5),
    max_leaves=20,
)


@given(VALUES, st.booleans())
def test_written_json_parses_to_the_same_value(value, pretty):
    text = to_json_text(value, pretty=pretty)

    assert parse_json_text(text) == json.loads(text) == value


@given(TEXT)
async def test_text_survives_a_base64_round_trip(text):
    encoded = (await run("base64_encode", text=text)).data["encoded"]

    assert encoded == base64.b64encode(text.encode()).decode()
    assert (await run("base64_decode", encoded=encoded)).data["decoded"] == text


@pytest.mark.parametrize("encoded", ["R3LDvMOfZQ==", "R3LDvMOfZQ", " R3LD\n vMOf\r\nZQ== ", "R3LDvMOfZQ="])
async def test_line_breaks_and_missing_padding_are_accepted(encoded):
    assert (await run("base64_decode", encoded=encoded)).data["decoded"] == "Grüße"


async def test_the_url_safe_alphabet_is_accepted():
    assert (await run("base64_decode", encoded="Pz8_")).data["decoded"] == "???"
    assert (await run("base64_decode", encoded="Pz8/")).data["decoded"] == "???"
    assert "mixes" in (await run("base64_decode", encoded="Pz8_Pz8/")).message


@pytest.mark.parametrize(
    ("encoded", "told"),
    [
        ("R3L!vMOf", "'!' at position 3"),
        ("R3L=vMOf", "'=' at position 3"),
        ("A", "1 letters cannot be whole"),
        ("AAAA====", "cannot be whole"),
        ("Grüße", "'ü' at position 2"),
    ],
)
async def test_text_that_is_not_base64_is_refused_with_its_position(encoded, told):
    outcome = await run("base64_decode", encoded=encoded)

    assert outcome.code == "invalid_arguments"
    assert told in outcome.message


async def test_an_error_for_binary_data_quotes_its_first_bytes():
    outcome = await run("base64_decode", encoded=base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(100)).decode())

    assert outcome.code == "invalid_arguments"
    assert "108 decoded bytes are no UTF-8 text" in outcome.message
    assert "89 50 4e 47" in outcome.message
