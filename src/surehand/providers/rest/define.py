"""`rest(...)`: a tool from one request template."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, contextmanager, suppress
from dataclasses import replace
from functools import partial
from typing import Any, Unpack

from surehand.core.canonical_json import json_digest
from surehand.core.define import DescriptionLike, ParametersLike, tool
from surehand.core.durations import parse_duration
from surehand.core.errors import DefinitionError
from surehand.core.names import nearest_names
from surehand.core.raw_schema import is_json_schema
from surehand.core.tool import Tool
from surehand.core.tool_options import ToolOptions
from surehand.http.settings import HttpOptions
from surehand.providers.rest.auth import Auth, auth_secrets, parse_auth, token_targets
from surehand.providers.rest.fields import FieldMask, PickPath
from surehand.providers.rest.handler import STANDALONE_TIMEOUT_SECONDS, RestHandler, sender_lifespan
from surehand.providers.rest.pagination import parse_pagination
from surehand.providers.rest.request_template import NOT_GIVEN, RequestTemplate, UnusedArguments, parse_request_template
from surehand.providers.rest.response_reader import ResponseReader
from surehand.providers.rest.sender import RestSender
from surehand.providers.rest.stream_options import parse_stream

DEFAULT_RETRIES = 2
"""Retries of a tool that only reads, after a temporary failure."""
_OPEN_SCHEMA_KEYWORDS = frozenset({"$ref", "allOf", "anyOf", "oneOf", "patternProperties", "additionalProperties"})
"""Keywords by which a schema may have more properties than those that it lists."""


def rest(
    method: str,
    url: str,
    *,
    name: str,
    description: DescriptionLike = "",
    parameters: ParametersLike = None,
    query: Any = NOT_GIVEN,
    headers: Mapping[str, Any] | None = None,
    body: Any = NOT_GIVEN,
    body_type: str = "json",
    query_style: str = "repeat",
    pick: str | None = None,
    redact: str | Iterable[str] = (),
    auth: Any = None,
    paginate: Any = None,
    stream: Any = None,
    env: Iterable[str] | None = None,
    http: HttpOptions | None = None,
    environment: Mapping[str, str] | None = None,
    **options: Unpack[ToolOptions],
) -> Tool[..., Any]:
    """A tool that sends one HTTP request; `{city}` and `${parameters.city}` in it stand for arguments.

    Args:
        url: scheme, host and port are constant. `{city}` is a part of one path segment, or a value of the query.
        parameters: without it, the arguments that the request refers to, as texts.
        query: a mapping of names to templates, or a list of parameters. Left out, GET, HEAD, OPTIONS and DELETE send
            all arguments that nothing else uses.
        body: a template. Left out, other methods send the arguments that nothing else uses as a JSON object.
        body_type: `json`, `form`, `multipart`, `text` or `binary` (base64 in the template).
        query_style: how lists are written in a query or form: `repeat`, `indexed` or `comma`.
        pick: the part of a JSON response that is the result, as in `data.items[0].name`.
        redact: names, or dotted paths, of fields that are masked in responses.
        auth: a bearer token, `{"username", "password"}`, `{"api_key", "header" | "query" | "cookie"}` or `{"oauth2"}`.
        paginate: `"link"`, `{"next": path}` or `{"cursor": path, "parameter": name}`, with `items` and `max_pages`.
        stream: `ndjson`, `sse`, or a mapping with a `mode`; by default the content type tells.
        env: the environment variables that may be referred to; by default those that are.
        http: settings of the HTTP client, such as `max_bytes` and `verify`.
        environment: where environment variables are looked up; by default the environment of the process.
        options: those of `tool(...)`.
    """
    where = _caller_location()
    with _errors_at(where):
        template = parse_request_template(
            method, url, query=query, headers=headers, body=body, body_type=body_type, query_style=query_style
        )
        parsed_auth = None if auth is None else parse_auth(auth)
        _check_variables(template, parsed_auth, env)
        if parameters is None:
            parameters = _derived_schema(template)
        if isinstance(parameters, Mapping):
            _check_parameters(template, parameters)
            template = _without_empty_body(template, parameters)
        pick_path = None if pick is None else PickPath.parse(pick)
        reader = ResponseReader(pick_path, FieldMask.parse(redact), None if stream is None else parse_stream(stream))
        is_repeatable = _set_safety(options, template)
        if "lifespan" in options:
            raise DefinitionError("A REST tool has a lifespan of its own.", fix="remove lifespan.")
        options["lifespan"] = lifespan = _build_lifespan(template, parsed_auth, http, environment)
        handler = RestHandler(
            template,
            reader,
            lifespan,
            parsed_auth,
            None if paginate is None else parse_pagination(paginate, pick_path),
            sends_idempotency_key=not is_repeatable,
            defaults=_schema_defaults(parameters),
            has_typed_parameters=not isinstance(parameters, Mapping),
            timeout=_seconds(options.get("timeout")),
            environment=environment,
        )
        options.setdefault("preview", handler.preview)
        options.setdefault("confirm_message", handler.confirm_message)
        options.setdefault("category", "network")
        defined = tool.provided(name, description, parameters=parameters, **options)
        presentation = replace(defined.presentation, version=_request_digest(template, parsed_auth))
        return defined.evolve(kind="rest", handler=handler, presentation=presentation, where=where)


def _caller_location() -> str:
    """File and line where `rest` is called."""
    frame = inspect.currentframe()
    while frame is not None and frame.f_code.co_filename == __file__:
        frame = frame.f_back
    return "" if frame is None else f"{frame.f_code.co_filename}:{frame.f_lineno}"


@contextmanager
def _errors_at(where: str) -> Iterator[None]:
    """Raise the `DefinitionError`s of the block at the place of the definition."""
    try:
        yield
    except DefinitionError as error:
        raise DefinitionError(error.problem, fix=error.fix, where=where) from error


def _set_safety(options: ToolOptions, template: RequestTemplate) -> bool:
    """Set effects and retries where the developer has not; returns whether calls may be repeated."""
    effects = options.get("effects", "read" if template.is_safe else "write")
    declared = {effects} if isinstance(effects, str) else set(effects)
    options["effects"] = declared
    is_repeatable = options.get("repeatable", bool(declared) and declared <= {"read"})
    if is_repeatable:
        options.setdefault("retries", DEFAULT_RETRIES)
    return is_repeatable


def _seconds(timeout: Any) -> float:
    """The time limit of a call without a runtime."""
    if isinstance(timeout, str):
        with suppress(ValueError):  # `tool(...)` reports it
            return parse_duration(timeout) or STANDALONE_TIMEOUT_SECONDS
    return float(timeout) if isinstance(timeout, (int, float)) and timeout > 0 else STANDALONE_TIMEOUT_SECONDS


def _build_lifespan(
    template: RequestTemplate, auth: Auth | None, http: HttpOptions | None, environment: Mapping[str, str] | None
) -> Callable[[], AbstractAsyncContextManager[RestSender]]:
    if unknown := set(http or {}) - HttpOptions.__annotations__.keys():
        known = ", ".join(HttpOptions.__annotations__)
        raise DefinitionError(f"http has no key {', '.join(sorted(unknown))}.", fix=f"use some of {known}.")
    build_sender = partial(
        RestSender,
        [template.url.origin, *token_targets(auth)],
        http=http,
        environment=environment,
        known_secrets=template.constant_secrets,
    )
    build_sender()  # a wrong setting is an error now, and nothing is opened before the first request
    return sender_lifespan(build_sender)


def _check_variables(template: RequestTemplate, auth: Auth | None, allowed: Iterable[str] | None) -> None:
    if allowed is None:
        return
    names = frozenset([allowed] if isinstance(allowed, str) else allowed)
    if unknown := _variables(template, auth) - names:
        raise DefinitionError(
            f"The request refers to the environment variable {', '.join(sorted(unknown))}, which env does not allow.",
            fix="add it to env, or write ${parameters.name} for an argument.",
        )


def _variables(template: RequestTemplate, auth: Auth | None) -> frozenset[str]:
    return template.variables.union(*(secret.variables for secret in auth_secrets(auth)))


def _derived_schema(template: RequestTemplate) -> dict[str, Any]:
    """The schema of the arguments that a request refers to, where the developer gives none: each a text."""
    names = template.argument_names
    return {"type": "object", "properties": {name: {"type": "string"} for name in names}, "required": names}


def _check_parameters(template: RequestTemplate, schema: Mapping[str, Any]) -> None:
    """Raise for parameters that are no JSON Schema, and for references that no argument can fill."""
    if not is_json_schema(schema):
        raise DefinitionError(
            "The parameters are not a JSON Schema.",
            fix='write {"type": "object", "properties": {"city": {"type": "string"}}}.',
        )
    properties = schema.get("properties")
    known = properties if isinstance(properties, Mapping) else {}
    for name in sorted(template.variables & known.keys()):
        raise DefinitionError(
            f"${{{name}}} is an environment variable, and {name} is also a parameter.",
            fix=f"write ${{parameters.{name}}} or ${{env.{name}}}.",
        )
    if not known or not _OPEN_SCHEMA_KEYWORDS.isdisjoint(key for key, value in schema.items() if value is not False):
        return
    for name in template.argument_names:
        if name not in known:
            near = nearest_names(name, known, 1)
            fix = f"did you mean {near[0]!r}?" if near else f"the parameters are {', '.join(known)}."
            raise DefinitionError(f"The request refers to {name!r}, which is no parameter.", fix=fix)


def _without_empty_body(template: RequestTemplate, schema: Mapping[str, Any]) -> RequestTemplate:
    """The template without a body, if that would hold the arguments that nothing else uses, and there are none."""
    properties = schema.get("properties")
    names = set(properties) if isinstance(properties, Mapping) else set()
    may_have_more = not names or not _OPEN_SCHEMA_KEYWORDS.isdisjoint(schema)
    if isinstance(template.body, UnusedArguments) and not may_have_more and names <= template.used_names:
        return replace(template, body=None)
    return template


def _schema_defaults(parameters: Any) -> dict[str, Any]:
    properties = parameters.get("properties") if isinstance(parameters, Mapping) else None
    if not isinstance(properties, Mapping):
        return {}
    return {
        name: schema["default"]
        for name, schema in properties.items()
        if isinstance(schema, Mapping) and "default" in schema
    }


def _request_digest(template: RequestTemplate, auth: Auth | None) -> str:
    """What tells apart two requests of the same tool name: an approval is bound to it. No secret is part of it."""
    return json_digest(repr(template), repr(auth), sorted(_variables(template, auth)))
