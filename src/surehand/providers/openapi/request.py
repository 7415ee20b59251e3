"""Builds the request of a call from the plan of an operation and the arguments: a pure function, down to the bytes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any
from urllib.parse import unquote

from surehand.core.errors import InvalidArguments
from surehand.http.errors import mark_unsent
from surehand.http.headers import HeaderPairs
from surehand.http.request import ALLOWED_METHODS, HttpRequest, build_request
from surehand.http.target import MAX_URL_LENGTH
from surehand.providers.encoded_body import EncodedBody
from surehand.providers.openapi.body import encode_body
from surehand.providers.openapi.field_names import check_field_names
from surehand.providers.openapi.parameters import PATH_VARIABLE
from surehand.providers.openapi.plan import OperationPlan
from surehand.providers.openapi.styles import (
    content_text,
    cookie_pairs,
    encode_strictly,
    header_text,
    path_text,
    query_pairs,
)
from surehand.providers.rest.encoding import holds_dot_segment

_UNSAFE_PATH_CHARACTER = re.compile(r"[^A-Za-z0-9%/:@!$&'()*+,;=~._\[\]{}-]")
_NO_BODY = object()
_METHOD = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,40}\Z")


def build_operation_request(
    plan: OperationPlan, arguments: Mapping[str, Any], idempotency_key: str | None = None
) -> HttpRequest:
    """The request of a call. Raises `InvalidArguments` for values that cannot be sent where they belong.

    Args:
        arguments: validated, with those of `given`, and with files as `FileContent`.
    """
    body_value = _body_value(plan, arguments)
    body = None if plan.body is None or body_value is _NO_BODY else encode_body(plan.body, body_value)
    check_field_names(plan, arguments, body_value)
    path = f"{plan.target.path}{_path(plan, arguments)}"
    if query := "&".join(_query(plan, arguments)):
        path = f"{path}{'&' if '?' in path else '?'}{query}"
    if len(path) > MAX_URL_LENGTH:
        problem = f"The address of this call has {len(path):,} characters; at most {MAX_URL_LENGTH:,} are sent."
        raise mark_unsent(InvalidArguments(f"{problem} Send shorter values."))
    target = replace(plan.target, path=path)
    headers = tuple(_headers(plan, arguments, body))
    content = None if body is None else body.content
    method = plan.operation.method
    if method in ALLOWED_METHODS:
        return build_request(method, target, headers, content, idempotency_key)
    if not _METHOD.match(method):
        raise mark_unsent(InvalidArguments(f"{method!r:.60} is no method of HTTP."))
    # The client knows the usual methods only; what is true of a POST is true of one that a document makes up.
    return replace(build_request("POST", target, headers, content, idempotency_key), method=method)


# Path and query


def _path(plan: OperationPlan, arguments: Mapping[str, Any]) -> str:
    """The path, in which no value can change how many segments there are, or what they lead to."""
    written = plan.operation.path.partition("#")[0]
    path, _, fixed_query = written.partition("?")
    values = [
        (parameter, _required_value(name, arguments))
        for name, parameter in plan.parameters.items()
        if parameter.place == "path" and f"{{{parameter.name}}}" in written
    ]
    texts = {parameter.name: path_text(parameter, value) for parameter, value in values}
    segments = [_fill_segment(segment, texts) for segment in path.lstrip("/").split("/")]
    filled = f"/{'/'.join(segments)}"
    if not fixed_query:
        return filled
    # What `allowReserved` leaves in a path, such as an ampersand, would add fields to a query.
    texts = {each.name: path_text(replace(each, allow_reserved=False), value) for each, value in values}
    return f"{filled}?{_fill(fixed_query, texts)}"


def _required_value(name: str, arguments: Mapping[str, Any]) -> Any:
    if arguments.get(name) is None:
        raise mark_unsent(InvalidArguments(f"{name} is part of the path, and is missing."))
    return arguments[name]


def _fill_segment(segment: str, texts: Mapping[str, str]) -> str:
    filled = _fill(segment, texts)
    has_value = PATH_VARIABLE.search(segment) is not None
    decoded = unquote(filled)
    if has_value and (not decoded or holds_dot_segment(decoded)):
        names = ", ".join(PATH_VARIABLE.findall(segment))
        problem = f"{names} would change the path: a part of it cannot be {decoded!r:.100}."
        raise mark_unsent(InvalidArguments(f"{problem} Send another value."))
    return filled


def _fill(template: str, texts: Mapping[str, str]) -> str:
    parts: list[str] = []
    last = 0
    for match in PATH_VARIABLE.finditer(template):
        parts += (_quote_literal(template[last : match.start()]), texts[match[1]])
        last = match.end()
    return "".join((*parts, _quote_literal(template[last:])))


def _quote_literal(text: str) -> str:
    """The document's own part of a path: what cannot stand in an address is encoded, and all else stays."""
    return _UNSAFE_PATH_CHARACTER.sub(lambda match: encode_strictly(match[0]), text)


def _query(plan: OperationPlan, arguments: Mapping[str, Any]) -> Iterator[str]:
    for name, parameter in plan.parameters.items():
        if name not in arguments:
            continue
        if parameter.place == "query":
            yield from query_pairs(parameter, arguments[name])
        elif parameter.place == "querystring":
            yield from _whole_query(parameter.media_type, arguments[name])


def _whole_query(media_type: str, value: Any) -> Iterator[str]:
    """The whole query of version 3.2's `querystring`: the fields of an object, or one value."""
    if isinstance(value, dict) and "json" not in media_type:
        for name, each in value.items():
            values = each if isinstance(each, list) else [each]
            for item in values:
                if item is not None:
                    yield f"{encode_strictly(name)}={encode_strictly(content_text('', item))}"
    elif value is not None:
        yield encode_strictly(content_text(media_type, value))


# Headers and body


def _headers(plan: OperationPlan, arguments: Mapping[str, Any], body: EncodedBody | None) -> HeaderPairs:
    pairs: list[tuple[str, str]] = []
    cookies: list[str] = []
    if plan.accept:
        pairs.append(("Accept", plan.accept))
    for name, parameter in plan.parameters.items():
        if name not in arguments:
            continue
        if parameter.place == "header":
            text = header_text(parameter, arguments[name])
            if text is not None:
                pairs.append((parameter.name, text))
        elif parameter.place == "cookie":
            cookies += cookie_pairs(parameter, arguments[name])
    if cookies:
        pairs.append(("Cookie", "; ".join(cookies)))
    if body is not None:
        pairs.append(("Content-Type", body.media_type))
    return tuple(pairs)


def _body_value(plan: OperationPlan, arguments: Mapping[str, Any]) -> Any:
    """The value of the body; `_NO_BODY` if none is sent."""
    if plan.body is None:
        return _NO_BODY
    if plan.body_argument is not None:
        return arguments.get(plan.body_argument, _NO_BODY)
    fields = {written: arguments[name] for name, written in plan.body_fields.items() if name in arguments}
    if not fields and not plan.body.required:
        return _NO_BODY
    missing = [name for name in plan.body_fields if name in plan.required_fields and name not in arguments]
    if missing:
        problem = f"{', '.join(missing)} must be given together with the other fields of the body."
        raise mark_unsent(InvalidArguments(problem))
    return fields
