"""The JSON Schema of a tool's parameters, and the validation of arguments."""

import json
import socket
import threading
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from typing import Any, Literal, Optional

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, Field, JsonValue

from surehand import DefinitionError, Done, Failed, Outcome, Tool, tool

pytestmark = pytest.mark.timeout(30)  # some of these have much to do, and a busy machine takes its time


class Item(BaseModel):
    name: str
    weight: float = 0.0


class Exact(BaseModel):
    name: str
    weight: float


class Node(BaseModel):
    value: int
    children: list["Node"] = []


@dataclass
class Pair:
    left: int
    right: int = 0


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


def echo(kind: Any) -> Tool[..., Any]:
    @tool
    async def echo(value: kind) -> Any:
        return value

    return echo


def raw(schema: dict[str, Any]) -> Tool[..., Any]:
    @tool(name="raw", parameters=schema)
    async def handler(arguments: Any) -> Any:
        return arguments

    return handler


def refused(outcome: Outcome) -> str:
    assert isinstance(outcome, Failed), outcome
    assert (outcome.code, outcome.executed) == ("invalid_arguments", False), outcome
    return outcome.message


# What a model is shown


def test_a_schema_has_types_defaults_and_requirements_and_no_titles() -> None:
    @tool
    async def search(
        words: str, limit: int = 10, mode: Literal["all", "any"] = "all", colour: Colour | None = None
    ) -> None: ...

    assert search.schema == {
        "type": "object",
        "properties": {
            "words": {"type": "string"},
            "limit": {"type": "integer", "default": 10},
            "mode": {"type": "string", "enum": ["all", "any"], "default": "all"},
            "colour": {"$ref": "#/$defs/Colour"},
        },
        "required": ["words"],
        "additionalProperties": False,
        "$defs": {"Colour": {"type": "string", "enum": ["red", "blue"]}},
    }


def test_a_tool_without_parameters_shows_an_empty_object() -> None:
    @tool
    async def now() -> None: ...

    assert now.schema == {"type": "object", "properties": {}, "additionalProperties": False}


def test_nested_models_are_described_once_by_reference() -> None:
    schema = echo(list[Item]).schema

    assert schema["properties"]["value"] == {"type": "array", "items": {"$ref": "#/$defs/Item"}}
    assert schema["$defs"]["Item"]["properties"] == {
        "name": {"type": "string"},
        "weight": {"type": "number", "default": 0.0},
    }


async def test_a_recursive_model_shows_its_own_fields_at_the_top() -> None:
    @tool(parameters=Node)
    async def plant(node: Node) -> int:
        return node.children[0].value

    assert plant.schema["type"] == "object"
    assert list(plant.schema["properties"]) == ["value", "children"]
    assert plant.schema["$defs"]["Node"]["properties"]["children"]["items"] == {"$ref": "#/$defs/Node"}
    assert await plant.run({"value": 1, "children": [{"value": 2}]}) == Done(2)


def test_a_parameter_may_be_called_title_and_values_keep_theirs() -> None:
    @tool
    async def write(title: str, page: dict[str, str] = {"title": "x"}) -> None: ...  # noqa: B006  # never changed

    assert write.schema["properties"]["title"] == {"type": "string"}
    assert write.schema["properties"]["page"]["default"] == {"title": "x"}


# Duplicate keys


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (int, '{"value": 1, "value": 2}'),
        (int, '{"value": 1, "valu\\u0065": 2}'),
        (int, '{"value"\n:\t1, "value" : 2}'),
        (str, '{"value": "a:b", "value": "x"}'),
        (Any, '{"value": {"a": 1, "a": 2}}'),
        (Any, '{"value": [[{"a": 1, "a": 2}]]}'),
        (dict[str, int], '{"value": {"a": 1, "a": 2}}'),
        (dict[str, Any], '{"value": {"a": {"b": 1, "b": 2}}}'),
        (dict[str, Exact], '{"value": {"a": {"name": "x", "name": "y", "weight": 1}}}'),
        (Item, '{"value": {"name": "x", "name": "y"}}'),
        (Exact, '{"value": {"name": "a:b", "weight": 1, "weight": 2}}'),
        (Exact, '{"value": {"name": "x", "n\\u0061me": "y", "weight": 1}}'),
        (Item | None, '{"value": {"name": "x", "name": "y"}}'),
        (Optional[Exact], '{"value": {"name": "x", "name": "y", "weight": 1}}'),  # noqa: UP045  # the older spelling
        (Exact | int, '{"value": {"name": "x", "name": "y", "weight": 1}}'),
        (list[Item], '{"value": [{"name": "x", "name": "y"}]}'),
        (list[Exact], '{"value": [{"name": "x", "weight": 1}, {"name": "x", "name": "y", "weight": 1}]}'),
        (list[list[Exact]], '{"value": [[{"name": "x", "name": "y", "weight": 1}]]}'),
        (tuple[Exact, ...], '{"value": [{"name": "x", "name": "y", "weight": 1}]}'),
        (Node, '{"value": {"value": 1, "children": [{"value": 1, "value": 2}]}}'),
        (Pair, '{"value": {"left": 1, "left": 2}}'),
    ],
)
async def test_a_key_that_is_given_twice_is_refused_at_any_depth(kind: Any, text: str) -> None:
    assert "is given twice. Send each key once." in refused(await echo(kind).run(text))


@pytest.mark.parametrize("value", ["a:b:c", "https://x.org:80/?q=:", '"a": 1, "b": 2', "::::", '\\":', "\n:\t:"])
@pytest.mark.parametrize("layout", [{}, {"separators": (" , ", " : ")}, {"indent": 2}, {"separators": (",", ":")}])
async def test_colons_in_strings_and_white_space_around_them_do_no_harm(value: str, layout: dict[str, Any]) -> None:
    @tool
    async def both(word: str, item: Exact, items: list[Exact]) -> Any:
        return [word, item.name, *(one.name for one in items)]

    item = {"name": value, "weight": 1.0}
    text = json.dumps({"word": value, "item": item, "items": [item, item]}, **layout)

    assert await both.run(text) == Done([value] * 4)


# Numbers and text that JSON cannot hold


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999", "-1e999"])
@pytest.mark.parametrize(
    ("kind", "around"),
    [
        (float, "%s"),
        (float | None, "%s"),
        (int | float | str, "%s"),
        (int, "%s"),
        (Decimal, "%s"),
        (Any, "%s"),
        (Any, '{"a": [[%s]]}'),
        (JsonValue, "[%s]"),
        (list, "[%s]"),
        (list[float], "[1, %s]"),
        (dict[str, float], '{"a": %s}'),
        (dict[str, Any], '{"a": {"b": %s}}'),
        (Item, '{"name": "x", "weight": %s}'),
        (list[Item], '[{"name": "x", "weight": %s}]'),
    ],
)
async def test_a_number_that_is_not_finite_is_refused_at_any_depth(kind: Any, around: str, number: str) -> None:
    text = '{"value": ' + around % number + "}"

    refused(await echo(kind).run(text))
    refused(await echo(kind).run(json.loads(text)))


async def test_a_float_may_not_be_spelled_as_infinity_either() -> None:
    refused(await echo(float).run({"value": "inf"}))
    refused(await echo(float).run('{"value": "NaN"}'))
    assert await echo(str).run('{"value": "NaN"}') == Done("NaN")


@pytest.mark.parametrize("text", ['"\\ud800"', '"\ud800"', '"a\\udc00b"'], ids=["escaped", "raw", "low"])
@pytest.mark.parametrize(
    ("kind", "around"), [(str, "%s"), (Any, "[%s]"), (list[str], "[%s]"), (dict[str, int], "{%s: 1}")]
)
async def test_a_lone_surrogate_is_refused_escaped_or_raw(kind: Any, around: str, text: str) -> None:
    refused(await echo(kind).run('{"value": ' + around % text + "}"))


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (str, "\ud800"),
        (Any, ["\ud800"]),
        (list[str], ["\ud800"]),
        (dict[str, int], {"\ud800": 1}),
        (Item, {"name": "\ud800"}),
        (list[Item], [{"name": "\ud800"}]),
    ],
    ids=repr,
)
async def test_a_lone_surrogate_in_a_python_value_is_refused(kind: Any, value: Any) -> None:
    assert "lone surrogate" in refused(await echo(kind).run({"value": value}))


async def test_a_pair_of_surrogates_is_one_character() -> None:
    assert await echo(str).run('{"value": "\\ud83d\\ude00"}') == Done("\U0001f600")


async def test_a_nul_character_is_kept_where_json_allows_it() -> None:
    assert await echo(str).run('{"value": "a\\u0000b"}') == Done("a\0b")
    refused(await echo(str).run('{"value": "a\0b"}'))


@pytest.mark.parametrize(
    ("kind", "around"), [(int, "%s"), (Any, "%s"), (JsonValue, "%s"), (list[int], "[%s]"), (dict[str, Any], '{"a":%s}')]
)
async def test_an_integer_of_thirty_digits_stays_exact(kind: Any, around: str) -> None:
    text = around % ("123456789" * 4)[:30]

    outcome = await echo(kind).run('{"value": ' + text + "}")

    assert outcome == Done(json.loads(text))


# Depth

DEEP = 100_000


def nested(levels: int) -> Any:
    value: Any = []
    for _ in range(levels - 1):
        value = [value]
    return value


@pytest.mark.parametrize("kind", [Any, JsonValue, list, list[Any], int, str, Node, Item])
@pytest.mark.parametrize("text", ["[" * DEEP + "]" * DEEP, '{"a":' * DEEP + "1" + "}" * DEEP], ids=["lists", "objects"])
async def test_bottomless_text_is_refused(kind: Any, text: str) -> None:
    assert "nested deeper" in refused(await echo(kind).run('{"value": ' + text + "}"))


@pytest.mark.parametrize("kind", [Any, JsonValue, list, list[Any], int, str, Node, dict[str, Any]])
async def test_bottomless_python_values_are_refused(kind: Any) -> None:
    assert len(refused(await echo(kind).run({"value": nested(DEEP)}))) < 500


async def test_a_bottomless_recursive_model_is_refused_in_few_words() -> None:
    value: Any = {"value": 1}
    for _ in range(DEEP):
        value = {"value": 1, "children": [value]}

    assert len(refused(await echo(Node).run({"value": value}))) < 800


@pytest.mark.parametrize("levels", [1, 50, 190])
async def test_a_reasonable_depth_is_accepted_unchanged(levels: int) -> None:
    value = nested(levels)

    assert await echo(Any).run(json.dumps({"value": value})) == Done(value)
    assert await echo(Any).run({"value": value}) == Done(value)


# Messages for the model


async def test_an_unknown_name_is_reported_with_the_nearest_one() -> None:
    @tool
    async def search(pattern: str, limit: int = 3) -> None: ...

    for wrong in ({"patern": "x"}, '{"patern": "x"}'):
        message = refused(await search.run(wrong))
        assert "`patern` is not a parameter (did you mean `pattern`?)" in message
        assert "`pattern` is required" in message
        assert message.endswith("Expected: pattern (string), limit (integer, optional).")


@pytest.mark.parametrize(
    ("kind", "value", "expected_text"),
    [
        (int, "twelve", "'twelve'"),
        (int, 1.5, "1.5"),
        (bool, "maybe", "'maybe'"),
        (list[int], {"a": 1}, "{'a': 1}"),
        (Literal["red", "blue"], "green", "'green'"),
        (str, 5, "5"),
    ],
)
async def test_a_value_of_the_wrong_type_is_reported_with_the_value(kind: Any, value: Any, expected_text: str) -> None:
    for sent in ({"value": value}, json.dumps({"value": value})):
        message = refused(await echo(kind).run(sent))
        assert message.startswith("invalid arguments: `value`: ")
        assert expected_text in message


async def test_a_wrong_nested_value_is_reported_with_its_path() -> None:
    message = refused(await echo(list[Item]).run({"value": [{"name": "x"}, {"name": "y", "weight": "heavy"}]}))

    assert "`value.1.weight`" in message
    assert "'heavy'" in message


@pytest.mark.parametrize(
    ("kind", "value", "taken"), [(int, "12", 12), (float, "1.5", 1.5), (bool, "true", True), (int, 3.0, 3)]
)
async def test_what_models_often_confuse_is_converted_gently(kind: Any, value: Any, taken: Any) -> None:
    for sent in ({"value": value}, json.dumps({"value": value})):
        outcome = await echo(kind).run(sent)
        assert outcome == Done(taken)
        assert type(outcome.data) is type(taken)


# Raw schemas


def test_a_raw_schema_is_unchanged() -> None:
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Weather",
        "type": "object",
        "properties": {"city": {"title": "City", "type": "string", "x-hint": [1]}},
    }

    assert raw(schema).schema == schema


async def test_a_raw_schema_with_local_references_is_checked() -> None:
    checked = raw(
        {
            "type": "object",
            "properties": {"node": {"$ref": "#/$defs/node"}},
            "required": ["node"],
            "additionalProperties": False,
            "$defs": {"node": {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}}, "maxProperties": 1}},
        }
    )

    assert await checked.run('{"node": {"next": {"next": {}}}}') == Done({"node": {"next": {"next": {}}}})
    assert "`node.next`" in refused(await checked.run({"node": {"next": {"a": 1, "b": 2}}}))
    refused(await checked.run({}))
    refused(await checked.run({"node": {}, "more": 1}))


async def test_a_remote_reference_is_never_fetched() -> None:
    visits: list[Any] = []
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(5)
        port = server.getsockname()[1]
        remote = raw({"type": "object", "properties": {"a": {"$ref": f"http://127.0.0.1:{port}/a.json"}}})

        with pytest.raises(DefinitionError, match="nothing is fetched"):
            remote.compile()

        server.setblocking(False)
        with pytest.raises(BlockingIOError):
            visits.append(server.accept())
    assert visits == []


@pytest.mark.parametrize("reference", ["file:///etc/passwd", "other.json", "https://example.org/schema"])
def test_no_reference_leaves_the_schema(reference: str) -> None:
    with pytest.raises(DefinitionError, match=r"\$refs are local"):
        raw({"type": "object", "properties": {"a": {"$ref": reference}}}).compile()


def test_a_raw_schema_may_not_be_too_large_or_too_deep() -> None:
    deep: dict[str, Any] = {"type": "object"}
    for _ in range(40):
        deep = {"type": "object", "properties": {"a": deep}}
    bottomless: dict[str, Any] = {}
    for _ in range(DEEP):
        bottomless = {"not": bottomless}

    for schema in (deep, bottomless, {"type": "object", "description": "x" * 300_000}):
        with pytest.raises(DefinitionError, match=r"too large|not plain JSON"):
            raw(schema).compile()


def test_a_pattern_that_would_take_forever_takes_no_time() -> None:
    slow = raw({"type": "object", "properties": {"a": {"type": "string", "pattern": "^(a+)+$"}}})
    slow.compile()
    done = threading.Event()

    def check() -> None:
        with pytest.raises(Exception, match="a"):
            slow.validate_arguments({"a": "a" * 5_000 + "!"})
        done.set()

    threading.Thread(target=check, daemon=True).start()

    assert done.wait(4)


@pytest.mark.parametrize(
    ("field", "value", "taken"),
    [
        ({"type": "integer"}, "12", 12),
        ({"type": "integer"}, 3.0, 3.0),
        ({"type": "number"}, "1.5", 1.5),
        ({"type": "boolean"}, "TRUE", True),
        ({"type": "boolean"}, "false", False),
        ({"type": "string"}, "12", "12"),
    ],
)
async def test_a_raw_schema_converts_gently(field: dict[str, Any], value: Any, taken: Any) -> None:
    assert await raw({"type": "object", "properties": {"a": field}}).run({"a": value}) == Done({"a": taken})


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ({"type": "integer"}, "twelve"),
        ({"type": "integer"}, "1.5"),
        ({"type": "number"}, "inf"),
        ({"type": "number"}, "nan"),
        ({"type": "boolean"}, "yes"),
        ({"type": "string"}, 12),
        ({"type": "integer", "maximum": 9}, "12"),
    ],
)
async def test_a_raw_schema_does_not_guess(field: dict[str, Any], value: Any) -> None:
    message = refused(await raw({"type": "object", "properties": {"a": field}}).run({"a": value}))

    assert "`a`" in message
    assert str(value) in message


@pytest.mark.parametrize(
    "text",
    [
        '{"a": 1, "a": 2}',
        '{"a": [{"b": 1, "b": 2}]}',
        '{"a": NaN}',
        '{"a": [1e999]}',
        '{"a": "\\ud800"}',
        '{"a": "\ud800"}',
        '{"a": ' + "[" * DEEP + "]" * DEEP + "}",
        "[1]",
        '{"a": 1',
    ],
    ids=range(9),
)
async def test_a_raw_schema_is_read_as_strictly(text: str) -> None:
    refused(await raw({"type": "object"}).run(text))


async def test_a_raw_schema_takes_plain_json_only() -> None:
    for value in (float("nan"), nested(DEEP), "\ud800"):
        refused(await raw({"type": "object"}).run({"a": value}))
    refused(await raw({"type": "object", "properties": {"a": {"type": "object"}}}).run({"a": object()}))


async def test_a_raw_schema_keeps_big_integers_exact() -> None:
    number = int("9" * 30)

    assert await raw({"type": "object", "properties": {"a": {"type": "integer"}}}).run({"a": number}) == Done(
        {"a": number}
    )
    assert await raw({"type": "object"}).run(f'{{"a": {number}}}') == Done({"a": number})


# Whatever is sent arrives

TEXT = st.text(st.characters(exclude_categories=["Cs"]))
TREES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner) | st.dictionaries(TEXT, inner),
    max_leaves=10,
)
ITEMS = st.lists(st.fixed_dictionaries({"name": TEXT, "weight": st.floats(allow_nan=False, allow_infinity=False)}))
anything, objects, items = echo(Any), raw({"type": "object"}), echo(list[Exact])


def same(one: Any, other: Any) -> bool:
    """Equal, and of the same types: `1` is not `True`, and `0.0` is not `-0.0`."""
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


@settings(max_examples=50)
@given(TREES, st.booleans())
async def test_any_json_value_arrives_exactly(value: Any, ascii: bool) -> None:
    text = json.dumps({"value": value}, ensure_ascii=ascii)

    assert same((await anything.run(text)).data, value)
    assert same((await anything.run({"value": value})).data, value)
    assert same((await objects.run(text)).data, {"value": value})


@settings(max_examples=50)
@given(ITEMS, st.sampled_from([None, 2]))
async def test_any_list_of_models_arrives_exactly(values: list[dict[str, Any]], indent: int | None) -> None:
    text = json.dumps({"value": values}, indent=indent)

    outcome = await items.run(text)

    assert same([item.model_dump() for item in outcome.data], values)


@given(st.text())
async def test_any_text_is_read_or_refused(text: str) -> None:
    for each in (anything, objects, items):
        outcome = await each.run(text)
        assert isinstance(outcome, Done) or outcome.code == "invalid_arguments"


def test_a_field_may_forbid_and_describe() -> None:
    class Narrow(BaseModel):
        """Not shown: the tool has a description of its own."""

        size: int = Field(ge=1, le=5, description="How large.")

    @tool(parameters=Narrow)
    async def cut(narrow: Narrow) -> None: ...

    assert cut.schema["properties"]["size"] == {
        "type": "integer", "minimum": 1, "maximum": 5, "description": "How large."
    }  # fmt: skip
    assert "description" not in cut.schema


async def test_the_message_outlines_nested_objects_and_suggests_their_names() -> None:
    class Mail(BaseModel):
        to: str
        body: str = ""

    @tool
    async def send(mail: Mail, copies: int | None = None, many: list[Mail] | None = None) -> None: ...

    message = refused(await send.run({"mail": {"to": "a", "Bdy": "x"}}))
    deep = refused(await send.run({"mail": {"to": "a"}, "many": [{"to": "b", "boddy": ""}]}))

    assert "`mail.Bdy` is not a parameter (did you mean `mail.body`?)" in message
    assert "mail (object: to, body), copies (integer, optional)" in message
    assert "`many.0.boddy` is not a parameter (did you mean `many.0.body`?)" in deep
