"""Plain results: those accepted without the SDK's models are valid for the SDK, and convert to the same outcome."""

import json
from math import inf, nan
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from mcp_types.methods import validate_server_result
from pydantic_core import from_json

from surehand import Done, ToolError
from surehand.core.strict_json import validate_json_value
from surehand.providers.mcp.tools.plain_result import MAX_DIRECT_BLOCKS, MAX_DIRECT_BYTES, is_plain_result
from surehand.providers.mcp.tools.result import (
    build_output_validator,
    done_from_plain_result,
    done_from_result,
    is_heavy,
)

HANDSHAKE_VERSIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
MODERN_VERSIONS = ("2026-07-28",)
SERVER = {"io.modelcontextprotocol/serverInfo": {"name": "x", "version": "1"}}
TEXT = {"type": "text", "text": "5"}
WRAPS = {"x-fastmcp-wrap-result": True}

PLAIN = {
    "text": {"content": [TEXT]},
    "nothing": {"content": []},
    "texts": {"content": [TEXT, {"text": "\x1b[31mred\u202e", "type": "text"}, TEXT]},
    "structure": {"content": [TEXT], "structuredContent": {"result": 5}, "isError": False},
    "structure alone": {"content": [], "structuredContent": {"a": [1, 2.5, None, {"b": "\u200bx"}]}},
    "an empty structure": {"content": [], "structuredContent": {}},
    "an error": {"content": [TEXT], "isError": True},
    "an error with structure": {"content": [TEXT], "isError": True, "structuredContent": {"c": 7}, "_meta": {"a": 1}},
    "a mark": {"content": [TEXT], "_meta": {"fastmcp": {"wrap_result": True}}, "structuredContent": {"result": [1]}},
    "notes": {"content": [TEXT], "_meta": {"a": [1]}, "structuredContent": {"result": [1]}},
    "the server": {"content": [TEXT], "_meta": SERVER},
    "as many blocks as there may be": {"content": [TEXT] * MAX_DIRECT_BLOCKS},
}
UNUSUAL: dict[str, Any] = {
    "no content": {},
    "content of another kind": {"content": {"type": "text", "text": "x"}},
    "a block of another kind": {"content": [TEXT, "x"]},
    "a block that is no text": {"content": [{"type": "image", "data": "aGk=", "mimeType": "image/png"}]},
    "text that is none": {"content": [{"type": "text", "text": 5}]},
    "a type that is none": {"content": [{"type": ["text"], "text": "x"}]},
    "no text": {"content": [{"type": "text"}]},
    "annotations": {"content": [{**TEXT, "annotations": {"priority": 1}}]},
    "annotations out of bounds": {"content": [{**TEXT, "annotations": {"priority": 2}}]},
    "notes on a block": {"content": [{**TEXT, "_meta": {}}]},
    "an error flag of 7": {"content": [TEXT], "isError": 7},
    "an error flag of 1": {"content": [TEXT], "isError": 1},
    "an error flag of none": {"content": [TEXT], "isError": None},
    "notes that are none": {"content": [TEXT], "_meta": [1]},
    "no notes": {"content": [TEXT], "_meta": None},
    "numbers that are none": {"content": [TEXT], "structuredContent": {"a": [nan, -inf]}},
    "notes without end": {"content": [TEXT], "_meta": {"a": inf}},
    "many blocks": {"content": [TEXT] * (MAX_DIRECT_BLOCKS + 1)},
    "a key of no protocol": {"content": [TEXT], "x": 1},
    "a task": {"content": [TEXT], "task": {"taskId": "x"}},
}
STRUCTURES: dict[str, Any] = {"a list": [1], "a text": "x", "a number": 5, "nothing": None, "false": False}
SCHEMAS: list[Any] = [
    None,
    {"type": "object"},
    {"type": "object", "properties": {"result": {"type": "integer"}}, "required": ["result"], **WRAPS},
    {"type": "object", "properties": {"a": {"type": "array", "items": {"type": "integer"}}}},
    {"type": "object", "additionalProperties": {"type": "string", "pattern": "^x+$"}},
    {"anyOf": [{"type": "array"}, {"type": "string"}]},
]


def modern(result: dict[str, Any]) -> dict[str, Any]:
    return {**result, "resultType": "complete"}


def is_accepted_by_sdk(result: Any, version: str) -> bool:
    try:
        validate_server_result("tools/call", version, result)
    except ValueError:
        return False
    return True


def outcome(made: Any, result: Any, check: Any) -> Any:
    """What comes of it, in words that can be compared."""
    try:
        done: Done = made(result, check)
    except ToolError as error:
        return type(error), error.code, str(error), error.data
    return done, done.content, done.text, dict(done.metadata or {})


def assert_same_outcome(result: dict[str, Any], *, is_modern: bool) -> None:
    """All that the short way leaves out would have changed nothing."""
    before = json.dumps(result)
    assert all(
        is_accepted_by_sdk(result, version) for version in (MODERN_VERSIONS if is_modern else HANDSHAKE_VERSIONS)
    )
    validate_json_value(result)
    if len(before) <= MAX_DIRECT_BYTES:
        assert not is_heavy(result)
    for check in map(build_output_validator, SCHEMAS):
        assert outcome(done_from_plain_result, result, check) == outcome(done_from_result, result, check)
    assert json.dumps(result) == before


@pytest.mark.parametrize("result", PLAIN.values(), ids=PLAIN.keys())
def test_common_results_are_plain_in_both_protocols(result):
    assert is_plain_result(result, is_modern=False)
    assert is_plain_result(modern(result), is_modern=True)
    assert_same_outcome(result, is_modern=False)
    assert_same_outcome(modern(result), is_modern=True)


@pytest.mark.parametrize("result", UNUSUAL.values(), ids=UNUSUAL.keys())
def test_unusual_results_are_left_to_the_sdk(result):
    assert not is_plain_result(result, is_modern=False)
    assert not is_plain_result(modern(result), is_modern=True)


@pytest.mark.parametrize("structure", STRUCTURES.values(), ids=STRUCTURES.keys())
def test_structured_content_may_be_any_value_only_in_the_modern_protocol(structure):
    result = {"content": [TEXT], "structuredContent": structure}

    assert not is_plain_result(result, is_modern=False)
    assert is_plain_result(modern(result), is_modern=True)
    assert_same_outcome(modern(result), is_modern=True)


@pytest.mark.parametrize("kind", ["input_required", "task", None, 5, ["complete"]])
def test_only_a_complete_result_is_plain_and_only_the_modern_protocol_says_so(kind):
    assert not is_plain_result({"content": [], "resultType": kind}, is_modern=True)
    assert not is_plain_result({"content": []}, is_modern=True)
    assert not is_plain_result({"content": [], "resultType": "complete"}, is_modern=False)


def test_every_structure_that_can_be_parsed_can_be_checked():
    for depth in range(1, 300):
        try:
            result = from_json('{"jsonrpc":"2.0","id":1,"result":' + '{"content":' + "[" * depth + "]" * depth + "}}")
        except ValueError:
            break
        validate_json_value(result["result"]["content"])
    assert depth > 100


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)
BLOCK = (
    st.fixed_dictionaries({"type": st.just("text"), "text": st.text(max_size=12)})
    | st.fixed_dictionaries(
        {"type": st.just("text"), "text": st.text(max_size=4) | JSON},
        optional={"annotations": JSON, "_meta": JSON, "x": JSON},
    )
    | JSON
)
RESULT = st.fixed_dictionaries(
    {"content": st.lists(BLOCK, max_size=3) | JSON},
    optional={
        "structuredContent": st.dictionaries(st.sampled_from(["result", "a", "b"]), JSON, max_size=2) | JSON,
        "isError": st.booleans() | JSON,
        "_meta": st.dictionaries(st.sampled_from([*SERVER, "a"]), JSON, max_size=2) | JSON,
        "resultType": st.just("complete") | JSON,
        "x": JSON,
    },
)


@given(RESULT, st.booleans())
@settings(deadline=None, max_examples=150)
@example({"content": [TEXT], "structuredContent": {"a": 10**400}}, False)
def test_a_plain_result_equals_what_the_sdk_would_return(result, is_modern):
    read = from_json(json.dumps(result))

    if is_plain_result(read, is_modern=is_modern):
        assert_same_outcome(read, is_modern=is_modern)
