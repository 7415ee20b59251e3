"""Tools in the formats of model APIs."""

import json
import logging
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from surehand.catalogue.catalogue import Catalogue
from surehand.catalogue.describe import ToolDescriptions, describe_listings
from surehand.core.define import tool
from surehand.core.tool import Tool

FORMATS = ["openai", "responses", "anthropic", "gemini", "mcp"]
SCHEMA_AT = {
    "openai": lambda entry: entry["function"]["parameters"],
    "responses": lambda entry: entry["parameters"],
    "anthropic": lambda entry: entry["input_schema"],
    "gemini": lambda entry: entry["parameters"],
    "mcp": lambda entry: entry["inputSchema"],
}


@tool
async def add(a: int, b: int = 1) -> int:
    """Add two numbers."""
    return a + b


ADD_SCHEMA = {
    "type": "object",
    "properties": {"a": {"type": "integer"}, "b": {"type": "integer", "default": 1}},
    "required": ["a"],
    "additionalProperties": False,
}


def raw(schema: dict[str, Any], name: str = "raw", **options: Any) -> Tool[..., Any]:
    @tool(name=name, description="Raw.", parameters=schema, **options)
    async def handler(arguments: dict[str, Any]) -> None: ...

    return handler


def shown(format: str, *tools: Tool[..., Any]) -> ToolDescriptions:
    return describe_listings(Catalogue(*tools), format)


def schema_of(format: str, schema: dict[str, Any]) -> Any:
    described = shown(format, raw(schema))
    assert described.left_out == {}
    return SCHEMA_AT[format](described[0])


def field_of(format: str, field: Any, **beside: Any) -> Any:
    return schema_of(format, {"type": "object", "properties": {"field": field}, **beside})["properties"]["field"]


def why_not(format: str, schema: dict[str, Any]) -> str:
    described = shown(format, raw(schema), add)
    assert [entry.get("name", entry.get("function", {}).get("name")) for entry in described] == ["add"]
    return described.left_out["raw"]


# What each API is shown


def test_an_openai_entry_is_a_function() -> None:
    assert shown("openai", add) == [
        {"type": "function", "function": {"name": "add", "description": "Add two numbers.", "parameters": ADD_SCHEMA}}
    ]


def test_a_responses_entry_is_a_flat_function_without_strict() -> None:
    assert shown("responses", add) == [
        {
            "type": "function",
            "name": "add",
            "description": "Add two numbers.",
            "parameters": ADD_SCHEMA,
            "strict": False,
        }
    ]


def test_an_anthropic_entry_has_an_input_schema() -> None:
    assert shown("anthropic", add) == [{"name": "add", "description": "Add two numbers.", "input_schema": ADD_SCHEMA}]


def test_a_gemini_entry_is_a_function_declaration() -> None:
    parameters = {
        "type": "object",
        "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
        "required": ["a"],
    }

    assert shown("gemini", add) == [{"name": "add", "description": "Add two numbers.", "parameters": parameters}]


def test_an_mcp_entry_has_no_annotations_for_undeclared_effects() -> None:
    assert shown("mcp", add) == [{"name": "add", "description": "Add two numbers.", "inputSchema": ADD_SCHEMA}]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"effects": {"read"}}, (True, False, True, False)),
        ({"effects": {"read", "network"}}, (False, False, False, True)),
        ({"effects": {"write"}}, (False, True, False, False)),
        ({"effects": {"write"}, "repeatable": True}, (False, True, True, False)),
        ({"effects": {"execute", "network"}}, (False, True, False, True)),
        ({"effects": {"read"}, "optional_effects": {"write"}}, (False, True, True, False)),
    ],
)
def test_an_mcp_entry_has_annotations_for_declared_effects(options: dict[str, Any], expected: tuple[bool, ...]) -> None:
    hints = ("readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")

    assert shown("mcp", raw({}, **options))[0]["annotations"] == dict(zip(hints, expected, strict=True))


def test_an_mcp_entry_has_the_title_of_the_display() -> None:
    assert shown("mcp", raw({}, display={"title": "Raw data"}))[0]["title"] == "Raw data"


def test_an_unknown_format_is_refused_with_the_nearest_and_the_known_ones() -> None:
    with pytest.raises(ValueError, match=r"'antropic'. Did you mean 'anthropic'\? Known formats: openai, responses"):
        describe_listings([], "antropic")


def test_a_description_from_a_file_names_the_workspace(tmp_path: Path) -> None:
    (tmp_path / "list.txt").write_text("Lists ${workspace}.")

    @tool(description=tmp_path / "list.txt")
    async def lists() -> None: ...

    assert describe_listings(Catalogue(lists), "anthropic", workspace="/srv")[0]["description"] == "Lists /srv."


def test_chat_completions_gets_no_description_longer_than_it_takes() -> None:
    long = add.with_description("word " * 400)

    assert len(shown("openai", long)[0]["function"]["description"]) == 1024
    assert len(shown("responses", long)[0]["description"]) > 1024


@pytest.mark.parametrize("format", FORMATS)
def test_an_entry_has_the_wire_name(format: str) -> None:
    catalogue = Catalogue()
    (listing,) = catalogue.add(add.evolve(name="x" * 80), namespace="server")

    entry = catalogue.describe(format)[0]

    assert entry.get("function", entry)["name"] == listing.wire_name
    assert len(listing.wire_name) == 64


@pytest.mark.parametrize("format", FORMATS)
def test_a_tool_without_parameters_takes_an_empty_object(format: str) -> None:
    @tool
    async def now() -> None:
        """The time."""

    schema = SCHEMA_AT[format](shown(format, now)[0])

    assert (schema["type"], schema["properties"]) == ("object", {})


@pytest.mark.parametrize("format", FORMATS)
def test_changing_what_was_described_does_not_change_the_tool(format: str) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string", "enum": ["x", "y"]}}, "required": ["a"]}
    before = json.dumps(schema)
    made = raw(schema)

    parameters = SCHEMA_AT[format](shown(format, made)[0])
    parameters["properties"]["a"]["enum"].append("z")
    parameters["required"].clear()

    assert json.dumps(schema) == json.dumps(made.schema) == before


# What is left out


@pytest.mark.parametrize("format", FORMATS)
def test_a_tool_that_cannot_be_described_is_left_out_with_a_warning(
    format: str, caplog: pytest.LogCaptureFixture
) -> None:
    bad = raw({"type": "string"})

    with caplog.at_level(logging.WARNING, "surehand"):
        described = shown(format, bad, add)

    assert len(described) == 1
    assert described.left_out == {"raw": "its parameters are of type string, not an object"}
    assert [record.getMessage() for record in caplog.records] == [
        f"raw is left out of the tools for {format}: its parameters are of type string, not an object."
    ]


@pytest.mark.parametrize("format", FORMATS)
def test_a_tool_whose_types_do_not_compile_is_left_out(format: str) -> None:
    @tool
    async def broken(value: "NoSuchType") -> None:  # type: ignore[name-defined]  # noqa: F821
        """Broken."""

    described = shown(format, broken, add)

    assert len(described) == 1
    assert "cannot be described" in described.left_out["broken"]


def test_a_name_that_starts_with_a_digit_is_left_out_for_gemini() -> None:
    digit = add.evolve(name="2fa")

    assert "2fa" in shown("gemini", digit).left_out["2fa"]
    assert shown("openai", digit).left_out == {}


def test_an_illegal_parameter_name_is_left_out_for_anthropic() -> None:
    schema = {"type": "object", "properties": {"filter[id]": {"type": "string"}}}

    assert "filter[id]" in why_not("anthropic", schema)
    assert shown("openai", raw(schema)).left_out == {}


def test_a_schema_of_an_older_draft_is_left_out_for_anthropic() -> None:
    schema = {
        "$schema": "http://json-schema.org/draft-04/schema#",
        "type": "object",
        "properties": {"a": {"type": "number", "minimum": 0, "exclusiveMinimum": True}},
    }

    assert "2020-12" in why_not("anthropic", schema)


@pytest.mark.parametrize("format", ["openai", "responses", "anthropic", "gemini"])
@pytest.mark.parametrize("schema", [{"enum": [{}, {"a": 1}]}, {"const": {}}, {"anyOf": [{"type": "string"}, {}]}])
def test_what_is_no_object_with_properties_is_left_out(format: str, schema: dict[str, Any]) -> None:
    assert "object" in why_not(format, schema)


# The top of a schema


@pytest.mark.parametrize("format", ["openai", "responses", "anthropic", "gemini"])
@pytest.mark.parametrize("word", ["anyOf", "oneOf"])
def test_alternatives_of_required_parameters_are_not_at_the_top_level(format: str, word: str) -> None:
    fields = {"a": {"type": "string"}, "b": {"type": "string"}, "c": {"type": "string"}}
    choice = [{"required": ["a", "c"]}, {"required": ["b", "c"]}]

    schema = schema_of(format, {"type": "object", "properties": fields, word: choice})

    assert word not in schema
    assert schema["properties"] == fields
    assert schema["required"] == ["c"]


@pytest.mark.parametrize("format", ["openai", "anthropic"])
def test_a_choice_of_objects_becomes_one_object_that_accepts_all(format: str) -> None:
    one = {
        "type": "object",
        "properties": {"kind": {"const": "one"}, "x": {"type": "string"}},
        "required": ["kind", "x"],
    }
    two = {"type": "object", "properties": {"kind": {"const": "two"}}, "required": ["kind"]}

    schema = schema_of(format, {"oneOf": [{"$ref": "#/$defs/one"}, two], "$defs": {"one": one}})

    assert schema["properties"] == {"kind": {"anyOf": [{"const": "one"}, {"const": "two"}]}, "x": {"type": "string"}}
    assert schema["required"] == ["kind"]


@pytest.mark.parametrize("format", ["openai", "anthropic", "gemini"])
def test_parts_that_all_apply_are_put_together(format: str) -> None:
    first = {"properties": {"a": {"type": "string"}}, "required": ["a"]}
    second = {"properties": {"b": {"type": "string"}}, "required": ["b"]}

    schema = schema_of(format, {"type": "object", "allOf": [first, second], "not": {"required": ["c"]}})

    assert list(schema["properties"]) == schema["required"] == ["a", "b"]
    assert not {"allOf", "not"} & schema.keys()


class Node(BaseModel):
    label: str
    children: "list[Node]" = []


@pytest.mark.parametrize("format", ["openai", "anthropic"])
def test_a_recursive_model_has_its_fields_at_the_top_level(format: str) -> None:
    @tool(parameters=Node)
    async def plant(node: Node) -> None:
        """Plant a tree."""

    schema = SCHEMA_AT[format](shown(format, plant)[0])

    assert list(schema["properties"]) == ["label", "children"]
    assert schema["properties"]["children"]["items"] == {"$ref": "#/$defs/Node"}
    assert "$ref" not in schema


def test_openai_and_anthropic_keep_choices_below_the_top() -> None:
    field = {"oneOf": [{"type": "string"}, {"type": "integer"}], "default": {"type": "array"}}

    assert field_of("openai", field) == field_of("anthropic", field) == field


@pytest.mark.parametrize("format", ["openai", "anthropic"])
def test_every_array_says_what_is_in_it(format: str) -> None:
    assert field_of(format, {"type": "array"}) == {"type": "array", "items": {}}
    assert field_of(format, {"type": ["array", "null"]})["items"] == {}
    assert field_of(format, {"anyOf": [{"type": "array"}]}) == {"anyOf": [{"type": "array", "items": {}}]}


@pytest.mark.parametrize("format", ["openai", "anthropic"])
def test_tuples_of_older_drafts_are_written_the_new_way(format: str) -> None:
    field = {"type": "array", "items": [{"type": "string"}], "additionalItems": False}

    schema = {"$schema": "http://json-schema.org/draft-07/schema#", "type": "object", "properties": {"field": field}}

    shown_field = schema_of(format, schema)["properties"]["field"]
    assert shown_field == {"type": "array", "prefixItems": [{"type": "string"}], "items": False}


class Part(BaseModel):
    name: str
    size: Literal["s", "l"] | None = None
    count: int = 1


@pytest.mark.parametrize("format", ["openai", "responses"])
async def test_a_strict_entry_requires_every_parameter_and_lets_optional_ones_be_null(format: str) -> None:
    @tool(provider_options={"openai": {"strict": True}})
    async def order(
        part: Part, more: list[Part] | None = None, note: str = "", how: int | str = 1, owner: str | None = "me"
    ) -> Any:
        """Order.

        Args:
            note: For the shop.
        """
        return [part.model_dump(), more, note, how, owner]

    schema = SCHEMA_AT[format](shown(format, order)[0])

    part = {
        "type": "object",
        "properties": {
            "name": {"type": "string"},
            "size": {"anyOf": [{"type": "string", "enum": ["s", "l"]}, {"type": "null"}]},
            "count": {"type": ["integer", "null"]},
        },
        "required": ["name", "size", "count"],
        "additionalProperties": False,
    }
    assert schema == {
        "type": "object",
        "properties": {
            "part": {"$ref": "#/$defs/Part"},
            "more": {"type": ["array", "null"], "items": {"$ref": "#/$defs/Part"}},
            "note": {"type": ["string", "null"], "description": "For the shop."},
            "how": {"anyOf": [{"type": "integer"}, {"type": "string"}, {"type": "null"}]},
            "owner": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        },
        "required": ["part", "more", "note", "how", "owner"],
        "additionalProperties": False,
        "$defs": {"Part": part},
    }
    all_null = {"part": {"name": "a", "size": None, "count": None}, "more": None, "note": None, "how": None}
    called = await order.run({**all_null, "owner": None})
    assert called.data == [{"name": "a", "size": None, "count": 1}, None, "", 1, None]


def test_a_strict_tool_that_takes_keys_of_any_name_is_left_out() -> None:
    @tool(provider_options={"openai": {"strict": True}})
    async def label(labels: dict[str, str]) -> None:
        """Label."""

    entries = shown("openai", label)

    assert entries == []
    assert entries.left_out == {"label": "it takes keys of any name, which OpenAI's `strict` does not allow"}


# Gemini's schema


class Colour(BaseModel):
    name: Literal["red", "green"] = Field(description="Which one.")
    alpha: float | None


def test_gemini_has_references_written_out_and_null_as_nullable() -> None:
    @tool
    async def paint(colour: Colour, coats: Literal[1, 2] = 1) -> None:
        """Paint."""

    assert shown("gemini", paint)[0]["parameters"]["properties"] == {
        "colour": {
            "type": "object",
            "properties": {
                "name": {"type": "string", "description": "Which one.", "format": "enum", "enum": ["red", "green"]},
                "alpha": {"type": "number", "nullable": True},
            },
            "required": ["name", "alpha"],
        },
        "coats": {"type": "integer", "description": "One of: 1, 2."},
    }


@pytest.mark.parametrize(
    ("field", "expected"),
    [
        ({"const": "x"}, {"type": "string", "format": "enum", "enum": ["x"]}),
        ({"enum": ["x", None]}, {"type": "string", "format": "enum", "enum": ["x"], "nullable": True}),
        ({"type": "number", "enum": [1, 2.5]}, {"type": "number", "description": "One of: 1, 2.5."}),
        ({"type": ["string", "null"], "maxLength": 3}, {"type": "string", "maxLength": 3, "nullable": True}),
        ({"type": ["integer", "string"]}, {"anyOf": [{"type": "integer"}, {"type": "string"}]}),
        ({"type": "string", "format": "uri"}, {"type": "string"}),
        ({"type": "string", "format": "date-time"}, {"type": "string", "format": "date-time"}),
        (
            {"type": "integer", "exclusiveMinimum": 0, "exclusiveMaximum": 9},
            {"type": "integer", "minimum": 1, "maximum": 8},
        ),
        ({"type": "number", "exclusiveMinimum": 0}, {"type": "number", "minimum": 0}),
        ({"type": "array"}, {"type": "array", "items": {"type": "string"}}),
        (
            {"type": "array", "items": {"type": "integer"}, "uniqueItems": True},
            {"type": "array", "items": {"type": "integer"}},
        ),
        (
            {"type": "array", "prefixItems": [{"type": "integer"}, {"type": "integer"}]},
            {"type": "array", "items": {"type": "integer"}},
        ),
        ({"type": "object", "additionalProperties": {"type": "string"}}, {"type": "object"}),
        ({"type": "object", "required": ["gone"]}, {"type": "object"}),
        (
            {"oneOf": [{"type": "string"}, {"type": "integer"}, {"type": "null"}], "description": "Id."},
            {
                "anyOf": [
                    {"type": "string", "nullable": True, "description": "Id."},
                    {"type": "integer", "nullable": True},
                ]
            },
        ),
        ({"allOf": [{"type": "string"}, {"minLength": 2}]}, {"type": "string", "minLength": 2}),
        ({"type": "null"}, {"type": "null"}),
    ],
)
def test_a_gemini_schema_is_the_nearest_that_gemini_accepts(field: dict[str, Any], expected: dict[str, Any]) -> None:
    assert field_of("gemini", field) == expected


@pytest.mark.parametrize("field", [{}, True])
def test_any_value_is_a_choice_of_all_types_for_gemini(field: Any) -> None:
    assert [branch["type"] for branch in field_of("gemini", field)["anyOf"]] == [
        "string", "number", "boolean", "object", "array",
    ]  # fmt: skip


def test_a_recursive_list_is_written_out_once_for_gemini() -> None:
    schema = {
        "type": "object",
        "properties": {"tree": {"$ref": "#/$defs/tree"}},
        "$defs": {"tree": {"type": "array", "items": {"$ref": "#/$defs/tree"}}},
    }

    assert schema_of("gemini", schema)["properties"]["tree"] == {
        "type": "array",
        "items": {"type": "array", "items": {"type": "object"}},
    }


def test_a_recursive_object_is_described_by_its_type_where_it_comes_again_for_gemini() -> None:
    node = {
        "type": "object",
        "description": "A node.",
        "properties": {"name": {"type": "string"}, "left": {"$ref": "#/$defs/node"}},
    }
    schema = {"type": "object", "properties": {"root": {"$ref": "#/$defs/node"}}, "$defs": {"node": node}}

    assert schema_of("gemini", schema)["properties"]["root"]["properties"] == {
        "name": {"type": "string"},
        "left": {"type": "object", "description": "A node."},
    }


def test_a_recursion_through_all_of_and_a_choice_ends_for_gemini() -> None:
    base = {"type": "object", "properties": {"child": {"oneOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]}}}
    node = {"allOf": [{"$ref": "#/$defs/base"}, {"properties": {"size": {"type": "integer"}}}]}
    schema = {
        "type": "object",
        "properties": {"root": {"$ref": "#/$defs/node"}},
        "$defs": {"node": node, "base": base},
    }

    assert schema_of("gemini", schema)["properties"]["root"]["properties"] == {
        "child": {"type": "object", "nullable": True},
        "size": {"type": "integer"},
    }


def test_the_same_reference_twice_side_by_side_is_no_circle() -> None:
    schema = {
        "type": "object",
        "properties": {"from": {"$ref": "#/definitions/a~1b"}, "to": {"$ref": "#/definitions/a~1b"}},
        "definitions": {"a/b": {"type": "string"}},
    }

    assert schema_of("gemini", schema)["properties"] == {"from": {"type": "string"}, "to": {"type": "string"}}


@pytest.mark.parametrize("ref", ["#/$defs/gone", "https://example.com/schema.json"])
def test_a_broken_reference_is_left_out_for_gemini(ref: str) -> None:
    assert ref in why_not("gemini", {"type": "object", "properties": {"a": {"$ref": ref}}})


def test_a_small_schema_that_expands_to_a_huge_one_is_written_out_in_part_for_gemini() -> None:
    levels = {
        f"l{n}": {"type": "object", "properties": {side: {"$ref": f"#/$defs/l{n + 1}"} for side in "abcd"}}
        for n in range(20)
    }
    schema = {
        "type": "object",
        "properties": {"x": {"$ref": "#/$defs/l0"}},
        "$defs": {**levels, "l20": {"type": "null"}},
    }

    written = schema_of("gemini", schema)["properties"]["x"]

    assert written["properties"]["a"]["properties"]["b"]["properties"]["c"]["properties"]["d"] == {"type": "object"}


def test_a_schema_of_too_many_parts_is_left_out_for_gemini() -> None:
    fields = {f"field_{number}": {"type": "string"} for number in range(5_001)}

    assert "5000 parts" in why_not("gemini", {"type": "object", "properties": fields})


KNOWN_TO_GEMINI = {
    "type", "format", "description", "nullable", "enum", "maxItems", "minItems", "properties", "required",
    "minProperties", "maxProperties", "minLength", "maxLength", "pattern", "anyOf", "items", "minimum", "maximum",
}  # fmt: skip

LEAVES = st.sampled_from(
    [{}, {"type": "string", "format": "uuid"}, {"type": ["integer", "null"]}, {"const": 1}, {"enum": ["a", 2, None]}]
)
FIELDS = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.builds(lambda items: {"type": "array", "items": items, "uniqueItems": True}, inner),
        st.builds(lambda branches: {"anyOf": branches, "title": "T"}, st.lists(inner, min_size=1, max_size=3)),
        st.builds(lambda branches: {"oneOf": branches, "default": None}, st.lists(inner, min_size=1, max_size=3)),
        st.builds(
            lambda fields: {
                "type": "object",
                "properties": fields,
                "additionalProperties": False,
                "required": ["a", "z"],
            },
            st.dictionaries(st.sampled_from(["a", "b", "type"]), inner, max_size=3),
        ),
    ),
    max_leaves=8,
)


def assert_gemini_takes(schema: Any) -> None:
    assert set(schema) <= KNOWN_TO_GEMINI
    assert set(schema) == {"anyOf"} or isinstance(schema["type"], str)
    assert set(schema.get("required", ())) <= set(schema.get("properties", {}))
    assert all(isinstance(value, str) for value in schema.get("enum", ()))
    assert ("items" in schema) == (schema.get("type") == "array")
    for inner in [
        *schema.get("properties", {}).values(),
        *schema.get("anyOf", ()),
        *filter(None, [schema.get("items")]),
    ]:
        assert_gemini_takes(inner)


@given(FIELDS)
def test_a_gemini_schema_has_only_known_keywords(field: dict[str, Any]) -> None:
    assert_gemini_takes(schema_of("gemini", {"type": "object", "properties": {"field": field}, "required": ["field"]}))


# Options and examples


@pytest.mark.parametrize("format", ["openai", "responses"])
def test_a_hosted_tool_has_the_entry_of_its_provider(format: str) -> None:
    search = tool.hosted("web_search", options={"openai": {"type": "web_search", "filters": {"domains": ["a.org"]}}})

    described = shown(format, search)
    described[0]["filters"]["domains"].append("b.org")

    assert shown(format, search) == [{"type": "web_search", "filters": {"domains": ["a.org"]}}]


@pytest.mark.parametrize("format", ["anthropic", "gemini", "mcp"])
def test_a_hosted_tool_is_left_out_for_other_providers(format: str) -> None:
    search = tool.hosted("web_search", options={"openai": {"type": "web_search"}})

    assert f"no options for {format}" in shown(format, search).left_out["web_search"]


def test_options_for_a_provider_stand_beside_the_name() -> None:
    options = {"openai": {"strict": True}, "anthropic": {"cache_control": {"type": "ephemeral"}}}
    made = raw({}, provider_options=options)

    assert shown("openai", made)[0]["function"]["strict"] is True
    assert shown("responses", made)[0]["strict"] is True
    assert shown("anthropic", made)[0]["cache_control"] == {"type": "ephemeral"}
    assert "strict" not in shown("gemini", made)[0]


@pytest.mark.parametrize("format", FORMATS)
def test_options_never_change_the_name(format: str) -> None:
    entry = shown(format, raw({}, provider_options={key: {"name": "other"} for key in FORMATS}))[0]

    assert entry.get("function", entry)["name"] == "raw"


def test_an_anthropic_entry_has_the_valid_examples() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
    made = raw(schema, examples=[{"a": 1}, {"a": "one"}, "a=1"])

    assert shown("anthropic", made)[0]["input_examples"] == [{"a": 1}]
    assert "input_examples" not in shown("anthropic", raw(schema, examples=["a=1"]))[0]
    assert "input_examples" not in shown("openai", made)[0]


# What describe gives


def test_a_copy_can_be_added_to_without_changing_the_original() -> None:
    original = shown("openai", add, raw({"type": "string"}))

    copy = original.copy()
    copy[0]["function"]["strict"] = True
    copy[0]["cache_control"] = {}
    copy.left_out.clear()
    copy.append({})

    assert isinstance(copy, ToolDescriptions)
    assert len(original) == 1
    assert "strict" not in original[0]["function"]
    assert "cache_control" not in original[0]
    assert list(original.left_out) == ["raw"]


@pytest.mark.parametrize("format", FORMATS)
def test_what_is_described_is_plain_json(format: str) -> None:
    assert json.loads(json.dumps(shown(format, add))) == shown(format, add)
