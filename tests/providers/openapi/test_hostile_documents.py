"""Documents that a hostile author made to stop a process: each is refused with the limit's name, or costs little."""

from __future__ import annotations

import json
from typing import Any

import pytest

from surehand import Runtime
from surehand.core.errors import DefinitionError
from surehand.providers.openapi.factory import openapi
from tests.http.server import reply
from tests.providers.openapi.api_server import document, operation, serving_api, with_body

SERVERS = [{"url": "https://api.example"}]
YAML_HEAD = "openapi: 3.1.0\nservers: [{url: 'https://api.example'}]\npaths: {}\n"


async def open_document(path: Any, **options: Any) -> list[str]:
    """Start a runtime with the document, and return the reasons for what is left out."""
    provider = openapi(path, namespace="api", required=True, **options)
    async with Runtime(provider):
        return [reason for _, reason in provider.skipped]


async def compiled_schema(root: dict[str, Any]) -> dict[str, Any]:
    """The schema that a model is shown of the operation `send`."""
    async with serving_api(root) as api:
        return api.schema("send")


def aliases(first: str, each: str, levels: int) -> str:
    """YAML in which every value stands nine times in the next one."""
    lines = [f"x-a0: &a0 {first}"]
    lines += [f"x-a{n}: &a{n} {each.replace('@', ','.join([f'*a{n - 1}'] * 9))}" for n in range(1, levels)]
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (YAML_HEAD + aliases("[lol]", "[@]", 12), "aliases that stand for more than 134,217,728 characters"),
        (YAML_HEAD + aliases("{type: string}", "{allOf: [@]}", 14), "aliases that stand for more than"),
        (YAML_HEAD + "x-a: &a {b: *a}\n", "a value that holds itself"),
        (YAML_HEAD + "x-a: " + "[" * 1_000_000, "nested deeper than 500 levels"),
        ("[" * 1_000_000, "recursion"),
        ('{"x": [' + "1," * 5_000_001 + "1]}", "more than 5,000,000 values"),
    ],
    ids=["billion laughs", "billion schemas", "cycle", "deep YAML", "deep JSON", "values"],
)
async def test_a_document_past_its_limits_is_refused_with_the_name_of_the_limit(content, problem, tmp_path):
    path = tmp_path / "api.yaml"
    path.write_text(content)

    with pytest.raises(DefinitionError) as refused:
        await open_document(path)

    assert problem in str(refused.value)


async def test_a_yaml_file_with_too_many_values_is_refused_while_it_is_parsed(tmp_path, monkeypatch):
    monkeypatch.setattr("surehand.providers.openapi.load.MAX_DOCUMENT_VALUES", 1_000)
    path = tmp_path / "api.yaml"
    path.write_text(YAML_HEAD + "x: [" + "a, " * 2_000 + "a]")

    with pytest.raises(DefinitionError, match=r"api\.yaml is too large: it has more than 5,000,000 values"):
        await open_document(path)


async def test_aliases_that_stand_for_little_are_read(tmp_path):
    path = tmp_path / "api.yaml"
    path.write_text(YAML_HEAD + aliases("[lol]", "[@]", 4))

    assert await open_document(path) == []


async def test_a_dictionary_with_aliases_that_stand_for_too_much_is_not_pinned(tmp_path):
    value: Any = ["lol"]
    for _ in range(12):
        value = [value] * 9
    root = document({"/x": {"get": operation(description=value)}}, servers=SERVERS)

    with pytest.raises(DefinitionError, match="aliases that stand for more than"):
        await open_document(root, lock=tmp_path / "lock.json")


async def test_a_document_with_too_many_operations_is_refused(monkeypatch):
    monkeypatch.setattr("surehand.providers.openapi.imported_document.MAX_OPERATIONS", 3)
    root = document({f"/{n}": {"get": operation()} for n in range(4)}, servers=SERVERS)

    with pytest.raises(DefinitionError, match="more than 3 operations"):
        await open_document(root)


@pytest.mark.parametrize(
    ("definition", "problem"),
    [
        (
            operation(parameters=[{"name": f"p{n}", "in": "query", "schema": {}} for n in range(1_001)]),
            "more than 1,000 parameters",
        ),
    ],
)
async def test_an_operation_past_its_limits_costs_itself_alone(definition, problem):
    root = document({"/x": {"get": definition}, "/y": {"get": operation(operationId="other")}}, servers=SERVERS)

    [reason] = await open_document(root)

    assert problem in reason


async def test_a_path_that_is_too_long_costs_its_operation_alone():
    path = "/" + "{a" * 1_000_000
    [reason] = await open_document(document({path: {"get": operation()}}, servers=SERVERS))

    assert reason == "Its path has 2,000,001 characters; at most 8,192 are sent."


@pytest.mark.parametrize("media_type", ["application/json", "multipart/form-data", "application/x-www-form-urlencoded"])
@pytest.mark.parametrize("layers", [1, 40], ids=["a circle", "layers"])
async def test_schemas_that_are_joined_in_billions_of_ways_are_each_read_once(media_type, layers):
    schemas: dict[str, Any] = {
        f"A{n}": {"allOf": [{"$ref": f"#/components/schemas/A{(n + 1) % layers}"}] * 12} for n in range(layers)
    }
    schemas["A0"]["properties"] = {"a": {"type": "string"}}
    root = with_body(media_type, {"$ref": "#/components/schemas/A0"}) | {"components": {"schemas": schemas}}

    schema = await compiled_schema(root)

    assert schema["properties"] == {"a": {"type": "string"}}


async def test_a_body_that_joins_too_many_schemas_costs_its_operation_alone():
    parts = [{"properties": {"a": {"type": "string"}}} for _ in range(1_001)]
    async with serving_api(with_body("application/json", {"allOf": parts})) as api:
        outcome = await api.call("send", {})

        assert (outcome.code, outcome.executed) == ("invalid_arguments", False)
        assert "more than 1,000 schemas" in outcome.message
        assert len(api.provider.check_operations()) == 1


async def test_choices_without_end_are_left_out_and_the_others_stay():
    fields = {"many": {"enum": [f"v{n}" for n in range(200_000)]}, "few": {"enum": ["a", "b"]}}
    schema = await compiled_schema(with_body("application/json", {"type": "object", "properties": fields}))

    assert schema["properties"] == {"many": {}, "few": {"enum": ["a", "b"]}}


async def test_a_schema_without_end_accepts_any_value_beyond_what_is_written_out():
    wide = {"type": "object", "properties": {f"p{n}": {"type": "string"} for n in range(100_000)}}
    fields = {"first": {"type": "string"}, "wide": wide, "last": {"type": "string"}}
    schema = await compiled_schema(with_body("application/json", {"type": "object", "properties": fields}))

    assert schema["properties"] == {"first": {"type": "string"}, "wide": {}, "last": {"type": "string"}}


async def test_chains_of_references_are_followed_as_far_as_a_model_is_shown():
    schemas: dict[str, Any] = {
        f"A{n}": {"type": "object", "properties": {"n": {"$ref": f"#/components/schemas/A{n + 1}"}}}
        for n in range(20_000)
    }
    schemas["A20000"] = {"type": "string"}
    body = {"type": "object", "properties": {"a": {"$ref": "#/components/schemas/A0"}}}
    schema = await compiled_schema(with_body("application/json", body) | {"components": {"schemas": schemas}})

    assert 50 < len(schema["$defs"]) < 1_000
    assert {"description": "Any value."} in schema["$defs"].values()


@pytest.mark.parametrize("pattern", [r"^(a+)+$", r"^(a|a)*$", r"^(a|aa)+$", r"^([a-z]+)*!$"])
async def test_a_pattern_that_backtracks_elsewhere_is_matched_in_linear_time(pattern):
    field = {"type": "string", "pattern": pattern}
    root = with_body("application/json", {"type": "object", "properties": {"a": field}})
    async with serving_api(root) as api:
        outcome = await api.call("send", {"a": "a" * 100_000 + "?"})

        assert api.schema("send")["properties"]["a"] == field
        assert outcome.code == "invalid_arguments"


async def test_patterns_that_compile_to_megabytes_are_told_and_not_checked():
    written = r"((\w{100}){100}){10}"
    root = with_body("application/json", {"type": "object", "properties": {"a": {"pattern": written}}})
    async with serving_api(root) as api:
        assert api.schema("send")["properties"]["a"] == {"description": f"It must match the pattern {written}"}
        assert (await api.call("send", {"a": "x"})).ok


async def test_only_so_many_patterns_of_an_operation_are_compiled():
    fields = {f"p{n}": {"type": "string", "pattern": rf"^[a-z]{{1,900}}{n}$"} for n in range(200)}
    schema = await compiled_schema(with_body("application/json", {"type": "object", "properties": fields}))

    with_patterns = [name for name, field in schema["properties"].items() if "pattern" in field]
    assert with_patterns == list(fields)[: len(with_patterns)]
    assert 0 < len(with_patterns) < 20


async def test_alternatives_that_multiply_are_not_checked():
    nested: dict[str, Any] = {"type": "string"}
    for _ in range(12):
        nested = {"type": "object", "properties": {"a": nested, "b": {"oneOf": [nested, nested]}}}
    root = with_body("application/json", {"type": "object", "properties": {"a": nested}})
    async with serving_api(root) as api:
        assert len(json.dumps(api.schema("send"))) < 300_000
        assert (await api.call("send", {"a": {"b": {}}})).ok


def circle(keyword: str, count: int) -> dict[str, Any]:
    """A document whose body contains itself, and is compared so often with each level of a value."""
    alternatives = [{"$ref": "#/components/schemas/A"}] * count
    schemas = {"A": {"type": "object", "properties": {"n": {keyword: alternatives}, "z": {"type": "integer"}}}}
    body = {"type": "object", "properties": {"a": {"$ref": "#/components/schemas/A"}}}
    return with_body("application/json", body) | {"components": {"schemas": schemas}}


def nested(levels: int, **innermost: Any) -> dict[str, Any]:
    value: dict[str, Any] = innermost
    for _ in range(levels):
        value = {"n": value}
    return {"a": value}


@pytest.mark.parametrize("keyword", ["anyOf", "allOf", "oneOf"])
async def test_a_value_that_would_be_compared_2_to_the_60_times_is_refused_before_it_is(keyword):
    async with serving_api(circle(keyword, 2)) as api:
        outcome = await api.call("send", nested(60, z="x"))

        assert (outcome.code, outcome.executed) == ("invalid_arguments", False)
        assert "deeply nested" in outcome.message


async def test_a_schema_that_contains_itself_once_takes_deep_values():
    async with serving_api(circle("anyOf", 1)) as api:
        assert (await api.call("send", nested(90, z=1))).ok
        refused = await api.call("send", nested(90, z="x"))

        assert refused.code == "invalid_arguments"


async def test_large_arguments_are_validated_though_mistakes_in_them_are_not_explained():
    item = {"oneOf": [{"type": "integer"}, {"type": "boolean"}]}
    rows = {"type": "array", "items": {"type": "array", "items": item}}
    root = with_body("application/json", {"type": "object", "properties": {"rows": rows}})
    async with serving_api(root) as api:
        fine = await api.call("send", {"rows": [[1, True]] * 20_000})
        wrong = await api.call("send", {"rows": [[1, "x"]] * 20_000})

        assert fine.ok
        assert wrong.code == "invalid_arguments"
        assert "too large to say where" in wrong.message


async def test_a_large_response_is_not_compared_with_its_document():
    responses = {"200": {"content": {"application/json": {"schema": {"type": "array", "items": {"type": "integer"}}}}}}
    root = document({"/x": {"get": operation(responses=responses)}})
    bodies = [json.dumps(["x"] * count) for count in (10, 100_000)]
    async with serving_api(root, lambda _: reply(bodies.pop(0), content_type="application/json")) as api:
        small = await api.call("send")
        large = await api.call("send")

        assert "note" in small.metadata
        assert large.ok
        assert "note" not in large.metadata


async def test_thousands_of_anchors_are_found_in_one_pass():
    schemas = {f"A{n}": {"$anchor": f"a{n}", "type": "string"} for n in range(3_000)}
    paths = {
        f"/{n}": {
            "get": operation(
                operationId=f"o{n}", parameters=[{"name": "p", "in": "query", "schema": {"$ref": f"#a{n}"}}]
            )
        }
        for n in range(3_000)
    }
    root = document(paths, "3.1.0", servers=SERVERS, components={"schemas": schemas})

    assert await open_document(root) == []


async def test_a_value_that_is_very_deep_is_not_copied():
    deep: Any = 1
    for _ in range(300):
        deep = [deep]
    fields = {"a": {"type": "array", "default": deep}, "b": {"type": "array", "default": [[1]]}}
    schema = await compiled_schema(with_body("application/json", {"type": "object", "properties": fields}))

    assert schema["properties"] == {"a": {"type": "array"}, "b": {"type": "array", "default": [[1]]}}
