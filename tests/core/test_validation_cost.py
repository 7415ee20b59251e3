"""Schemas of strangers that are small and would take hours to validate a value, or all memory to say what is wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from surehand.core.errors import DefinitionError, InvalidArguments
from surehand.core.raw_schema import RawParameters
from surehand.providers.mcp.tools.schema import ServerSchema

Names = Callable[[int], dict[str, Any]]
Reference = Callable[[int], str]
SPELLINGS: dict[str, tuple[Reference, Names]] = {
    "a pointer": (lambda i: f"#/$defs/a{i}", lambda i: {}),
    "a pointer with escapes": (lambda i: f"#/%24defs/a{i}", lambda i: {}),
    "an anchor": (lambda i: f"#n{i}", lambda i: {"$anchor": f"n{i}"}),
    "a dynamic anchor": (lambda i: f"#n{i}", lambda i: {"$dynamicAnchor": f"n{i}"}),
    "an identifier": (lambda i: f"r{i}", lambda i: {"$id": f"r{i}"}),
}


def _doubling(reference: Reference, names: Names, levels: int) -> dict[str, Any]:
    """A schema whose definitions each apply the next one twice."""
    definitions: dict[str, Any] = {f"a{levels}": {"type": "string", **names(levels)}}
    for i in range(levels):
        definitions[f"a{i}"] = {"anyOf": [{"$ref": reference(i + 1)}, {"$ref": reference(i + 1)}], **names(i)}
    return {"type": "object", "properties": {"x": {"$ref": reference(0)}}, "$defs": definitions}


def _tree(keyword: str) -> dict[str, Any]:
    """A schema that applies itself twice to each level of a value."""
    node = {
        "type": "object",
        "properties": {"n": {keyword: [{"$ref": "#/$defs/Node"}, {"$ref": "#/$defs/Node"}]}},
        "additionalProperties": False,
    }
    return {"type": "object", "properties": {"n": {"$ref": "#/$defs/Node"}}, "$defs": {"Node": node}}


def _nested(levels: int, innermost: dict[str, Any]) -> dict[str, Any]:
    value = innermost
    for _ in range(levels):
        value = {"n": value}
    return value


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_definitions_that_double_are_refused_however_their_references_are_written(spelling: str) -> None:
    schema = _doubling(*SPELLINGS[spelling], 24)

    with pytest.raises(DefinitionError, match="take hours"):
        RawParameters(schema).compile()
    assert not ServerSchema(schema).is_enforced


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_references_are_followed_however_they_are_written(spelling: str) -> None:
    parameters = RawParameters(_doubling(*SPELLINGS[spelling], 2))

    assert parameters.validate_mapping({"x": "a"}) == {"x": "a"}
    with pytest.raises(InvalidArguments):
        parameters.validate_mapping({"x": 1})


def test_definitions_that_all_apply_each_other_are_refused() -> None:
    names = [f"a{i}" for i in range(8)]
    definitions = {
        name: {"allOf": [{"$ref": f"#/$defs/{other}"} for other in names if other != name]} for name in names
    }
    schema = {"type": "object", "properties": {"x": {"$ref": "#/$defs/a0"}}, "$defs": definitions}

    with pytest.raises(DefinitionError, match="take hours"):
        RawParameters(schema).compile()
    assert not ServerSchema(schema).is_enforced


def test_kinds_that_refer_back_to_their_base_are_accepted() -> None:
    kinds = {f"K{i}": {"allOf": [{"$ref": "#/$defs/Base"}, {"required": [f"k{i}"]}]} for i in range(30)}
    base = {"type": "object", "anyOf": [{"$ref": f"#/$defs/{name}"} for name in kinds]}
    schema = {"type": "object", "properties": {"x": {"$ref": "#/$defs/Base"}}, "$defs": {"Base": base, **kinds}}

    assert RawParameters(schema).validate_mapping({"x": {"k1": 1}}) == {"x": {"k1": 1}}


@pytest.mark.parametrize("keyword", ["anyOf", "allOf", "oneOf"])
def test_a_value_that_is_too_deep_for_a_schema_that_contains_itself_twice_is_refused(keyword: str) -> None:
    parameters = RawParameters(_tree(keyword))

    with pytest.raises(InvalidArguments, match="takes too long"):
        parameters.validate_mapping(_nested(60, {"wrong": 1}))
    with pytest.raises(InvalidArguments, match="wrong" if keyword == "allOf" else "too large to say where"):
        parameters.validate_mapping(_nested(14, {"wrong": 1}))


def test_a_shallow_value_of_a_schema_that_contains_itself_is_explained() -> None:
    parameters = RawParameters(_tree("anyOf"))

    assert parameters.validate_mapping(_nested(5, {})) == _nested(5, {})
    with pytest.raises(InvalidArguments, match="wrong"):
        parameters.validate_mapping(_nested(3, {"wrong": 1}))


def test_a_value_that_takes_too_long_to_compare_is_left_to_the_server() -> None:
    schema = ServerSchema(_tree("anyOf"))
    value = _nested(60, {"wrong": 1})

    assert schema.validate_mapping(value) == value
    assert schema.find_problem(value) is None
    assert not schema.is_surely_valid(_nested(14, {"wrong": 1}))
    assert schema.find_problem(_nested(14, {"wrong": 1})) is not None


def test_names_that_are_evaluated_by_nested_schemas_count_as_often_as_they_are_compared() -> None:
    schema: dict[str, Any] = {"type": "object"}
    for _ in range(20):
        schema = {"allOf": [schema], "unevaluatedProperties": False}

    with pytest.raises(DefinitionError, match="take hours"):
        RawParameters({"type": "object", "properties": {"x": schema}}).compile()


def test_a_schema_may_refer_to_the_schema_of_schemas() -> None:
    parameters = RawParameters(
        {
            "type": "object",
            "properties": {"x": {"$ref": "https://json-schema.org/draft/2020-12/schema"}},
        }
    )

    assert parameters.validate_mapping({"x": {"type": "string"}}) == {"x": {"type": "string"}}
    with pytest.raises(InvalidArguments):
        parameters.validate_mapping({"x": {"type": 1}})


def test_a_large_flat_value_is_compared_and_its_first_error_is_named() -> None:
    parameters = RawParameters(
        {
            "type": "object",
            "properties": {
                "x": {"type": "array", "items": {"type": "object", "properties": {"a": {"type": "string"}}}}
            },
        }
    )
    items: list[dict[str, Any]] = [{"a": "b"}] * 50_000

    assert parameters.validate_mapping({"x": items}) == {"x": items}
    with pytest.raises(InvalidArguments, match=r"x\.49999\.a"):
        parameters.validate_mapping({"x": [*items[:-1], {"a": []}]})
