"""What models are shown of an operation, and what is enforced."""

from __future__ import annotations

from typing import Any

import pytest

from tests.providers.openapi.api_server import document, operation, serving_api, with_body, with_parameter


async def body_schema(schema: Any, components: dict[str, Any] | None = None, version: str = "3.0.3") -> dict[str, Any]:
    """The schema of the arguments of an operation with such a body."""
    described = with_body("application/json", schema, version=version)
    described["components"] = {"schemas": components or {}}
    async with serving_api(described) as api:
        return api.schema("send")


async def test_parameters_and_fields_of_the_body_are_one_flat_object():
    described = with_body(
        "application/json", {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}}}
    )
    described["paths"]["/x"]["post"]["parameters"] = [
        {"name": "dry", "in": "query", "description": "Only try.", "schema": {"type": "boolean"}}
    ]
    async with serving_api(described) as api:
        assert api.schema("send") == {
            "type": "object",
            "properties": {"dry": {"type": "boolean", "description": "Only try."}, "name": {"type": "string"}},
            "required": ["name"],
            "additionalProperties": False,
        }


async def test_a_name_in_body_and_parameters_keeps_the_body_apart():
    described = with_body("application/json", {"type": "object", "properties": {"id": {"type": "string"}}})
    described["paths"]["/x"]["post"]["parameters"] = [
        {"name": "id", "in": "query", "schema": {"type": "integer"}},
        {"name": "body", "in": "query", "schema": {}},
    ]
    async with serving_api(described) as api:
        sent = await api.send("send", {"id": 1, "request_body": {"id": "x"}})

        assert (sent.path, sent.body) == ("/x?id=1", b'{"id":"x"}')


async def test_one_name_in_two_places_is_two_arguments():
    parameters = [
        {"name": "id", "in": "path", "required": True, "schema": {}},
        {"name": "id", "in": "query", "schema": {}},
    ]
    async with serving_api(document({"/x/{id}": {"get": operation(parameters=parameters)}})) as api:
        assert (await api.send("send", {"id": 1, "id_query": 2})).path == "/x/1?id=2"


async def test_names_that_model_apis_refuse_are_changed_and_still_understood():
    described = with_parameter(name="filter[name]", schema={"type": "string"}, **{"in": "query"})
    async with serving_api(described) as api:
        assert list(api.schema("send")["properties"]) == ["filter_name"]
        for name in ("filter_name", "filter[name]"):
            assert (await api.send("send", {name: "x"})).path == "/x?filter%5Bname%5D=x"
        assert not api.runtime.describe("anthropic").left_out


async def test_a_cycle_stays_a_cycle():
    node = {
        "type": "object",
        "properties": {"children": {"type": "array", "items": {"$ref": "#/components/schemas/Node"}}},
    }
    schema = await body_schema({"$ref": "#/components/schemas/Node"}, {"Node": node})

    assert schema["properties"]["children"]["items"] == {"$ref": "#/$defs/Node"}
    assert schema["$defs"]["Node"]["properties"]["children"]["items"] == {"$ref": "#/$defs/Node"}


async def test_parts_of_all_of_are_merged_into_flat_fields():
    base = {"type": "object", "required": ["a"], "properties": {"a": {"type": "integer"}}}
    schema = await body_schema(
        {"allOf": [{"$ref": "#/components/schemas/Base"}, {"type": "object", "properties": {"b": {}}}]}, {"Base": base}
    )

    assert list(schema["properties"]) == ["a", "b"]
    assert schema["required"] == ["a"]


@pytest.mark.parametrize(
    ("field", "expected"),
    [
        ({"type": "string", "nullable": True}, {"type": ["string", "null"]}),
        ({"type": "string", "enum": ["a"], "nullable": True}, {"type": ["string", "null"], "enum": ["a", None]}),
        (
            {"nullable": True, "allOf": [{"type": "integer"}]},
            {"anyOf": [{"allOf": [{"type": "integer"}]}, {"type": "null"}]},
        ),
        ({"type": "number", "minimum": 0, "exclusiveMinimum": True}, {"type": "number", "exclusiveMinimum": 0}),
        (
            {"type": "string", "pattern": "(?=x)y", "description": "A code."},
            {"type": "string", "description": "A code. It must match the pattern (?=x)y"},
        ),
        (
            {"type": "string", "pattern": "(?=x)" + "y" * 300},
            {"type": "string", "description": "It must match a pattern of 305 characters, which is not checked here."},
        ),
        ({"type": "string", "pattern": "/^a+$/"}, {"type": "string", "pattern": "^a+$"}),
        ({"type": "strng"}, {}),
        ({"type": "int"}, {"type": "integer"}),
        ({"type": "string", "required": True, "minLength": "1"}, {"type": "string"}),
        ({"type": "string", "enum": [1, 2, 2]}, {"enum": [1, 2]}),
        ({"type": "string", "example": "x", "xml": {}}, {"type": "string", "examples": ["x"]}),
        ({"oneOf": [{"type": "string"}, {"type": "integer"}]}, {"oneOf": [{"type": "string"}, {"type": "integer"}]}),
        ({"type": "array", "items": {"type": "string", "maxLength": 3}}, None),
    ],
)
async def test_a_field_is_converted_to_json_schema_and_mistakes_are_left_out(field, expected):
    schema = await body_schema({"type": "object", "properties": {"f": field}})

    assert schema["properties"]["f"] == (field if expected is None else expected)


@pytest.mark.parametrize(
    "described",
    [
        {"schema": {"type": "string"}, "example": "t-1"},
        {"schema": {"type": "string"}, "examples": {"none": {"summary": "?"}, "one": {"value": "t-1"}}},
        {"schema": {"type": "string"}, "examples": {"gone": {"$ref": "#/nowhere"}, "one": {"$ref": "#/x-example"}}},
        {"schema": {"type": "string"}, "examples": {"one": {"dataValue": "t-1"}}},
        {"content": {"text/plain": {"schema": {"type": "string"}, "example": "t-1"}}},
        {"schema": {"type": "string", "example": "t-1"}, "example": "t-2"},
    ],
)
async def test_a_model_is_shown_the_example_of_a_parameter(described):
    root = with_parameter(name="tenant", **{"in": "query"}, **described) | {"x-example": {"value": "t-1"}}
    async with serving_api(root) as api:
        assert api.schema("send")["properties"]["tenant"] == {"type": "string", "examples": ["t-1"]}


async def test_a_model_is_shown_the_example_of_a_body_with_its_fields():
    fields = {"name": {"type": "string"}, "age": {"type": "integer", "example": 3}, "free": {}}
    example = {"name": "Rex", "age": 4, "other": 1}
    described = with_body("application/json", {"type": "object", "properties": fields}, example=example)
    async with serving_api(described) as api:
        assert api.schema("send")["properties"] == {
            "name": {"type": "string", "examples": ["Rex"]},
            "age": {"type": "integer", "examples": [3]},
            "free": {},
        }


async def test_a_model_is_shown_the_example_of_a_body_that_is_one_argument():
    schema = {"type": "array", "items": {"type": "integer"}}
    async with serving_api(with_body("application/json", schema, examples={"a": {"value": [1, 2]}})) as api:
        assert api.schema("send")["properties"]["body"] == {**schema, "examples": [[1, 2]]}


async def test_an_example_that_is_large_is_left_out():
    async with serving_api(with_parameter(name="q", **{"in": "query"}, schema={}, example="x" * 10_000)) as api:
        assert api.schema("send")["properties"]["q"] == {}


async def test_version_3_1_is_json_schema_already():
    field = {"type": ["string", "null"], "const": "x", "examples": ["x"]}
    schema = await body_schema(
        {"type": "object", "properties": {"f": field, "g": {"$ref": "#/components/schemas/G", "description": "Own."}}},
        {"G": {"prefixItems": [{"type": "integer"}], "items": False}},
        version="3.1.0",
    )

    assert schema["properties"]["f"] == field
    assert schema["properties"]["g"] == {"$ref": "#/$defs/G", "description": "Own."}
    assert schema["$defs"]["G"] == {"prefixItems": [{"type": "integer"}], "items": {"not": {}}}


async def test_long_descriptions_are_cut_at_a_sentence():
    text = "The first sentence says it all. " + "And this one goes on and on. " * 100
    described = with_parameter(name="a", description=text, schema={"type": "string"}, **{"in": "query"})
    described["paths"]["/x"]["get"] |= {"summary": "Do it", "description": text, "deprecated": True}
    async with serving_api(described) as api:
        field = api.schema("send")["properties"]["a"]["description"]
        tool = api.runtime.catalogue.find("api__send").tool  # type: ignore[union-attr]

        assert field.startswith("The first sentence says it all. And")
        assert field.endswith(".")
        assert len(field) <= 400
        assert tool.description.startswith("Deprecated. Do it. The first sentence")
        assert tool.description.endswith("(GET /x)")
        assert len(tool.description) < 1_400


async def test_hidden_characters_of_a_description_do_not_reach_a_model():
    described = with_parameter(name="a", description="x\u202e\u200by", schema={"type": "string"}, **{"in": "query"})
    async with serving_api(described) as api:
        assert api.schema("send")["properties"]["a"]["description"] == "xy"


async def test_no_output_schema_is_shown():
    responses = {"200": {"description": "", "content": {"application/json": {"schema": {"title": "Answer-schema"}}}}}
    async with serving_api(document({"/x": {"get": operation(responses=responses)}})) as api:
        for format in ("openai", "responses", "anthropic", "gemini", "mcp"):
            assert "Answer-schema" not in str(api.runtime.describe(format))


async def test_a_huge_schema_is_shown_in_part_and_still_validates():
    components = {
        f"T{n}": {
            "type": "object",
            "properties": {f"p{m}": {"$ref": f"#/components/schemas/T{(n * 7 + m) % 300}"} for m in range(10)},
            "description": "x" * 300,
        }
        for n in range(300)
    }
    described = with_body("application/json", {"$ref": "#/components/schemas/T0"})
    described["components"] = {"schemas": components}
    async with serving_api(described) as api:
        assert len(str(api.schema("send"))) < 30_000
        assert (await api.call("send", {"p0": {"p1": {}}})).ok
        assert (await api.call("send", {"p0": 1})).code == "invalid_arguments"


async def test_arguments_are_validated_before_anything_is_sent():
    described = with_parameter(name="n", required=True, schema={"type": "integer", "minimum": 1}, **{"in": "query"})
    async with serving_api(described) as api:
        for arguments in ({}, {"n": 0}, {"n": "x"}, {"n": 1, "m": 2}):
            assert (await api.call("send", arguments)).code == "invalid_arguments"
        assert api.server.asked == []
        assert (await api.send("send", {"n": "3"})).path == "/x?n=3"
