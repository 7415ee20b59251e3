"""The stage `validate`: invalid arguments are rejected, and repaired only if they can mean one thing."""

import asyncio
import json
import logging
from time import process_time
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from surehand import Done, Failed, Outcome, Pending, Runtime, tool

pytestmark = pytest.mark.timeout(30)  # some of these have much to do, and a busy machine takes its time


class Item(BaseModel):
    name: str
    tags: list[str] = []


@tool
async def add(a: int, b: int = 0) -> int:
    """Add two numbers."""
    return a + b


@tool
async def say(text: str, times: int = 1, loud: bool | None = None) -> Any:
    """Give back what came in."""
    return {"text": text, "times": times, "loud": loud}


@tool
async def anything(value: Any = None, more: Any = None) -> Any:
    """Give back what came in."""
    return {"value": value, "more": more}


@tool
async def number(x: float) -> Any:
    """Give back what came in."""
    return x


@tool
async def order(items: list[Item], note: str = "") -> Any:
    """Give back what came in."""
    return {"items": [item.model_dump() for item in items], "note": note}


raw = tool(
    name="raw",
    description="Give back what came in.",
    parameters={"type": "object", "properties": {"a": {"type": "string"}, "n": {"type": "integer"}}, "required": ["a"]},
)


@raw
async def raw_tool(arguments):
    return dict(arguments)


TOOLS = (add, say, anything, number, order, raw_tool)


@pytest.fixture(autouse=True)
def quiet(caplog):
    caplog.set_level(logging.CRITICAL, "surehand")


async def called(name: str, arguments: Any) -> Outcome:
    async with Runtime(*TOOLS) as runtime:
        outcome = await runtime.call(name, arguments)
    assert isinstance(outcome, (Done, Failed, Pending))
    assert outcome.meta.characters_in >= 0
    assert isinstance(outcome.text, str)
    return outcome


async def refused(name: str, arguments: Any, code: str = "invalid_arguments") -> Failed:
    outcome = await called(name, arguments)
    assert isinstance(outcome, Failed), outcome
    assert (outcome.code, outcome.executed) == (code, False), outcome
    assert len(outcome.message) < 5_000
    return outcome


# Nothing, and things that are no object


@pytest.mark.parametrize("nothing", [None, "", "  ", "\n", {}, "{}", b"", b"{}"])
async def test_nothing_means_no_arguments(nothing):
    assert (await called("anything", nothing)).data == {"value": None, "more": None}


@pytest.mark.parametrize(
    "arguments",
    [
        "null",
        "5",
        "true",
        "[]",
        '["a"]',
        '"text"',
        "[1, 2]",
        5,
        1.5,
        True,
        ["a"],
        ("a",),
        {"a"},
        object(),
        "hello",
        "{",
    ],
)
async def test_arguments_that_are_not_an_object_are_rejected(arguments):
    await refused("add", arguments)


@pytest.mark.parametrize("arguments", [{1: 2}, {None: 1}, {("a",): 1}, {b"a": 1}, {"a": 1, 2: 3}])
async def test_argument_names_that_are_not_strings_are_rejected(arguments):
    await refused("add", arguments)


@pytest.mark.parametrize(
    "arguments",
    [{"a": "one"}, {"a": None}, {"a": [1]}, {"a": 1.5}, {"a": {}}, {"b": 1}, '{"a": "1x"}', {"a": object()}],
)
async def test_wrong_types_are_refused(arguments):
    await refused("add", arguments)


async def test_an_unknown_name_is_refused_and_the_nearest_suggested():
    outcome = await refused("say", {"txet": "hi"})

    assert "`txet` is not a parameter (did you mean `text`?)" in outcome.message
    assert "`text` is required" in outcome.message


@pytest.mark.parametrize(
    "name", ["", " ", "ad", "ADD!", "x" * 1_000_000, "\x00", "\ud800", "add\n", "../add", "__class__"]
)
async def test_an_unknown_tool_is_a_failure_that_does_not_repeat_everything(name):
    outcome = await called(name, {"a": 1})

    assert outcome.code == "not_found"
    assert not outcome.executed
    assert len(outcome.message) < 500


@pytest.mark.parametrize("name", [None, 5, b"add", ("add",)])
async def test_a_tool_name_that_is_not_a_string_is_an_unknown_tool(name):
    assert (await called(name, {"a": 1})).code == "not_found"


# JSON that is not quite JSON


@pytest.mark.parametrize(
    "text",
    [
        "{'a': 1, 'b': 2}",
        '{"a": 1, "b": 2,}',
        '```json\n{"a": 1, "b": 2}\n```',
        '```\n{"a": 1, "b": 2}\n```',
        "{a: 1, b: 2}",
        '{"a": 1 /* one */, "b": 2}',
        '{"a": 1, "b": 2} // both',
        '{"a": 1 "b": 2}',
        '\ufeff{"a": 1, "b": 2}',
        '{"a": 1, "b": 2}}',
        'Here you are: {"a": 1, "b": 2}',
        b"{'a': 1, 'b': 2}",
    ],
)
async def test_malformed_json_is_repaired_or_rejected_but_never_changes_its_meaning(text):
    outcome = await called("add", text)

    assert outcome == Done(3) or outcome.code == "invalid_arguments"


@pytest.mark.parametrize(
    "text", ["{'a': 1, 'b': 2}", '{"a": 1, "b": 2,}', '```json\n{"a": 1, "b": 2}\n```', "{a: 1, b: 2}"]
)
async def test_the_usual_json_mistakes_are_repaired(text):
    assert await called("add", text) == Done(3)


@pytest.mark.parametrize(
    ("text", "loud"),
    [
        ("{'text': 'x', 'loud': True}", True),
        ("{'text': 'x', 'loud': None}", None),
        ("{'text': 'x', 'loud': False}", False),
    ],
)
async def test_python_literals_keep_their_meaning(text, loud):
    outcome = await called("say", text)

    assert outcome == Done({"text": "x", "times": 1, "loud": loud}) or outcome.code == "invalid_arguments"


@pytest.mark.parametrize(
    "text",
    [
        '{"a": 1, "a": 2}',
        '{"a": 1, "b": 2, "a": 1}',
        '{"a": 1, "\\u0061": 2}',
        "{'a': 1, 'a': 2}",
        '{"a": 1, "a": 2,}',
        "{a: 1, a: 2}",
        '```json\n{"a": 1, "a": 2}\n```',
        '{"a" : 1, "a" : 2}',
    ],
)
async def test_a_key_given_twice_is_refused(text):
    await refused("add", text)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("anything", '{"value": {"k": 1, "k": 2}}'),
        ("anything", '{"value": [{"k": 1, "k": 1}]}'),
        ("order", '{"items": [{"name": "a", "name": "b"}]}'),
        ("order", '{"items": [], "items": [{"name": "b"}]}'),
        ("order", '{"items": [{"name": "a:b", "tags": [], "name": "b"}], "note": ":"}'),
        ("raw", '{"a": "x", "a": "y"}'),
        ("raw", '{"a": "x", "z": {"b": 1, "b": 2}}'),
        ("say", '{"text": "a", "times": 1, "text": "b"}'),
    ],
)
async def test_a_key_given_twice_is_refused_at_any_depth(name, text):
    await refused(name, text)


# Numbers


@pytest.mark.parametrize("literal", ["NaN", "Infinity", "-Infinity", "1e999", "-1e999", "nan", "inf"])
@pytest.mark.parametrize("form", ['{{"value": {}}}', '{{"value": [[{{"k": {}}}]]}}', '{{"value": [1, {}, 2]}}'])
async def test_nan_and_infinity_are_rejected_at_any_depth(literal, form):
    await refused("anything", form.format(literal))


@pytest.mark.parametrize("literal", ["NaN", "Infinity", "1e999", '"NaN"', '"inf"', '"-Infinity"', '"1e999"'])
async def test_nan_and_infinity_are_rejected_for_a_float_parameter(literal):
    await refused("number", f'{{"x": {literal}}}')
    await refused("number", {"x": json.loads(literal)})


@pytest.mark.parametrize("wrap", [lambda x: x, lambda x: [x], lambda x: {"k": [(x,)]}])
@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
async def test_python_values_that_json_cannot_hold_are_refused(wrap, value):
    await refused("anything", {"value": wrap(value)})


@pytest.mark.parametrize("digits", [18, 19, 20, 30, 300])
async def test_large_integers_are_exact(digits):
    n = int("9" * digits)

    assert (await called("add", f'{{"a": {n}}}')).data == n
    assert (await called("add", {"a": n})).data == n
    assert (await called("anything", f'{{"value": [{n}]}}')).data["value"] == [n]


async def test_an_integer_of_ten_thousand_digits_is_refused_or_exact():
    outcome = await called("add", '{"a": ' + "9" * 10_000 + "}")

    assert isinstance(outcome, Failed)


# Depth


@pytest.mark.parametrize("name", ["anything", "add", "raw", "order"])
@pytest.mark.parametrize(
    "text", ["[" * 100_000, '{"value":' * 100_000, '{"value":' + "[" * 100_000 + "]" * 100_000 + "}"], ids=len
)
async def test_bottomless_text_is_refused_quickly(name, text):
    began = process_time()
    await refused(name, text)

    assert process_time() - began < 2


@pytest.mark.parametrize("name", ["anything", "add", "raw", "order"])
async def test_bottomless_python_values_are_refused_quickly(name):
    value: Any = []
    for _ in range(100_000):
        value = [value]
    mapping: Any = {}
    for _ in range(100_000):
        mapping = {"value": mapping}

    for arguments in ({"value": value}, {"items": value}, {"a": value}, mapping):
        await refused(name, arguments)


async def test_a_value_that_holds_itself_is_refused():
    circle: list[Any] = []
    circle.extend([circle, circle])

    await refused("anything", {"value": circle})


async def test_depth_within_reason_is_taken_exactly():
    value: Any = "bottom"
    for _ in range(100):
        value = [value]

    assert (await called("anything", json.dumps({"value": value}))).data["value"] == value
    assert (await called("anything", {"value": value})).data["value"] == value


# Text


@pytest.mark.parametrize(
    "text", ['{"text": "\\ud800"}', '{"text": "a\\udfffb"}', "{'text': '\\ud800'}", '{"text": "\ud800"}']
)
async def test_lone_surrogates_are_refused(text):
    await refused("say", text)
    await refused("anything", text.replace("text", "value"))


@pytest.mark.parametrize("value", ["\ud800", ["\ud800"], {"\ud800": 1}, {"k": {"k": "\udc00x"}}])
async def test_lone_surrogates_in_python_values_are_refused(value):
    await refused("anything", {"value": value})
    await refused("raw", {"a": "x", "z": value})


async def test_a_lone_surrogate_in_a_text_parameter_is_refused():
    await refused("say", {"text": "\ud800"})


@pytest.mark.parametrize(
    "value", ["\x00", "a\x00b", "\x00" * 1_000, "\u2028\u2029", "\U0001f600", "e\u0301", "\x7f\x1b[31m"]
)
async def test_unusual_characters_are_preserved_or_rejected(value):
    for arguments in (json.dumps({"text": value}), json.dumps({"text": value}, ensure_ascii=False), {"text": value}):
        outcome = await called("say", arguments)
        assert outcome.code == "invalid_arguments" if isinstance(outcome, Failed) else outcome.data["text"] == value


async def test_text_as_bytes_is_read_as_utf8():
    assert (await called("say", '{"text": "é€"}'.encode())).data["text"] == "é€"


@pytest.mark.parametrize(
    "data", [b'{"text": "\xff"}', b'{"text": "\xc3"}', b'\xff\xfe{"text": "a"}', b"\x80", b'{"text": "\xed\xa0\x80"}']
)
async def test_bytes_that_are_not_utf8_are_rejected(data):
    await refused("say", data)


async def test_ten_megabytes_are_taken_exactly():
    text = "x\\n" * 3_000_000
    began = process_time()
    outcome = await called("say", json.dumps({"text": text}))

    assert outcome.data["text"] == text
    assert process_time() - began < 3


@pytest.mark.parametrize("text", ['{"text": "' + "x" * 20_000_000 + '"}', "[" * 20_000_000, b"x" * 20_000_000])
async def test_twenty_megabytes_are_too_large(text):
    await refused("say", text, "too_large")


# Values that were encoded twice


@pytest.mark.parametrize(
    "arguments",
    [
        json.dumps(json.dumps({"items": [{"name": "a"}]})),
        {"items": '[{"name": "a"}]'},
        json.dumps({"items": '[{"name": "a"}]'}),
        {"items": ['{"name": "a"}']},
    ],
)
async def test_values_that_were_encoded_twice_are_unpacked_or_refused(arguments):
    outcome = await called("order", arguments)

    expected = {"items": [{"name": "a", "tags": []}], "note": ""}
    assert outcome == Done(expected) or outcome.code == "invalid_arguments"


@pytest.mark.parametrize(
    "arguments", [json.dumps(json.dumps({"items": [{"name": "a"}]})), {"items": '[{"name": "a"}]'}]
)
async def test_the_usual_double_encodings_are_unpacked(arguments):
    assert (await called("order", arguments)).ok


@pytest.mark.parametrize("value", ["[1, 2]", '{"a": 1}', "null", "5", '"quoted"', "[", "true"])
async def test_text_that_looks_like_json_stays_text(value):
    assert (await called("say", {"text": value})).data["text"] == value
    assert (await called("say", json.dumps({"text": value}))).data["text"] == value
    assert (await called("anything", {"value": value})).data["value"] == value


async def test_a_note_that_looks_like_json_stays_text_when_another_value_is_unpacked():
    outcome = await called("order", {"items": '[{"name": "a"}]', "note": "[1]"})

    assert outcome.data["note"] == "[1]" if outcome.ok else outcome.code == "invalid_arguments"


@pytest.mark.parametrize(
    "arguments",
    [
        {"items": '[{"name": "a", "name": "b"}]'},
        {"items": '[{"name": NaN}]'},
        '"{\\"a\\": 1, \\"a\\": 2}"',
        '"\\"{}\\""',
    ],
)
async def test_unpacking_lets_nothing_in_that_plain_reading_refuses(arguments):
    await refused("order", arguments)
    await refused("add", arguments)


# Text that was cut off

WHOLE = [
    ("add", '{"a": 12, "b": 34}'),
    ("add", '{"a": -1}'),
    ("say", '{"text": "hello", "times": 3}'),
    ("say", '{"text": "say \\"hi\\", he said", "loud": true}'),
    ("say", '{"text": "a } b ] c { d", "times": 2}'),
    ("say", '{"text": "it\'s: {\'a\': 1}"}'),
    ("say", '{"text": "back\\\\slash\\\\", "times": 7}'),
    ("say", '{"text": "\\u00e9\\n", "times": 2}'),
    ("say", '{"loud": null, "times": 5, "text": "```json\\n{}\\n```"}'),
    ("anything", '{"value": {"k": ["x", {"y": null}], "z": "q"}, "more": "end"}'),
    ("anything", '{"more": "x", "value": [1, 2, 3]}'),
    ("anything", '{"value": "x"}'),
    ("order", '{"items": [{"name": "a", "tags": ["t", "u"]}, {"name": "b"}], "note": "n"}'),
    ("order", '{"note": "n", "items": [{"name": "a", "tags": ["t"]}]}'),
    ("raw", '{"a": "x", "n": 5, "extra": "more"}'),
    ("raw", '{"a": "x", "n": 5, "extra": {"k": "v"}, "last": []}'),
    ("raw", '{"n": 5, "a": "x"}'),
]


@pytest.mark.parametrize(("name", "text"), WHOLE)
async def test_arguments_that_were_cut_off_anywhere_are_refused_or_whole(name, text):
    async with Runtime(*TOOLS) as runtime:
        whole = await runtime.call(name, text)
        assert whole.ok
        for end in range(1, len(text)):
            outcome = await runtime.call(name, text[:end])
            assert outcome == whole or (not outcome.ok and not outcome.executed), text[:end]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("say", "{'text': 'hello', 'times': 3}"),
        ("say", "{'times': 3, 'loud': True, 'text': 'say \"hi\" to them'}"),
        ("add", "{a: 12, b: 34}"),
        ("say", '```json\n{"times": 1, "loud": null, "text": "a"}\n```'),
    ],
)
async def test_arguments_that_were_broken_and_cut_off_are_refused_or_whole(name, text):
    async with Runtime(*TOOLS) as runtime:
        whole = await runtime.call(name, text)
        for end in range(1, len(text)):
            outcome = await runtime.call(name, text[:end])
            assert (whole.ok and outcome == whole) or not outcome.ok, text[:end]


# Bombs


@pytest.mark.parametrize(
    "text",
    [
        '{"text": "' + '\\"' * 5_000,
        "{" + "'" * 10_000,
        '{"text": ' + '"' * 10_001,
        '{"a": 1,' * 1_200,
        "{" * 150 + "a:" * 3_000,
        "/*" * 5_000,
        "```json\n" * 1_250,
        '{"text": "' + "\\" * 10_001,
        "[" + "{'a':" * 1_000,
        "{'text': '" + "\\'" * 5_000,
        '{"text": "' + ('\\"' + "x" * 9) * 4_000,
        "{'text': " + "'x' " * 10_000 + "}",
        '{"a": 1, ' + "b " * 20_000,
    ],
    ids=lambda text: text[:12],
)
async def test_text_made_to_be_hard_to_mend_is_answered_quickly(text):
    async with Runtime(*TOOLS) as runtime:
        began = process_time()
        outcome = await runtime.call("say", text)

    assert isinstance(outcome, (Done, Failed))
    assert process_time() - began < 2


# Properties

plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=12),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
arguments = st.fixed_dictionaries({"value": plain}, optional={"more": plain})


def strictly(text: str) -> Any:
    """The value of a text that is valid JSON with no key twice, nothing infinite and nothing lone; else None."""

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len(dict(pairs)) < len(pairs):
            raise ValueError("a key twice")
        return dict(pairs)

    def never(literal: str) -> Any:
        raise ValueError(literal)

    try:
        value = json.loads(text, object_pairs_hook=unique, parse_constant=never)
        json.dumps(value, allow_nan=False, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        return None
    return value


@pytest.fixture(scope="module")
def ask():
    """Calls a tool of one runtime that lives as long as all the examples."""
    with asyncio.Runner() as runner:
        runtime = Runtime(*TOOLS)
        runner.run(runtime.__aenter__())
        yield lambda name, arguments: runner.run(runtime.call(name, arguments))
        runner.run(runtime.close())


@settings(max_examples=150, deadline=None)
@given(st.text(max_size=60) | st.text(alphabet="{}[]\",:'\\ab1 \n/*-e.NnulltrueFIy", max_size=40))
@example('{"value": "\\ud800"}')
@example('{"a": 1}{"a": 2}')
def test_any_text_has_an_outcome(ask, text):
    for name in ("anything", "say", "raw"):
        outcome = ask(name, text)
        assert isinstance(outcome, (Done, Failed))
        if isinstance(outcome, Failed):
            assert (outcome.code, outcome.executed) == ("invalid_arguments", False)


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=60))
def test_any_bytes_have_an_outcome(ask, data):
    assert isinstance(ask("anything", data), (Done, Failed))


@settings(max_examples=150, deadline=None)
@given(arguments, st.booleans())
def test_valid_json_is_taken_exactly(ask, given_arguments, escaped):
    text = json.dumps(given_arguments, ensure_ascii=escaped)
    outcome = ask("anything", text)

    assert outcome.ok, outcome
    assert outcome.data == {"value": None, "more": None, **json.loads(text)}


@settings(max_examples=300, deadline=None)
@given(
    arguments,
    st.sampled_from(["delete", "insert", "double", "swap"]),
    st.integers(min_value=0, max_value=10_000),
    st.sampled_from(list("{}[]\",:'\\0e-. x")),
)
@example({"value": {"a": 1, "b": 2}}, "insert", 5, "x")
def test_json_with_one_slip_is_never_read_as_something_else(ask, given_arguments, slip, place, character):
    text = json.dumps(given_arguments)
    at = place % len(text)
    match slip:
        case "delete":
            text = text[:at] + text[at + 1 :]
        case "insert":
            text = text[:at] + character + text[at:]
        case "double":
            text = text[:at] + text[at] + text[at:]
        case "swap":
            text = text[:at] + character + text[at + 1 :]
    outcome = ask("anything", text)

    assert isinstance(outcome, (Done, Failed))
    expected = strictly(text)
    if outcome.ok and expected is not None and isinstance(expected, dict):
        assert outcome.data == {"value": None, "more": None, **expected}
    if isinstance(expected, dict) and set(expected) <= {"value", "more"}:
        assert outcome.ok, (text, outcome)


@settings(max_examples=150, deadline=None)
@given(plain)
def test_any_plain_python_value_is_taken_exactly_or_refused(ask, value):
    outcome = ask("anything", {"value": value})

    if outcome.ok:
        assert outcome.data["value"] == value
    else:
        assert outcome.code == "invalid_arguments"
