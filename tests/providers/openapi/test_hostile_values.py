"""Hostile values in every place of a request: each arrives as that value alone, or is refused before it is sent."""

from __future__ import annotations

import json
from email.parser import BytesParser
from email.policy import HTTP
from typing import Any
from urllib.parse import parse_qsl, unquote

import pytest

from tests.http.server import Asked
from tests.providers.openapi.api_server import serving_api, with_body, with_parameter

HOSTILE = [
    "a&admin=1",
    "a=b;c,d|e f",
    "a?x=1#y",
    "/../../etc/passwd",
    "..",
    "%2e%2e%2f",
    "a\r\nX-Evil: 1",
    "a\nb",
    "\x00",
    "${env.HOME}",
    "{value}",
    "{{input.x}}",
    '","role":"admin',
    '"; filename="x.sh',
    "--boundary--",
    "\u202eevil",
    "caf\u00e9 \U0001f600",
    "https://evil.example/",
    "@evil.example:80/",
    "<script>",
    "' OR 1=1 --",
    " ",
    "+",
    "%00",
]
REFUSED_IN_PATH = {"/../../etc/passwd", ".."}
"""A server that decodes them would see another path."""
REFUSED_IN_HEADER = {"a\r\nX-Evil: 1", "a\nb", "\x00", "\u202eevil", "caf\u00e9 \U0001f600"}


async def send(document: dict[str, Any], arguments: dict[str, Any]) -> Asked | None:
    """The request that arrived; None if the call was refused and nothing was sent."""
    async with serving_api(document) as api:
        outcome = await api.call("send", arguments)
        if outcome.ok:
            assert len(api.server.asked) == 1
            return api.last
        assert (outcome.code, api.server.asked) == ("invalid_arguments", [])
        return None


@pytest.mark.parametrize("value", HOSTILE)
async def test_a_value_in_the_path_is_one_segment_or_refused(value):
    document = with_parameter("/a/{value}/b", name="value", **{"in": "path"}, required=True, schema={"type": "string"})

    asked = await send(document, {"value": value})

    assert (asked is None) == (value in REFUSED_IN_PATH)
    if asked is not None:
        assert asked.path.count("/") == 3
        _, first, segment, last = asked.path.split("/")
        assert (first, unquote(segment), last) == ("a", value, "b")


@pytest.mark.parametrize("style", ["form", "spaceDelimited", "pipeDelimited"])
@pytest.mark.parametrize("value", HOSTILE)
async def test_a_value_in_the_query_is_one_value(style, value):
    schema = {"type": "array", "items": {"type": "string"}}
    document = with_parameter(name="value", **{"in": "query"}, style=style, explode=True, schema=schema)

    asked = await send(document, {"value": [value]})

    assert asked is not None
    path, _, query = asked.path.partition("?")
    assert path == "/x"
    assert parse_qsl(query, keep_blank_values=True, strict_parsing=True) == [("value", value)]


@pytest.mark.parametrize("value", HOSTILE)
async def test_names_and_values_of_a_deep_object_stay_themselves(value):
    document = with_parameter(name="f", **{"in": "query"}, style="deepObject", schema={"type": "object"})

    asked = await send(document, {"f": {value: {value: value}}})

    assert asked is not None
    assert parse_qsl(asked.path.partition("?")[2], keep_blank_values=True) == [(f"f[{value}][{value}]", value)]


@pytest.mark.parametrize("value", HOSTILE)
async def test_a_value_in_a_header_is_one_line_or_refused(value):
    document = with_parameter(name="X-Value", **{"in": "header"}, schema={"type": "string"})

    asked = await send(document, {"X-Value": value})

    assert (asked is None) == (value in REFUSED_IN_HEADER)
    if asked is not None:
        assert "x-evil" not in asked.headers
        assert asked.headers["x-value"].strip() == value.strip()


@pytest.mark.parametrize("value", HOSTILE)
async def test_a_value_in_a_cookie_is_one_cookie(value):
    document = with_parameter(name="sid", **{"in": "cookie"}, schema={"type": "string"})

    asked = await send(document, {"sid": value})

    assert asked is not None
    name, _, sent = asked.headers["cookie"].partition("=")
    assert (name, unquote(sent)) == ("sid", value)
    assert ";" not in sent


@pytest.mark.parametrize("value", HOSTILE)
async def test_a_value_in_a_json_body_is_that_value(value):
    schema = {"type": "object", "properties": {"value": {"type": "string"}}}

    asked = await send(with_body("application/json", schema), {"value": value})

    assert asked is not None
    assert json.loads(asked.body) == {"value": value}


@pytest.mark.parametrize("value", HOSTILE)
async def test_a_value_in_a_form_is_one_value(value):
    schema = {"type": "object", "properties": {"value": {"type": "string"}}}

    asked = await send(with_body("application/x-www-form-urlencoded", schema), {"value": value})

    assert asked is not None
    assert parse_qsl(asked.body.decode(), keep_blank_values=True, strict_parsing=True) == [("value", value)]


@pytest.mark.parametrize("value", HOSTILE)
async def test_a_value_in_a_multipart_body_stays_in_its_part(value):
    schema = {"type": "object", "properties": {"value": {"type": "string"}, "other": {"type": "string"}}}

    asked = await send(with_body("multipart/form-data", schema), {"value": value, "other": "x"})

    assert asked is not None
    head = f"Content-Type: {asked.headers['content-type']}\r\n\r\n".encode()
    parts = list(BytesParser(policy=HTTP).parsebytes(head + asked.body).iter_parts())
    names = [part.get_param("name", header="content-disposition") for part in parts]
    assert names == ["value", "other"]
    assert all(part.get_filename() is None for part in parts)
    assert asked.body.count(value.encode()) >= 1
