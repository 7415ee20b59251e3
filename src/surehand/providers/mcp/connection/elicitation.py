"""Elicitations: the form or URL that a person is shown, and the response that the answer becomes.

`tool_call.py` uses it for both protocols. Requests come from an untrusted server: they are bounded and cleaned before a
person sees them. Nothing here talks to the server.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias
from urllib.parse import urlsplit, urlunsplit

from surehand.core.argument_errors import short_repr
from surehand.core.errors import Denied, InvalidArguments
from surehand.core.names import nearest_names
from surehand.core.sanitize import clean_line, clean_text
from surehand.providers.mcp.tools.schema import ServerSchema, UnusableDefinition, clean_schema, to_object_schema

WireRequest: TypeAlias = Mapping[str, Any]
InputRequests: TypeAlias = Mapping[str, WireRequest]
"""Requests as on the wire, `{"method": ..., "params": ...}`, by the key of their response."""

MAX_REQUESTS_AT_ONCE = 20
MAX_FORM_FIELDS = 100
MAX_URL_LENGTH = 8_000
CURRENT_QUESTION_KEY = "now"
"""The key of a question of the handshake protocol, which the server waits for with an open request."""
ELICITATION_ACTIONS = ("accept", "decline", "cancel")
_ELICITATION_METHOD = "elicitation/create"
_ROOTS_METHOD = "roots/list"


@dataclass(frozen=True, slots=True)
class InputQuestion:
    """What a person is asked: a text, and the form to show, as JSON.

    A form is `{"mode": "form", "server", "message", "schema"}`. A URL to open in a browser is
    `{"mode": "url", "server", "message", "url", "host"}`, with `looks_like` if the host is not plain ASCII. Either has
    a `key` if the server gave one. Several at once are
    `{"mode": "several", "server", "requests": {key: one of these}}`.
    """

    message: str
    request: dict[str, Any]


def build_question(requests: InputRequests, *, server: str = "") -> InputQuestion | None:
    """The question for a person; None if no request needs one. Raises `Denied` with the `refusal_reason`."""
    if problem := refusal_reason(requests):
        raise Denied(problem)
    forms = {key: _render_request(request, server) for key, request in _elicitations(requests).items()}
    if not forms:
        return None
    message = "\n".join(_render_sentence(form) for form in forms.values())
    if server:
        message = f"{server} asks: {message}"
    if len(forms) == 1:
        [(key, form)] = forms.items()
        return InputQuestion(message, form if key == CURRENT_QUESTION_KEY else {**form, "key": key})
    return InputQuestion(message, {"mode": "several", "server": server, "requests": forms})


def refusal_reason(requests: InputRequests) -> str | None:
    """Why some of the requests cannot be shown to a person, for the model; None if all can."""
    if len(requests) > MAX_REQUESTS_AT_ONCE:
        return f"The server asks {len(requests)} questions at once; at most {MAX_REQUESTS_AT_ONCE} are put to a person."
    problems = [problem for request in requests.values() if (problem := _request_problem(request))]
    return " ".join(dict.fromkeys(problems)) or None


def build_input_responses(
    requests: InputRequests, answer: Any, *, roots: Iterable[str | WireRequest] = ()
) -> dict[str, dict[str, Any]]:
    """The responses to send, by key. Raises `InvalidArguments` for an answer that does not fit.

    The answer to a form is its values by name, or `{"action": "accept", "content": {...}}`, `{"action": "decline"}` or
    `{"action": "cancel"}`. False declines it, and True accepts its defaults. A form with a single field also takes the
    bare value, but a bare boolean only if the field is required: True must not tick an optional box. (If a form has a
    field `action` of its own, only an answer with `content` counts as an action.) The answer to a URL is True, None or
    `{}` to accept, and False to decline. Several requests take such answers by key, or one action for all. Requests for
    roots are answered without a person.
    """
    elicitations = _elicitations(requests)
    is_only = len(elicitations) == 1
    answers = _answers_by_key(elicitations, answer) if len(elicitations) > 1 else dict.fromkeys(elicitations, answer)
    responses = {
        key: _roots_result(roots) for key, request in requests.items() if request.get("method") == _ROOTS_METHOD
    }
    for key, request in elicitations.items():
        responses[key] = _build_response(request, answers[key], key, is_only=is_only)
    return responses


def _elicitations(requests: InputRequests) -> dict[str, WireRequest]:
    return {
        key: request
        for key, request in requests.items()
        if request.get("method", _ELICITATION_METHOD) == _ELICITATION_METHOD
    }


def _request_params(request: WireRequest) -> WireRequest:
    params = request.get("params", request)
    return params if isinstance(params, Mapping) else {}


def _is_url_request(request: WireRequest) -> bool:
    return _request_params(request).get("mode") == "url"


def _request_problem(request: WireRequest) -> str | None:
    match request.get("method", _ELICITATION_METHOD):
        case "elicitation/create":
            if _is_url_request(request):
                return _url_problem(_request_params(request).get("url"))
            return _form_problem(request)
        case "roots/list":
            return None
        case "sampling/createMessage":
            return "The server asks for the use of a model (sampling), which it is not given."
    return f"The server asks for {clean_line(str(request.get('method')), 80)!r}, which is not known here."


def _form_problem(request: WireRequest) -> str | None:
    try:
        fields = _form_schema(request).get("properties", {})
    except UnusableDefinition as error:
        return f"The server's form cannot be shown: {error}"
    if len(fields) > MAX_FORM_FIELDS:
        return f"The server's form has {len(fields)} fields, at most {MAX_FORM_FIELDS}."
    return None


def _url_problem(url: Any) -> str | None:
    """Why a person must not be sent to a URL: not http, with credentials, or easily mistaken for another URL."""
    try:
        parsed = _ParsedUrl.parse(url)
    except ValueError:  # including UnicodeError
        return f"The server asks to open {short_repr(url, 200)}, which is no address."
    if parsed.scheme not in ("http", "https") or not parsed.host:
        return f"The server asks to open {short_repr(url, 200)}; only http and https addresses are shown to people."
    if parsed.has_credentials:
        return f"The server asks to open an address with a user name in it ({short_repr(url, 200)})."
    has_strange_characters = clean_line(url, MAX_URL_LENGTH) != url or bool(set(url) & set(' "<>\\'))
    if len(url) > MAX_URL_LENGTH or not parsed.url.isascii() or has_strange_characters:
        return f"The server asks to open {short_repr(url, 200)}, which has characters that no address has, or too many."
    return None


@dataclass(frozen=True, slots=True)
class _ParsedUrl:
    url: str
    """The URL with its host in ASCII (IDNA)."""
    scheme: str
    host: str
    unicode_host: str
    has_credentials: bool

    @classmethod
    def parse(cls, url: Any) -> _ParsedUrl:
        parts = urlsplit(url if isinstance(url, str) else "")
        host = (parts.hostname or "").encode("idna").decode() if parts.hostname else ""
        netloc = f"[{host}]" if ":" in host else host  # an IPv6 address stands in brackets
        if parts.port is not None:
            netloc = f"{netloc}:{parts.port}"
        return cls(
            url=urlunsplit(parts._replace(netloc=netloc)),
            scheme=parts.scheme,
            host=host,
            unicode_host=host.encode().decode("idna"),
            has_credentials="@" in parts.netloc,
        )


def _render_request(request: WireRequest, server: str) -> dict[str, Any]:
    params = _request_params(request)
    message = clean_text(params.get("message"))
    if not _is_url_request(request):
        return {"mode": "form", "server": server, "message": message, "schema": _form_schema(request)}
    parsed = _ParsedUrl.parse(params["url"])
    form = {"mode": "url", "server": server, "message": message, "url": parsed.url, "host": parsed.host}
    if parsed.unicode_host != parsed.host:
        form["looks_like"] = parsed.unicode_host
    return form


def _render_sentence(form: Mapping[str, Any]) -> str:
    if form["mode"] == "form":
        return str(form["message"]) or "Please fill in the form."
    warning = f", which only looks like {form['looks_like']}" if "looks_like" in form else ""
    return f"{form['message']} Open {form['url']} (on {form['host']}{warning})".strip()


def _form_schema(request: WireRequest) -> dict[str, Any]:
    """The form's schema with cleaned texts. Raises `UnusableDefinition`."""
    schema = to_object_schema(_request_params(request).get("requestedSchema"), "An MCP server's form")
    ServerSchema(schema).check_bounds()
    cleaned = clean_schema(schema)
    fields = cleaned["properties"]
    if not isinstance(fields, dict) or not all(isinstance(field, dict) for field in fields.values()):
        raise UnusableDefinition("Its fields are not described as a form's are.")
    return cleaned


def _answers_by_key(elicitations: Mapping[str, WireRequest], answer: Any) -> dict[str, Any]:
    action = _parse_action(answer, ())
    if action in ("decline", "cancel") or answer is False:
        return dict.fromkeys(elicitations, answer)
    keys = ", ".join(map(repr, elicitations))
    if not isinstance(answer, Mapping):
        raise InvalidArguments(f"Answer each of the questions by its key: {keys}. Not {short_repr(answer)}.")
    unknown = [key for key in answer if key not in elicitations]
    if unknown:
        raise InvalidArguments(f"{', '.join(map(repr, unknown[:5]))} is none of the questions. They are: {keys}.")
    missing = [key for key in elicitations if key not in answer]
    if missing:
        raise InvalidArguments(f"The answer to {', '.join(map(repr, missing))} is missing.")
    return dict(answer)


def _parse_action(answer: Any, fields: Iterable[str]) -> str | None:
    """The action of an answer; None if the answer is the values of a form."""
    if not isinstance(answer, Mapping) or not {"action"} <= answer.keys() <= {"action", "content"}:
        return None
    if "action" in fields and "content" not in answer:
        return None
    if answer["action"] not in ELICITATION_ACTIONS:
        raise InvalidArguments(f"{short_repr(answer['action'])} is no action. Use accept, decline or cancel.")
    return str(answer["action"])


def _build_response(request: WireRequest, answer: Any, key: str, *, is_only: bool) -> dict[str, Any]:
    try:
        if _is_url_request(request):
            return _response_to_url(answer)
        return _response_to_form(_form_schema(request), answer)
    except InvalidArguments as error:
        raise error if is_only else InvalidArguments(f"{key}: {error}") from None


def _response_to_url(answer: Any) -> dict[str, Any]:
    if answer is None or answer is True or answer == {}:
        return {"action": "accept"}
    if answer is False:
        return {"action": "decline"}
    action = _parse_action(answer, ())
    if action is None and answer in ELICITATION_ACTIONS:
        action = answer
    if action:
        return {"action": action}
    raise InvalidArguments(f"Say true once the address was opened, or false for no. Not {short_repr(answer)}.")


def _response_to_form(schema: dict[str, Any], answer: Any) -> dict[str, Any]:
    fields: dict[str, Any] = schema["properties"]
    action = _parse_action(answer, fields)
    if action in ("decline", "cancel"):
        return {"action": action}
    values = (answer.get("content") or {}) if action else _parse_form_values(schema, answer)
    if values is None:
        return {"action": "decline"}
    return {"action": "accept", "content": _validate_content(schema, values)}


def _parse_form_values(schema: dict[str, Any], answer: Any) -> Any:
    """The values by name; None if a bare False declines the form."""
    fields: dict[str, Any] = schema["properties"]
    if isinstance(answer, Mapping):
        return answer
    if len(fields) == 1 and answer is not None and _is_sole_field_value(schema, answer):
        return {next(iter(fields)): answer}
    if isinstance(answer, bool):
        return {} if answer else None
    raise InvalidArguments(
        f"Answer with the fields of the form by name: {', '.join(fields)}. Not {short_repr(answer)}."
    )


def _is_sole_field_value(schema: dict[str, Any], answer: Any) -> bool:
    """Whether a bare value is that of the only field. A bare boolean answers the question, not an optional box."""
    [(name, field)] = schema["properties"].items()
    if field.get("type") == "boolean":
        return name in schema.get("required", ())
    return not isinstance(answer, bool)


def _validate_content(schema: dict[str, Any], content: Any) -> dict[str, Any]:
    fields: dict[str, Any] = schema["properties"]
    if not isinstance(content, Mapping):
        raise InvalidArguments(f"The content must be the fields of the form by name, not {short_repr(content)}.")
    for name in content:
        if name not in fields:
            nearest = nearest_names(str(name), fields, 1)
            hint = f"; did you mean {nearest[0]!r}?" if nearest else f". It has: {', '.join(fields)}."
            raise InvalidArguments(f"The form has no field {short_repr(name)}{hint}")
    defaults = {name: field["default"] for name, field in fields.items() if name not in content and _has_default(field)}
    values = defaults | {
        name: _wrap_single_choice(value, fields[name]) for name, value in content.items() if value is not None
    }
    _refuse_nested(values)
    return ServerSchema(schema, where="An MCP server's form", validate_formats=True).validate_mapping(values)


def _has_default(field: Mapping[str, Any]) -> bool:
    return field.get("default") is not None


def _wrap_single_choice(value: Any, field: Mapping[str, Any]) -> Any:
    """A single choice as a list, for a field that takes several."""
    return [value] if isinstance(value, str) and field.get("type") == "array" else value


def _refuse_nested(values: Mapping[str, Any]) -> None:
    for name, value in values.items():
        items = value if isinstance(value, list) else ()
        if not isinstance(value, (str, int, float, list)) or not all(isinstance(item, str) for item in items):
            raise InvalidArguments(
                f"`{name}` must be a text, a number, yes or no, or a list of texts, not {short_repr(value)}."
            )


def _roots_result(roots: Iterable[str | WireRequest]) -> dict[str, Any]:
    return {"roots": [{"uri": root} if isinstance(root, str) else dict(root) for root in roots]}
