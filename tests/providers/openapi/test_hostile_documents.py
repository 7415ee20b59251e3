"""Documents that a hostile author made to stop a process: each is refused with the limit's name, or costs little."""

from __future__ import annotations

import json
from typing import Any

import pytest

from surehand import Runtime
from surehand.core.errors import DefinitionError
from surehand.providers.openapi.factory import openapi
from surehand.providers.openapi.load import load_mapping
from surehand.providers.openapi.operation_digest import OperationDigests
from surehand.providers.openapi.operations import collect_operations
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
        ('{"x": [' + '"}",' * 2_500_001 + "1]}", "more than 1,000,000 names and texts in a row"),
    ],
    ids=["billion laughs", "billion schemas", "cycle", "deep YAML", "deep JSON", "values", "flat"],
)
async def test_a_document_past_its_limits_is_refused_with_the_name_of_the_limit(content, problem, tmp_path):
    path = tmp_path / "api.yaml"
    path.write_text(content)

    with pytest.raises(DefinitionError) as refused:
        await open_document(path)

    assert problem in str(refused.value)


async def test_a_text_without_its_end_is_looked_at_once(tmp_path):
    path = tmp_path / "api.json"
    path.write_text('{"x": [' + "1," * 2_500_001 + '"' + r"\"" * 1_000_000)

    with pytest.raises(DefinitionError, match="Unterminated string"):  # in time: not once for each quotation mark
        await open_document(path)


async def test_anchors_of_yaml_are_found_wherever_they_begin(tmp_path, monkeypatch):
    monkeypatch.setattr("surehand.providers.openapi.load.SEARCHED_CHARS", 7)
    monkeypatch.setattr("surehand.providers.openapi.document_limits.MAX_EXPANDED_CHARS", 1_000)
    path = tmp_path / "api.yaml"
    for spaces in range(7):
        path.write_text(YAML_HEAD + "#" + " " * spaces + "\n" + aliases("[lol]", "[@]", 5))
        with pytest.raises(DefinitionError, match="aliases that stand for more than"):
            await open_document(path)


def with_schemas(schemas: dict[str, Any], operations: dict[str, str]) -> dict[str, Any]:
    """A document whose operations have bodies of the named schemas."""
    paths = {
        f"/{name}": {
            "post": operation(
                operationId=name,
                requestBody={"content": {"application/json": {"schema": {"$ref": f"#/components/schemas/{schema}"}}}},
            )
        }
        for name, schema in operations.items()
    }
    return document(paths, servers=SERVERS, components={"schemas": schemas})


def refers_to(*names: str) -> dict[str, Any]:
    return {"type": "object", "properties": {name: {"$ref": f"#/components/schemas/{name}"} for name in names}}


async def test_a_large_part_with_a_mistake_is_walked_for_one_operation_and_not_for_all():
    fields = {f"p{n}": {"items": {"type": "string"}} for n in range(20_000)}
    schemas = {"Big": {"properties": {"bad": {"$ref": "#/components/schemas/Gone"}, **fields}}}
    root = with_schemas(schemas, {f"o{n}": "Big" for n in range(2_000)})

    reasons = await open_document(root)

    assert reasons == ["The reference #/components/schemas/Gone leads nowhere."] * 2_000


async def test_operations_are_left_out_for_what_they_reach_themselves_and_for_nothing_else():
    schemas = {
        "Fine": refers_to("Leaf"),
        "Leaf": {"type": "string"},
        "Bad": refers_to("Fine", "Gone", "Leaf"),
        "First": refers_to("Second", "Leaf"),
        "Second": refers_to("First", "Bad"),
        "Circle": refers_to("Circle", "Fine"),
    }
    order = ["First", "Fine", "Second", "Leaf", "Bad", "Circle"]
    for names in (order, order[::-1]):
        provider = openapi(with_schemas(schemas, {name: name for name in names}), namespace="api")
        async with Runtime(provider):
            assert {label for label, _ in provider.skipped} == {"POST /First", "POST /Second", "POST /Bad"}
            assert {reason for _, reason in provider.skipped} == {
                "The reference #/components/schemas/Gone leads nowhere."
            }


async def test_parameters_that_very_many_operations_share_have_a_limit(monkeypatch):
    monkeypatch.setattr("surehand.providers.openapi.operation_check.MAX_DOCUMENT_VALUES", 1_000)
    parameters = [{"name": f"p{n}", "in": "query", "schema": {}} for n in range(100)]
    item = {"parameters": parameters, "get": {"responses": {}}}
    paths = {f"/{n}": {"$ref": "#/x-item"} for n in range(20)}

    with pytest.raises(DefinitionError, match="more than 1,000 parameters of operations"):
        await open_document(document(paths, servers=SERVERS, **{"x-item": item}))


async def test_paths_that_share_very_many_operations_are_refused_before_they_are_collected():
    item = {"additionalOperations": {f"M{n}": {"responses": {}} for n in range(1_000)}}
    paths = {f"/{n}": {"$ref": "#/x-item"} for n in range(40_000)}

    with pytest.raises(DefinitionError, match="more than 50,000 operations"):
        await open_document(document(paths, "3.2.0", servers=SERVERS, **{"x-item": item}))


def digests_of(root: dict[str, Any]) -> dict[str, str]:
    loaded = load_mapping(root)
    digests = OperationDigests(loaded)
    return {each.operation_id: digests.digest(each) for each in collect_operations(loaded).operations}


def test_a_chain_of_definitions_is_hashed_once_and_not_from_each_of_them():
    schemas = {f"S{n}": refers_to(f"S{n + 1}") for n in range(6_000)} | {"S6000": {"type": "string"}}
    names = {f"o{n}": f"S{n}" for n in range(6_000)}

    before = digests_of(with_schemas(schemas, names))
    after = digests_of(with_schemas(schemas | {"S6000": {"type": "integer"}}, names))

    assert len(set(before.values())) == 6_000
    assert all(before[name] != after[name] for name in names)


def test_a_digest_covers_all_that_can_be_reached_and_nothing_else():
    schemas = {
        "A": refers_to("B", "Leaf"),
        "B": refers_to("C"),
        "C": refers_to("A", "Other"),
        "Leaf": {"type": "string"},
        "Other": {"type": "integer"},
        "Alone": {"type": "boolean"},
    }
    names = {name: name for name in schemas}
    before = digests_of(with_schemas(schemas, names))

    def changed(**new: Any) -> set[str]:
        after = digests_of(with_schemas({**schemas, **new}, names))
        return {name for name in names if after[name] != before[name]}

    assert changed() == set()
    assert changed(Leaf={"type": "null"}) == {"A", "B", "C", "Leaf"}
    assert changed(Alone={"type": "null"}) == {"Alone"}
    assert changed(B=refers_to("C", "Leaf")) == {"A", "B", "C"}
    # The same parts under each other's names are another document.
    assert changed(Leaf=schemas["Other"], Other=schemas["Leaf"]) == {"A", "B", "C", "Leaf", "Other"}


def test_the_order_of_a_document_does_not_change_a_digest():
    schemas = {"A": refers_to("B"), "B": refers_to("A", "C"), "C": refers_to("C")}
    names = {name: name for name in schemas}
    backwards = dict(reversed(names.items()))

    assert digests_of(with_schemas(schemas, names)) == digests_of(
        with_schemas(dict(reversed(schemas.items())), backwards)
    )


def test_references_into_each_other_that_stand_for_too_much_are_not_hashed(monkeypatch):
    monkeypatch.setattr("surehand.providers.openapi.operation_digest.MAX_HASHED_CHARS", 100_000)
    value: dict[str, Any] = {"description": "x" * 1_000}
    for _ in range(200):
        value = {"n": value}
    refs = [{"$ref": f"#/x-deep{'/n' * depth}"} for depth in range(200)]
    schema = {"allOf": refs}
    root = with_body("application/json", schema) | {"x-deep": value}

    with pytest.raises(DefinitionError, match="references to more than 100,000 characters"):
        digests_of(root)


async def test_only_so_many_media_types_are_looked_at():
    content = {f"text/x{n}": {"schema": {"type": "string"}} for n in range(10_000)}
    content["application/json"] = {"schema": {"type": "string"}}
    responses = {"200": {"content": {f"application/v{n}+json": {} for n in range(10_000)}}}
    root = document({"/x": {"post": operation(requestBody={"content": content}, responses=responses)}})
    async with serving_api(root) as api:
        sent = await api.send("send", {"body": "text"})

        assert (sent.body, sent.headers["content-type"]) == (b"text", "text/x0")
        assert sent.headers["accept"] == "application/v0+json, application/v1+json, application/v2+json, */*;q=0.1"


async def test_a_form_with_very_many_fields_is_one_argument():
    parts = [{"properties": {f"f{n}": {"type": "string", "format": "binary"} for n in range(900)}} for _ in range(50)]
    root = with_body("multipart/form-data", {"allOf": parts})
    async with serving_api(root) as api:
        assert list(api.schema("send")["properties"]) == ["body"]


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
    monkeypatch.setattr("surehand.providers.openapi.operations.MAX_OPERATIONS", 3)
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
        (
            operation(parameters=[{"name": "same", "in": "query", "schema": {}} for _ in range(1_001)]),
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
