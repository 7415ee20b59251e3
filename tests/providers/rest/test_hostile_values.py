"""Whatever a model gives as a value, it arrives as that value in its place, or nothing is sent."""

import json
from urllib.parse import parse_qsl, unquote

from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.providers.rest.calling import object_schema, rest_tool
from tests.providers.rest.test_requests import multipart_parts

HOSTILE = (
    "${env.CANARY}", "${CANARY}", "{{input.other}}", "${parameters.other}", "{other}", "\r\nX-Admin: 1", "../admin",
    "..%2fadmin", "%2e%2e", "?a=b#c", "a&role=admin", '","role":"admin', "\\u0022", "\x00", "\uffff", "//evil.test/",
    "@evil.test", ":8080", "a;b", "a\tb", " a ", "İ", "\u202e", "--boundary--", "'", "\\",
)  # fmt: skip
PIECES = st.lists(st.sampled_from(HOSTILE) | st.text(max_size=8), max_size=3).map("".join)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | PIECES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(PIECES, inner, max_size=3),
    max_leaves=6,
)
FEW = settings(max_examples=60)
ENVIRONMENT = {"CANARY": "canary-4711"}
EXPECTED_HEADERS = {"host", "accept-encoding", "user-agent", "accept", "content-length", "content-type"}
ONE = object_schema("value", value={}, other={})


async def send(method, path, value, **options):
    """Send one value; returns what arrived, or None if nothing was sent. Nothing else of the request may change."""
    options = {"parameters": ONE, "environment": ENVIRONMENT, "effects": "read", "retries": 0, **options}
    async with rest_tool(method, path, **options) as call:
        outcome = await call(value=value)
        if not call.server.asked:
            assert (outcome.code, outcome.executed) == ("invalid_arguments", False)
            return None
        assert outcome.ok, outcome
        [asked] = call.server.asked
        assert b"canary-4711" not in asked.raw + asked.body
        assert set(asked.headers) <= EXPECTED_HEADERS | {"x-value"}
        assert asked.raw.count(b"\r\n") == len(asked.headers) + 2
        return asked


@FEW
@given(PIECES)
@example("../admin")
@example("..")
@example("..;x/admin")
async def test_a_value_in_the_path_stays_one_segment(value):
    asked = await send("GET", "/a/{value}/b?fixed=1", value, query=None)

    if asked is None:
        steps = [step.partition(";")[0] for step in value.replace("\\", "/").split("/")]
        assert not value or {".", ".."} & set(steps)
    else:
        path, _, query = asked.path.partition("?")
        segments = path.split("/")
        assert (len(segments), query) == (4, "fixed=1")
        assert unquote(segments[2]) == value


@FEW
@given(PIECES)
async def test_a_value_in_the_query_of_the_url_stays_one_value(value):
    asked = await send("GET", "/a?q=${parameters.value}&fixed=1", value, query=None)

    pairs = parse_qsl(asked.path.partition("?")[2], keep_blank_values=True, strict_parsing=True)
    assert pairs == [("q", value), ("fixed", "1")]


@FEW
@given(st.dictionaries(PIECES, VALUES, max_size=3))
async def test_values_in_a_query_keep_their_names(value):
    asked = await send("GET", "/a", value)

    assert (asked is None) == has_brackets_in_names(value)
    if asked is not None:
        path, _, query = asked.path.partition("?")
        pairs = parse_qsl(query, keep_blank_values=True, strict_parsing=True) if query else []
        assert pairs == list(written_pairs("value", value))
        assert path == "/a"


def has_brackets_in_names(value):
    """Whether a name would be another one in the query: such calls are refused."""
    if isinstance(value, dict):
        return any("[" in key or "]" in key for key in value) or any(map(has_brackets_in_names, value.values()))
    return isinstance(value, list) and any(map(has_brackets_in_names, value))


def written_pairs(name, value):
    """The pairs that a value is in a query, as the page on REST tools says."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from written_pairs(f"{name}[{key}]", item)
    elif isinstance(value, list):
        has_numbers = any(isinstance(item, (dict, list)) for item in value)
        for index, item in enumerate(value):
            yield from written_pairs(f"{name}[{index}]" if has_numbers else name, item)
    elif value is not None:
        yield name, value if isinstance(value, str) else json.dumps(value)


@FEW
@given(PIECES)
async def test_a_value_in_a_header_stays_one_line(value):
    asked = await send("GET", "/a", value, query=None, headers={"X-Value": "v ${parameters.value} w"})

    assert asked is not None or any(not " " <= character <= "~" for character in value)
    if asked is not None:
        assert asked.headers["x-value"] == f"v {value} w".strip(" \t")


@FEW
@given(VALUES)
async def test_a_value_in_a_json_body_is_that_value(value):
    body = {"a": "${parameters.value}", "b": ["{{input.value}}"]}
    asked = await send("POST", "/a", value, body=body)
    text = await send("POST", "/a", value, body='{"a": {{input.value}}, "b": [${parameters.value}]}')

    assert json.loads(asked.body) == json.loads(text.body) == {"a": value, "b": [value]}


@FEW
@given(PIECES)
async def test_a_text_in_a_json_string_stays_within_it(value):
    asked = await send("POST", "/a", value, body='{"a": "x {{input.value}} y", "role": "user"}')

    assert json.loads(asked.body) == {"a": f"x {value} y", "role": "user"}


@FEW
@given(PIECES)
async def test_a_value_in_a_form_stays_one_value(value):
    asked = await send("POST", "/a", value, body={"q": "${parameters.value}", "role": "user"}, body_type="form")

    pairs = parse_qsl(asked.body.decode(), keep_blank_values=True, strict_parsing=True)
    assert pairs == [("q", value), ("role", "user")]


@FEW
@given(PIECES)
async def test_a_value_in_a_multipart_body_stays_in_its_part(value):
    body = {"q": "${parameters.value}", "file": {"filename": "${parameters.value}", "content": "x"}}
    asked = await send("POST", "/a", value, body=body, body_type="multipart")

    parts = multipart_parts(asked)
    assert [content for _, content in parts] == [value.encode(), b"x"]
    assert all(set(headers) <= {"Content-Disposition", "Content-Type"} for headers, _ in parts)


@FEW
@given(PIECES)
async def test_a_value_in_a_text_body_is_not_looked_at_again(value):
    asked = await send("POST", "/a", value, body="a ${parameters.value} b", body_type="text")

    assert asked.body.decode() == f"a {value} b"
