"""Strict parsing of JSON."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from surehand.core.errors import InvalidArguments
from surehand.core.strict_json import (
    MAX_JSON_DEPTH,
    MalformedJson,
    count_key_colons,
    parse_json,
    validate_json_value,
    validate_unique_keys,
)


@pytest.mark.parametrize("text", ["1", "null", '"x"', "[]", '{"a": [1, {"b": 2}]}', b'{"a": 1}', " {} "])
def test_plain_json_is_read(text: str | bytes) -> None:
    assert parse_json(text) == json.loads(text)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"a": 1, "a": 2}', "'a' is given twice"),
        ('[{"a": {"b": 1, "b": 1}}]', "'b' is given twice"),
        ("NaN", "not valid JSON"),
        ("[Infinity]", "not valid JSON"),
        ("[-1e999]", "-inf is not a number"),
        ('"\\ud800"', "not valid JSON"),
        ('"\ud800"', "lone surrogate"),
        ("[" * 100_000, "nested deeper than 200 levels"),
        ("[" * MAX_JSON_DEPTH + "]" * MAX_JSON_DEPTH + "x", "not valid JSON"),
        ('{"a": 1', "not valid JSON"),
        ("{'a': 1}", "not valid JSON"),
        ('{"a": 1} and more', "not valid JSON"),
        ("", "not valid JSON"),
        (b"\xff", "not valid JSON"),
    ],
    ids=range(14),
)
def test_anything_else_is_refused_with_the_reason(text: str | bytes, reason: str) -> None:
    with pytest.raises(InvalidArguments, match=reason):
        parse_json(text)


def test_only_text_that_is_no_json_is_worth_mending() -> None:
    with pytest.raises(MalformedJson):
        parse_json('{"a": 1')
    with pytest.raises(InvalidArguments) as caught:
        parse_json('{"a": 1, "a": 2}')
    assert not isinstance(caught.value, MalformedJson)


def test_depth_is_counted_the_same_in_text_and_in_values() -> None:
    def text(levels: int) -> str:
        return "[" * levels + "]" * levels

    assert parse_json(text(MAX_JSON_DEPTH)) == json.loads(text(MAX_JSON_DEPTH))
    with pytest.raises(InvalidArguments, match="nested deeper"):
        parse_json(text(MAX_JSON_DEPTH + 1))
    with pytest.raises(InvalidArguments, match="nested deeper"):
        validate_json_value(json.loads(text(MAX_JSON_DEPTH + 1)))


def test_a_value_that_holds_itself_is_refused() -> None:
    value: list[Any] = []
    value.append(value)

    with pytest.raises(InvalidArguments, match="nested deeper"):
        validate_json_value(value)


KEYS = st.text(st.characters(exclude_categories=["Cs"]))


TREES = st.recursive(KEYS, lambda inner: st.lists(inner) | st.dictionaries(KEYS, inner), max_leaves=10)


@settings(max_examples=50)
@given(TREES, st.sampled_from([None, 1]))
def test_there_are_never_more_keys_than_colons(value: Any, indent: int | None) -> None:
    text = json.dumps(value, indent=indent)

    validate_unique_keys(text)
    assert count_key_colons(text) >= _keys(value)


def _keys(value: Any) -> int:
    if isinstance(value, dict):
        return len(value) + sum(map(_keys, value.values()))
    return sum(map(_keys, value)) if isinstance(value, list) else 0
