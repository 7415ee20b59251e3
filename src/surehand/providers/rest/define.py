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
from surehand.core.tool import Tool
from surehand.core.tool_options import ToolOptions
from surehand.http.settings import HttpOptions
from surehand.providers.rest.auth import Auth, auth_variables, parse_auth, token_targets
from surehand.providers.rest.fields import FieldMask, PickPath
from surehand.providers.rest.handler import STANDALONE_TIMEOUT_SECONDS, RestHandler, sender_lifespan
from surehand.providers.rest.pagination import parse_pagination
from surehand.providers.rest.parameter_schema import (
    check_references,
    derive_schema,
    schema_defaults,
    without_empty_body,
)
from surehand.providers.rest.request_template import NOT_GIVEN, RequestTemplate, parse_request_template
from surehand.providers.rest.response_reader import ResponseReader
from surehand.providers.rest.sender import RestSender
from surehand.providers.rest.stream_options import parse_stream

DEFAULT_RETRIES = 2
"""Retries of a tool that only reads, after a temporary failure."""


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
            parameters = derive_schema(template)
        if isinstance(parameters, Mapping):
            check_references(template, parameters)
            template = without_empty_body(template, parameters)
        pick_path = None if pick is None else PickPath.parse(pick)
        reader = ResponseReader(pick_path, FieldMask.parse(redact), None if stream is None else parse_stream(stream))
        is_repeatable = _set_safety(options, template)
        if paginate is not None and (stream is not None or not is_repeatable):
            problem = "A stream has no pages." if is_repeatable else "Pages are read by several requests."
            raise DefinitionError(problem, fix="remove paginate, or stream, or declare effects='read'.")
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
            defaults=schema_defaults(parameters),
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
    if unknown := (template.variables | auth_variables(auth)) - names:
        raise DefinitionError(
            f"The request refers to the environment variable {', '.join(sorted(unknown))}, which env does not allow.",
            fix="add it to env, or write ${parameters.name} for an argument.",
        )


def _request_digest(template: RequestTemplate, auth: Auth | None) -> str:
    """What tells apart two requests of the same tool name: an approval is bound to it."""
    return json_digest(repr(template), repr(auth), sorted(auth_variables(auth)))
