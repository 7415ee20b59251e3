"""Forms: what a server asks a person for, what the person is shown, and what the answer means to the server."""

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
"""Requests as on the wire, `{"method": ..., "params": ...}`, each under the key that its answer goes by."""

MAX_REQUESTS_AT_ONCE, MAX_FORM_FIELDS, MAX_URL_LENGTH = 20, 100, 8_000
CURRENT_QUESTION_KEY = "now"
"""The key of a question that the server waits for at this very moment."""
ELICITATION_ACTIONS = ("accept", "decline", "cancel")
_ELICITATION_METHOD, _ROOTS_METHOD, _SAMPLING_METHOD = "elicitation/create", "roots/list", "sampling/createMessage"


@dataclass(frozen=True, slots=True)
class InputQuestion:
    """What a person is asked: a text, and the form to show, as JSON.

    A form is `{"mode": "form", "server", "message", "schema"}`; an address that the person shall open in a browser is
    `{"mode": "url", "server", "message", "url", "host"}`, and has `looks_like` where the host is not spelt in plain
    ASCII; each has a `key` where the server gave it one; several at once are
    `{"mode": "several", "server", "requests": {key: one of those}}`.
    """

    message: str
    request: dict[str, Any]


def build_question(requests: InputRequests, *, server: str = "") -> InputQuestion | None:
    """The question for a person; None if nobody need be asked. Raises `Denied` where `refused` says something."""
    if problem := refusal_reason(requests):
        raise Denied(problem)
    forms = {key: _render_request(request, server) for key, request in _elicitations(requests).items()}
    if not forms:
        return None
    message = "\n".join(_render_sentence(form) for form in forms.values())
    named = f"{server} asks: {message}" if server else message
    if len(forms) == 1:
        [(key, form)] = forms.items()
        return InputQuestion(named, form if key == CURRENT_QUESTION_KEY else {**form, "key": key})
    return InputQuestion(named, {"mode": "several", "server": server, "requests": forms})


def refusal_reason(requests: InputRequests) -> str | None:
    """Why some of these cannot be put to anybody, in words for the model; None if all can."""
    if len(requests) > MAX_REQUESTS_AT_ONCE:
        return f"The server asks {len(requests)} questions at once; at most {MAX_REQUESTS_AT_ONCE} are put to a person."
    problems = [problem for request in requests.values() if (problem := _request_problem(request))]
    return " ".join(dict.fromkeys(problems)) or None


def build_input_responses(
    requests: InputRequests, answer: Any, *, roots: Iterable[str | WireRequest] = ()
) -> dict[str, dict[str, Any]]:
    """The results to send, by key; raises `InvalidArguments` for an answer that does not fit, which changes nothing.

    A form takes the values by name, or `{"action": "accept", "content": {...}}`, `{"action": "decline"}` or
    `{"action": "cancel"}`; False declines it, and True accepts what is filled in already. A form of a single field
    takes its value alone, but yes or no only where the field has to be answered: a box that may be left out is never
    ticked by a plain yes. (Where a form has a field `action` of its own, only what has `content` beside it counts as an
    action.) An address takes True, None or `{}` for yes, and False for no. Several at once take such answers by
    key, or one action for all. Roots are told without asking.
    """
    asked = _elicitations(requests)
    found = {key: _roots_result(roots) for key, request in requests.items() if request.get("method") == _ROOTS_METHOD}
    given = _answers_by_key(asked, answer) if len(asked) > 1 else dict.fromkeys(asked, answer)
    return found | {
        key: _build_response(request, given[key], key, is_only=len(asked) == 1) for key, request in asked.items()
    }


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
            return (
                _url_problem(_request_params(request).get("url"))
                if _is_url_request(request)
                else _form_problem(request)
            )
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
    return (
        f"The server's form has {len(fields)} fields, at most {MAX_FORM_FIELDS}."
        if len(fields) > MAX_FORM_FIELDS
        else None
    )


def _url_problem(url: Any) -> str | None:
    """Why nobody should be sent there: only the web, no hidden sign-in, nothing that reads as another address."""
    try:
        address = _ParsedUrl.parse(url)
    except ValueError:  # UnicodeError is one, too
        return f"The server asks to open {short_repr(url, 200)}, which is no address."
    if address.scheme not in ("http", "https") or not address.host:
        return f"The server asks to open {short_repr(url, 200)}; only http and https addresses are shown to people."
    if address.has_credentials:
        return f"The server asks to open an address with a user name in it ({short_repr(url, 200)})."
    if (
        len(url) > MAX_URL_LENGTH
        or not address.url.isascii()
        or clean_line(url, MAX_URL_LENGTH) != url
        or set(url) & set(' "<>\\')
    ):
        return f"The server asks to open {short_repr(url, 200)}, which has characters that no address has, or too many."
    return None


@dataclass(frozen=True, slots=True)
class _ParsedUrl:
    url: str
    """With its host in plain ASCII."""
    scheme: str
    host: str
    unicode_host: str
    has_credentials: bool

    @classmethod
    def parse(cls, url: Any) -> _ParsedUrl:
        parts = urlsplit(url if isinstance(url, str) else "")
        host = (parts.hostname or "").encode("idna").decode() if parts.hostname else ""
        shown = f"[{host}]" if ":" in host else host
        place = shown if parts.port is None else f"{shown}:{parts.port}"
        spelt = host.encode().decode("idna")
        return cls(urlunsplit(parts._replace(netloc=place)), parts.scheme, host, spelt, "@" in parts.netloc)


def _render_request(request: WireRequest, server: str) -> dict[str, Any]:
    params = _request_params(request)
    about = {"server": server, "message": clean_text(params.get("message"))}
    if not _is_url_request(request):
        return {"mode": "form", **about, "schema": _form_schema(request)}
    address = _ParsedUrl.parse(params["url"])
    looks = {"looks_like": address.unicode_host} if address.unicode_host != address.host else {}
    return {"mode": "url", **about, "url": address.url, "host": address.host, **looks}


def _render_sentence(form: Mapping[str, Any]) -> str:
    if form["mode"] == "form":
        return str(form["message"]) or "Please fill in the form."
    alike = f", which only looks like {form['looks_like']}" if "looks_like" in form else ""
    return f"{form['message']} Open {form['url']} (on {form['host']}{alike})".strip()


def _form_schema(request: WireRequest) -> dict[str, Any]:
    """The form's schema with its prose cleaned; raises `Unusable`."""
    schema = to_object_schema(_request_params(request).get("requestedSchema"), "An MCP server's form")
    ServerSchema(schema).check_bounds()
    made = clean_schema(schema)
    fields = made["properties"]
    if not isinstance(fields, dict) or not all(isinstance(field, dict) for field in fields.values()):
        raise UnusableDefinition("Its fields are not described as a form's are.")
    return made


def _answers_by_key(elicitations: Mapping[str, WireRequest], answer: Any) -> dict[str, Any]:
    whole = _parse_action(answer, ())
    if whole in ("decline", "cancel") or answer is False:
        return dict.fromkeys(elicitations, answer)
    keys = ", ".join(map(repr, elicitations))
    if not isinstance(answer, Mapping):
        raise InvalidArguments(f"Answer each of the questions by its key: {keys}. Not {short_repr(answer)}.")
    if strange := [key for key in answer if key not in elicitations]:
        raise InvalidArguments(f"{', '.join(map(repr, strange[:5]))} is none of the questions. They are: {keys}.")
    if missing := [key for key in elicitations if key not in answer]:
        raise InvalidArguments(f"The answer to {', '.join(map(repr, missing))} is missing.")
    return dict(answer)


def _parse_action(answer: Any, fields: Iterable[str]) -> str | None:
    """The action that an answer names, if it is one and not the values of a form."""
    if not isinstance(answer, Mapping) or not {"action"} <= answer.keys() <= {"action", "content"}:
        return None
    if "action" in fields and "content" not in answer:
        return None
    if answer["action"] not in ELICITATION_ACTIONS:
        raise InvalidArguments(f"{short_repr(answer['action'])} is no action. Use accept, decline or cancel.")
    return str(answer["action"])


def _build_response(request: WireRequest, answer: Any, key: str, *, is_only: bool) -> dict[str, Any]:
    try:
        return (
            _response_to_url(answer) if _is_url_request(request) else _response_to_form(_form_schema(request), answer)
        )
    except InvalidArguments as error:
        raise error if is_only else InvalidArguments(f"{key}: {error}") from None


def _response_to_url(answer: Any) -> dict[str, Any]:
    if answer is None or answer is True or answer == {}:
        return {"action": "accept"}
    if answer is False:
        return {"action": "decline"}
    if action := _parse_action(answer, ()) or (answer if answer in ELICITATION_ACTIONS else None):
        return {"action": action}
    raise InvalidArguments(f"Say true once the address was opened, or false for no. Not {short_repr(answer)}.")


def _response_to_form(schema: dict[str, Any], answer: Any) -> dict[str, Any]:
    fields: dict[str, Any] = schema["properties"]
    action = _parse_action(answer, fields)
    if action in ("decline", "cancel"):
        return {"action": action}
    given = answer.get("content") or {} if action else _parse_form_values(schema, answer)
    if given is None:
        return {"action": "decline"}
    return {"action": "accept", "content": _validate_content(schema, given)}


def _parse_form_values(schema: dict[str, Any], answer: Any) -> Any:
    """The values by name; None for a plain no."""
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
    """Whether a value without a name is that of the only field. A yes answers the question, and not a box in it."""
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
            near = nearest_names(str(name), fields, 1)
            hint = f"; did you mean {near[0]!r}?" if near else f". It has: {', '.join(fields)}."
            raise InvalidArguments(f"The form has no field {short_repr(name)}{hint}")
    filled = {name: field["default"] for name, field in fields.items() if name not in content and _has_default(field)}
    values = filled | {
        name: _wrap_single_choice(value, fields[name]) for name, value in content.items() if value is not None
    }
    _refuse_nested(values)
    return ServerSchema(schema, where="An MCP server's form", validate_formats=True).validate_mapping(values)


def _has_default(field: Mapping[str, Any]) -> bool:
    return field.get("default") is not None


def _wrap_single_choice(value: Any, field: Mapping[str, Any]) -> Any:
    """One choice stands for a list of one."""
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
