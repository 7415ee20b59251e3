"""`RequestTemplate`: a whole request with references, parsed when its tool is defined and filled for each call."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, get_args

from surehand.core.errors import DefinitionError, InvalidArguments, ToolError
from surehand.core.names import nearest_names
from surehand.http.errors import mark_unsent
from surehand.http.headers import validate_headers
from surehand.http.request import ALLOWED_METHODS, SAFE_METHODS, HttpRequest, build_request
from surehand.http.target import MAX_URL_LENGTH
from surehand.providers.encoded_body import EncodedBody
from surehand.providers.rest.body import BodyTemplate, encode_body, parse_body_template
from surehand.providers.rest.encoding import Pair, QueryStyle, encode_query, query_pairs
from surehand.providers.rest.json_template import (
    ConstantValue,
    JsonTemplate,
    TemplateObject,
    TemplateText,
    parse_json_template,
    references_in,
)
from surehand.providers.rest.secrets import SecretSource, is_secret_name, without_auth_scheme
from surehand.providers.rest.template import (
    ArgumentReference,
    Reference,
    TextTemplate,
    VariableReference,
    parse_template,
)
from surehand.providers.rest.url_template import UrlTemplate, parse_url_template, target_with_path

NOT_GIVEN: Any = ...
"""The default of `query` and `body`: the arguments that nothing else uses are sent there."""
METHODS_WITHOUT_BODY = frozenset({"GET", "HEAD"})
_QUERY_METHODS = frozenset({"GET", "HEAD", "OPTIONS", "DELETE"})
"""Methods that send the arguments that nothing else uses in the query, others in the body."""
_ACCEPT = "application/json, */*;q=0.8"


@dataclass(frozen=True, slots=True)
class CallValues:
    """What the references of a template stand for in one call."""

    arguments: Mapping[str, Any]
    secrets: SecretSource

    def variable(self, name: str) -> str:
        """The value of an environment variable."""
        return self.secrets.variable(name)


@dataclass(frozen=True, slots=True)
class ListedParameters:
    """A query of arguments by their names; those that a call does not give are left out."""

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class UnusedArguments:
    """A query or body of all arguments that no reference uses."""


@dataclass(frozen=True, slots=True)
class RequestTemplate:
    """Method, URL, query, headers and body of a request."""

    method: str
    url: UrlTemplate
    query: JsonTemplate | ListedParameters | UnusedArguments | None = None
    headers: tuple[tuple[str, TextTemplate], ...] = ()
    body: BodyTemplate | UnusedArguments | None = None
    query_style: QueryStyle = "repeat"
    used_names: frozenset[str] = field(default=frozenset(), repr=False)
    """Arguments that references use."""

    @property
    def is_safe(self) -> bool:
        """Whether the method changes nothing."""
        return self.method in SAFE_METHODS

    @property
    def references(self) -> Iterator[Reference]:
        """All references of the request."""
        yield from self.url.references
        if self.query is not None and not isinstance(self.query, (ListedParameters, UnusedArguments)):
            yield from references_in(self.query)
        for _, value in self.headers:
            yield from value.references
        if isinstance(self.body, BodyTemplate):
            yield from references_in(self.body.template)

    @property
    def variables(self) -> frozenset[str]:
        """The environment variables that the request refers to."""
        return frozenset(each.name for each in self.references if isinstance(each, VariableReference))

    @property
    def argument_names(self) -> list[str]:
        """The arguments that references use, in order."""
        names = [str(each.path[0]) for each in self.references if isinstance(each, ArgumentReference) and each.path]
        if isinstance(self.query, ListedParameters):
            names += self.query.names
        return list(dict.fromkeys(names))

    @property
    def constant_secrets(self) -> list[str]:
        """Values that the developer wrote into headers or the query under the name of a secret."""
        named = [*self.headers, *((name, value) for name, value in self.url.query if value is not None)]
        if isinstance(self.query, TemplateObject):
            named += [(name, each.template) for name, each in self.query.fields if isinstance(each, TemplateText)]
            named += [
                (name, TextTemplate((each.value,)))
                for name, each in self.query.fields
                if isinstance(each, ConstantValue) and isinstance(each.value, str)
            ]
        written = [
            without_auth_scheme(part)
            for name, template in named
            if is_secret_name(name)
            for part in template.parts
            if isinstance(part, str)
        ]
        return [each for each in written if each]  # before a reference there may be nothing but the scheme

    def prepare(self, arguments: Mapping[str, Any], defaults: Mapping[str, Any], secrets: SecretSource) -> HttpRequest:
        """The request of one call; raises `ToolError` for a value that it cannot hold.

        Args:
            defaults: values of arguments that the call does not give, for references only.
        """
        values = CallValues({**defaults, **arguments} if defaults else arguments, secrets)
        unused = {name: value for name, value in arguments.items() if name not in self.used_names}
        query = encode_query(
            [*self.url.render_query(values, self.query_style), *self._query_pairs(values, arguments, unused)]
        )
        target = target_with_path(self.url.origin, self.url.render_path(values), query)
        if len(target.path) > MAX_URL_LENGTH:
            problem = f"The URL would have {len(target.path)} characters; at most {MAX_URL_LENGTH} are sent."
            raise mark_unsent(InvalidArguments(f"{problem} Give shorter values."))
        headers = [(name, template.render(values, f"The header {name}")) for name, template in self.headers]
        body = self._encode_body(values, unused)
        if body is not None and not any(name.lower() == "content-type" for name, _ in headers):
            headers.append(("Content-Type", body.media_type))
        if not any(name.lower() == "accept" for name, _ in headers):
            headers.append(("Accept", _ACCEPT))
        return build_request(self.method, target, headers, None if body is None else body.content)

    def _query_pairs(
        self, values: CallValues, arguments: Mapping[str, Any], unused: Mapping[str, Any]
    ) -> Iterator[Pair]:
        fields: Mapping[str, Any]
        match self.query:
            case None:
                return
            case UnusedArguments():
                fields = unused
            case ListedParameters(names):
                fields = {name: arguments[name] for name in names if name in arguments}
            case template:
                fields = _require_object(template.resolve(values))
        for name, value in fields.items():
            yield from query_pairs(name, value, self.query_style)

    def _encode_body(self, values: CallValues, unused: Mapping[str, Any]) -> EncodedBody | None:
        match self.body:
            case None:
                return None
            case UnusedArguments():
                return encode_body("json", dict(unused))
            case template:
                return template.encode(values)


def _require_object(value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise mark_unsent(InvalidArguments(f"The query must be an object, got {type(value).__name__}."))
    return value


def parse_request_template(
    method: Any,
    url: Any,
    *,
    query: Any = NOT_GIVEN,
    headers: Mapping[str, Any] | None = None,
    body: Any = NOT_GIVEN,
    body_type: Any = "json",
    query_style: Any = "repeat",
) -> RequestTemplate:
    """Parse what a developer wrote; raises `DefinitionError`."""
    method = _parse_method(method)
    if query_style not in get_args(QueryStyle):
        fix = f"use one of {', '.join(get_args(QueryStyle))}."
        raise DefinitionError(f"Unknown query_style {query_style!r}.", fix=fix)
    if body is not NOT_GIVEN and body is not None and method in METHODS_WITHOUT_BODY:
        raise DefinitionError(f"A {method} request has no body.", fix="use query=, or another method.")
    sends_query = method in _QUERY_METHODS
    parsed_body: BodyTemplate | UnusedArguments | None = None
    if body is NOT_GIVEN:
        parsed_body = None if sends_query else UnusedArguments()
    elif body is not None:
        parsed_body = parse_body_template(body, body_type, query_style)
    if body is NOT_GIVEN and body_type != "json":
        raise DefinitionError("body_type has no effect without body.", fix="give a body, such as body='${parameters}'.")
    template = RequestTemplate(
        method,
        parse_url_template(url),
        _parse_query(query, is_default=sends_query and body is NOT_GIVEN),
        _parse_headers(headers),
        parsed_body,
        query_style,
    )
    return replace(template, used_names=frozenset(template.argument_names))


def _parse_method(method: Any) -> str:
    name = method.upper() if isinstance(method, str) else ""
    if name not in ALLOWED_METHODS:
        known = ", ".join(sorted(ALLOWED_METHODS))
        near = nearest_names(name, ALLOWED_METHODS, 1)
        fix = f"did you mean {near[0]}?" if near else f"use one of {known}."
        raise DefinitionError(f"{method!r} is not a method.", fix=fix)
    return name


def _parse_query(query: Any, *, is_default: bool) -> JsonTemplate | ListedParameters | UnusedArguments | None:
    if query is NOT_GIVEN:
        return UnusedArguments() if is_default else None
    if query is None:
        return None
    if isinstance(query, (list, tuple)):
        if not all(isinstance(name, str) and name for name in query):
            raise DefinitionError("A list as query must hold names of parameters.", fix="write query=['city'].")
        return ListedParameters(tuple(query))
    if isinstance(query, Mapping) or (isinstance(query, str) and parse_template(query).only_reference is not None):
        return parse_json_template(query)
    raise DefinitionError(
        f"query must be a mapping or a list of names, got {query!r}.", fix="write query={'q': '${parameters.q}'}."
    )


def _parse_headers(headers: Any) -> tuple[tuple[str, TextTemplate], ...]:
    if headers is None:
        return ()
    if not isinstance(headers, Mapping):
        raise DefinitionError("headers must be a mapping.", fix="write headers={'X-Name': 'value'}.")
    parsed = tuple((str(name), parse_template(str(value))) for name, value in headers.items())
    try:
        # With a harmless value for each reference: a mistake in the constant parts shows now.
        sent = validate_headers(
            (name, "".join(part if isinstance(part, str) else "x" for part in value.parts)) for name, value in parsed
        )
    except ToolError as error:
        raise DefinitionError(str(error), fix="correct the header.") from None
    if len({name.lower() for name, _ in sent}) < len(sent):
        raise DefinitionError("Two headers have the same name.", fix="keep one of them.")
    return parsed
