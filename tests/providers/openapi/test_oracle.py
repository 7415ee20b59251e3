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
from surehand.providers.openapi.plan import OperationPlan, compile_plan
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


def plan_of(described: dict[str, Any]) -> OperationPlan:
    """The plan of the only operation of a document."""
    loaded = load_mapping(described)
    [found] = collect_operations(loaded).operations
    return compile_plan(loaded, SchemaConverter(loaded), found, target=parse_base(SERVER), auth=None, given=())


def send(described: dict[str, Any], arguments: dict[str, Any]) -> HttpRequest:
    """The request of the only operation of a document."""
    plan = plan_of(described)
    return build_operation_request(plan, plan.arguments.validate_mapping(arguments))


def send_body(described: dict[str, Any], value: Any) -> HttpRequest:
    """The request with a body, whose fields may be arguments."""
    plan = plan_of(described)
    if plan.body_argument is not None:
        return send(described, {plan.body_argument: value})
    return send(described, {name: value[field] for name, field in plan.body_fields.items() if field in value})


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
few = settings(quick, max_examples=12)
"""For generated schemas: each of them is a document for which `openapi-core` builds a reader."""


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


# Generated schemas

field_names = st.text("abcXYZ_", min_size=1, max_size=6)
scalar_schemas = st.sampled_from(
    [
        {"type": "string"},
        {"type": "integer", "minimum": -5, "maximum": 5},
        {"type": "boolean"},
        {"type": ["string", "null"]},
        {"type": "string", "enum": ["a b", "c&d", "\u00e9"]},
    ]
)


def object_schemas(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    properties = st.dictionaries(field_names, inner, min_size=1, max_size=4)
    return properties.flatmap(
        lambda fields: st.lists(st.sampled_from(sorted(fields)), unique=True).map(
            lambda required: {"type": "object", "properties": fields, "required": required}
        )
    )


def array_schemas(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return inner.map(lambda items: {"type": "array", "items": items})


def combined_schemas(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    parts = st.lists(object_schemas(scalar_schemas), min_size=1, max_size=2)
    return array_schemas(inner) | object_schemas(inner) | parts.map(lambda each: {"allOf": each})


json_schemas = st.recursive(scalar_schemas, combined_schemas, max_leaves=8)


def values_of(schema: dict[str, Any], strings: st.SearchStrategy[str] = texts) -> st.SearchStrategy[Any]:
    """Values that match a generated schema."""
    if "allOf" in schema:
        # Of two schemas for one field, a value that both accept may not exist: then the field is left out.
        fields = [name for part in schema["allOf"] for name in part["properties"]]
        objects = [part for part in schema["allOf"] if all(fields.count(name) == 1 for name in part["properties"])]
        shared = {name for part in schema["allOf"] for name in part["required"] if fields.count(name) > 1}
        parts = [values_of(part, strings) for part in objects] if not shared else []
        return st.tuples(*parts).map(lambda each: {k: v for part in each for k, v in part.items()})
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    match schema["type"]:
        case "object":
            fields_of = {name: values_of(each, strings) for name, each in schema["properties"].items()}
            required = {name: each for name, each in fields_of.items() if name in schema["required"]}
            optional = {name: each for name, each in fields_of.items() if name not in required}
            return st.fixed_dictionaries(required, optional=optional)
        case "array":
            return st.lists(values_of(schema["items"], strings), max_size=3)
        case "integer":
            return st.integers(-5, 5)
        case "boolean":
            return st.booleans()
        case "string":
            return strings
    return strings | st.none()


def is_possible(schema: dict[str, Any]) -> bool:
    """Whether `values_of` knows values: not where two schemas of `allOf` require the same field."""
    for part in (*schema.get("allOf", ()), *schema.get("properties", {}).values(), schema.get("items")):
        if part is not None and not is_possible(part):
            return False
    fields = [name for part in schema.get("allOf", ()) for name in part["properties"]]
    return all(fields.count(name) == 1 for part in schema.get("allOf", ()) for name in part["required"])


@few
@given(data=st.data(), schema=json_schemas.filter(is_possible))
def test_a_json_body_of_a_generated_schema_arrives_as_it_was_given(data, schema):
    value = data.draw(values_of(schema))
    body = {"required": True, "content": {"application/json": {"schema": schema}}}
    described = document({"/x": {"post": operation(requestBody=body)}}, "3.1.0")

    assert read(described, send_body(described, value)).body == value


plain_scalars = st.sampled_from([{"type": "string"}, {"type": "integer"}, {"type": "boolean"}])
PARAMETER_FORMS = [
    ("query", "form", True),
    ("query", "form", False),
    ("query", "pipeDelimited", False),
    ("query", "deepObject", True),
    ("path", "simple", False),
    ("path", "simple", True),
    ("path", "label", False),
    ("path", "label", True),
    ("path", "matrix", False),
    ("path", "matrix", True),
    ("header", "simple", False),
    ("header", "simple", True),
    ("cookie", "form", False),
]
safe_words = st.text("abcXYZ019-_~", min_size=1, max_size=6)


@pytest.mark.parametrize(("place", "style", "explode"), PARAMETER_FORMS)
@few
@given(data=st.data())
def test_a_parameter_of_a_generated_schema_arrives_as_it_was_given(place, style, explode, data):
    objects = object_schemas(plain_scalars)
    schemas = {"deepObject": objects, "pipeDelimited": array_schemas(plain_scalars) | objects}
    schema = data.draw(schemas.get(style, plain_scalars | array_schemas(plain_scalars) | objects))
    value = data.draw(values_of(schema, safe_words).filter(lambda each: each not in ([], {})))
    if schema["type"] == "object" and (place, explode) == ("query", True) and style == "form":
        return  # `openapi-core` does not read the fields of an exploded object as one parameter
    described = with_one(place, schema, style=style, explode=explode)

    assert getattr(read(described, send(described, {"value": value})).parameters, place)["value"] == value


@pytest.mark.parametrize("kind", SCALARS)
@pytest.mark.parametrize(("style", "explode"), [("label", False), ("label", True), ("matrix", False), ("matrix", True)])
@quick
@given(data=st.data())
def test_a_scalar_of_any_style_in_the_path_arrives_as_it_was_given(style, explode, kind, data):
    value = data.draw(safe_words if kind == "string" else SCALARS[kind])
    described = with_one("path", {"type": kind}, style=style, explode=explode)

    assert read(described, send(described, {"value": value})).parameters.path["value"] == value


# Forms and multipart bodies

FORM_SCHEMA = {
    "type": "object",
    "properties": {
        "text": {"type": "string"},
        "count": {"type": "integer"},
        "flag": {"type": "boolean"},
        "list": {"type": "array", "items": {"type": "string"}},
        "data": {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "integer"}}},
    },
}


def with_form(media_type: str, encoding: dict[str, Any]) -> dict[str, Any]:
    body = {"required": True, "content": {media_type: {"schema": FORM_SCHEMA, "encoding": encoding}}}
    return document({"/x": {"post": operation(requestBody=body)}}, "3.1.0")


forms = st.fixed_dictionaries(
    {"text": texts},
    optional={
        "count": numbers,
        "flag": st.booleans(),
        "list": st.lists(words, min_size=2, max_size=4),
        "data": st.fixed_dictionaries({"a": words, "b": numbers}),
    },
)


@pytest.mark.parametrize("media_type", ["multipart/form-data", "application/x-www-form-urlencoded"])
@quick
@given(value=forms)
def test_fields_of_a_form_or_multipart_body_arrive_as_they_were_given(media_type, value):
    # Of a part without a type, `openapi-core` reads a text.
    typed = ("count", "flag", "data") if media_type == "multipart/form-data" else ("data",)
    described = with_form(media_type, {name: {"contentType": "application/json"} for name in typed})

    received = read(described, send_body(described, value)).body

    if received.get("list") == []:  # `openapi-core` adds a list that is missing
        del received["list"]
    assert received == value


@pytest.mark.parametrize(
    "encoding",
    [
        {"list": {"style": "form", "explode": False}},
        {"list": {"style": "pipeDelimited", "explode": False}},
        {"data": {"style": "deepObject", "explode": True}},
        {"data": {"style": "form", "explode": False}},
    ],
)
@quick
@given(value=forms)
def test_fields_of_a_form_with_encodings_arrive_as_they_were_given(encoding, value):
    for name in value.keys() & {"data", "list"} - encoding.keys():
        del value[name]
    described = with_form("application/x-www-form-urlencoded", encoding)

    assert read(described, send_body(described, value)).body == value
