"""Requests from generated arguments, compared with what `openapi-core`, another project, reads from them."""

from __future__ import annotations

import json
from functools import cache
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from openapi_core import OpenAPI
from openapi_core.datatypes import RequestParameters
from werkzeug.datastructures import Headers, ImmutableMultiDict

from surehand.http.request import HttpRequest
from surehand.providers.openapi.load import load_mapping
from surehand.providers.openapi.operations import collect_operations
from surehand.providers.openapi.plan import compile_plan
from surehand.providers.openapi.request import build_operation_request
from surehand.providers.openapi.schema import SchemaConverter
from surehand.providers.openapi.servers import parse_base
from tests.providers.openapi.api_server import document, operation

SERVER = "https://oracle.example"

texts = st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cs")), min_size=1, max_size=20)
"""Any text; an empty one is refused in a path, and means nothing in a list."""
words = st.text("abcXYZ019-._~", min_size=1, max_size=8)
"""Texts without delimiters, for places where the specification leaves open how they are escaped."""
numbers = st.integers(-(2**31), 2**31)
SCALARS: dict[str, st.SearchStrategy[Any]] = {"string": texts, "integer": numbers, "boolean": st.booleans()}


class SentRequest:
    """A request of ours, as `openapi-core` wants to see it.

    Args:
        has_raw_query: whether the query is left as it was sent; `openapi-core` splits space-delimited lists at `%20`.
    """

    def __init__(self, request: HttpRequest, *, has_raw_query: bool = False) -> None:
        parts = urlsplit(request.target.url)
        self.host_url = SERVER
        self.path = parts.path
        self.path_pattern = None
        self.full_url_pattern = f"{SERVER}{self.path}"
        self.method = request.method.lower()
        headers = Headers([(name, value) for name, value in request.headers])
        cookies = dict(pair.split("=", 1) for pair in headers.get("Cookie", "").split("; ") if pair)
        raw_query = [tuple(pair.split("=", 1)) for pair in parts.query.split("&") if pair]
        decoded_query = parse_qsl(parts.query, keep_blank_values=True)
        self.parameters = RequestParameters(
            query=ImmutableMultiDict(raw_query if has_raw_query else decoded_query),
            header=headers,
            cookie=ImmutableMultiDict(cookies),
            path=read_path_parameters(parts.path),
        )
        self.content_type = headers.get("Content-Type", "")
        self.body = request.body if isinstance(request.body, bytes) else None


def read_path_parameters(path: str) -> dict[str, str]:
    """The value of `/x/{value}`, found before it is decoded, under every name that `openapi-core` has for a style."""
    _, _, segment = path.removeprefix("/").partition("/")
    assert "/" not in segment
    return {name: unquote(segment) for name in ("value", ".value", ".value*", ";value", ";value*")}


def send(described: dict[str, Any], arguments: dict[str, Any]) -> HttpRequest:
    """The request of the only operation of a document."""
    loaded = load_mapping(described)
    [found] = collect_operations(loaded).operations
    plan = compile_plan(loaded, SchemaConverter(loaded), found, target=parse_base(SERVER), auth=None, given=())
    return build_operation_request(plan, arguments)


@cache
def reader_of(text: str) -> OpenAPI:
    """The reader of a document, which takes long to build."""
    return OpenAPI.from_dict(json.loads(text) | {"servers": [{"url": SERVER}]})


def read(described: dict[str, Any], request: HttpRequest, *, has_raw_query: bool = False) -> Any:
    """What `openapi-core` reads from a request."""
    sent = SentRequest(request, has_raw_query=has_raw_query)
    result = reader_of(json.dumps(described)).unmarshal_request(sent)
    assert not result.errors, result.errors
    return result


def with_one(place: str, schema: dict[str, Any], **more: Any) -> dict[str, Any]:
    path = "/x/{value}" if place == "path" else "/x"
    parameter = {"name": "value", "in": place, "required": True, "schema": schema, **more}
    return document({path: {"get": operation(parameters=[parameter])}}, "3.1.0")


quick = settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow], deadline=None)


@pytest.mark.parametrize("kind", SCALARS)
@pytest.mark.parametrize("place", ["path", "query", "header", "cookie"])
@quick
@given(data=st.data())
def test_a_scalar_arrives_as_it_was_given(place, kind, data):
    strategy = SCALARS[kind]
    if kind == "string" and place in ("header", "cookie"):
        strategy = words
    value = data.draw(strategy)
    if place == "path" and (value in (".", "..") or "/" in str(value)):
        return  # refused, or decoded by servers before they match the path
    described = with_one(place, {"type": kind})

    result = read(described, send(described, {"value": value}))

    assert getattr(result.parameters, place)["value"] == value


@pytest.mark.parametrize(
    ("style", "explode"),
    [("form", True), ("form", False), ("spaceDelimited", False), ("pipeDelimited", False)],
)
@quick
@given(value=st.lists(words, min_size=1, max_size=5))
def test_a_list_in_the_query_arrives_as_it_was_given(style, explode, value):
    described = with_one("query", {"type": "array", "items": {"type": "string"}}, style=style, explode=explode)

    result = read(described, send(described, {"value": value}), has_raw_query=style == "spaceDelimited")

    assert result.parameters.query["value"] == value


@pytest.mark.parametrize(
    ("style", "explode"),
    [("simple", False), ("simple", True), ("label", False), ("label", True), ("matrix", False), ("matrix", True)],
)
@quick
@given(value=st.lists(st.text("abcXYZ019-_~", min_size=1, max_size=6), min_size=2, max_size=5))
def test_a_list_in_the_path_arrives_as_it_was_given(style, explode, value):
    described = with_one("path", {"type": "array", "items": {"type": "string"}}, style=style, explode=explode)

    assert read(described, send(described, {"value": value})).parameters.path["value"] == value


OBJECT_SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "integer"}}}


@pytest.mark.parametrize("explode", [False, True])
@pytest.mark.parametrize(
    ("place", "style"), [("path", "simple"), ("path", "label"), ("path", "matrix"), ("header", "simple")]
)
@quick
@given(value=st.fixed_dictionaries({"a": st.text("abcXYZ019-_~", min_size=1, max_size=6), "b": numbers}))
def test_an_object_in_path_and_header_arrives_as_it_was_given(place, style, explode, value):
    described = with_one(place, OBJECT_SCHEMA, style=style, explode=explode)

    assert getattr(read(described, send(described, {"value": value})).parameters, place)["value"] == value


@pytest.mark.parametrize("style", ["form", "pipeDelimited", "spaceDelimited"])
@quick
@given(value=st.fixed_dictionaries({"a": words, "b": numbers}))
def test_an_object_in_one_parameter_of_the_query_arrives_as_it_was_given(style, value):
    described = with_one("query", OBJECT_SCHEMA, style=style, explode=False)

    result = read(described, send(described, {"value": value}), has_raw_query=style == "spaceDelimited")

    assert result.parameters.query["value"] == value


@pytest.mark.parametrize("place", ["header", "cookie"])
@quick
@given(value=st.lists(numbers, min_size=1, max_size=5))
def test_a_list_in_headers_and_cookies_arrives_as_it_was_given(place, value):
    described = with_one(place, {"type": "array", "items": {"type": "integer"}}, explode=False)

    result = read(described, send(described, {"value": value}))

    assert getattr(result.parameters, place)["value"] == value


@quick
@given(value=st.fixed_dictionaries({"a": words, "b": numbers}))
def test_a_deep_object_arrives_as_it_was_given(value):
    described = with_one("query", OBJECT_SCHEMA, style="deepObject", explode=True)

    assert read(described, send(described, {"value": value})).parameters.query["value"] == value


json_values = st.recursive(
    st.none() | st.booleans() | numbers | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=10,
)


@quick
@given(value=json_values)
def test_a_json_body_arrives_as_it_was_given(value):
    body = {"required": True, "content": {"application/json": {"schema": {}}}}
    described = document({"/x": {"post": operation(requestBody=body)}}, "3.1.0")

    assert read(described, send(described, {"body": value})).body == value


@quick
@given(value=st.fixed_dictionaries({"a": texts}, optional={"b": numbers, "c": st.lists(texts, min_size=2, max_size=4)}))
def test_a_form_arrives_as_it_was_given(value):
    properties = {
        "a": {"type": "string"},
        "b": {"type": "integer"},
        "c": {"type": "array", "items": {"type": "string"}},
    }
    schema = {"type": "object", "properties": properties}
    body = {"required": True, "content": {"application/x-www-form-urlencoded": {"schema": schema}}}
    described = document({"/x": {"post": operation(requestBody=body)}}, "3.1.0")

    assert read(described, send(described, value)).body == value
