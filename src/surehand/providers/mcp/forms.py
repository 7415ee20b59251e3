"""Forms: what a server asks a person for, what the person is shown, and what the answer means to the server."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias
from urllib.parse import urlsplit, urlunsplit

from surehand.core.errors import Denied, InvalidArguments
from surehand.core.explain import preview
from surehand.core.names import nearest
from surehand.core.sanitize import clean_line, clean_text
from surehand.providers.mcp.schema import Schema, Unusable
from surehand.providers.mcp.wording import cleaned, object_schema

Wire: TypeAlias = Mapping[str, Any]
Requests: TypeAlias = Mapping[str, Wire]
"""Requests as on the wire, `{"method": ..., "params": ...}`, each under the key that its answer goes by."""

MOST_REQUESTS, MOST_FIELDS, MOST_URL = 20, 100, 8_000
NOW = "now"
"""The key of a question that the server waits for at this very moment."""
ACTIONS = ("accept", "decline", "cancel")
_ELICIT, _ROOTS, _SAMPLE = "elicitation/create", "roots/list", "sampling/createMessage"


@dataclass(frozen=True, slots=True)
class Question:
    """What a person is asked: a text, and the form to show, as JSON.

    A form is `{"mode": "form", "server", "message", "schema"}`; an address that the person shall open in a browser is
    `{"mode": "url", "server", "message", "url", "host"}`, and has `looks_like` where the host is not spelt in plain
    ASCII; each has a `key` where the server gave it one; several at once are
    `{"mode": "several", "server", "requests": {key: one of those}}`.
    """

    message: str
    request: dict[str, Any]


def question_of(requests: Requests, *, server: str = "") -> Question | None:
    """The question for a person; None if nobody need be asked. Raises `Denied` where `refused` says something."""
    if problem := refused(requests):
        raise Denied(problem)
    forms = {key: _shown(request, server) for key, request in _asked(requests).items()}
    if not forms:
        return None
    message = "\n".join(_sentence(form) for form in forms.values())
    named = f"{server} asks: {message}" if server else message
    if len(forms) == 1:
        [(key, form)] = forms.items()
        return Question(named, form if key == NOW else {**form, "key": key})
    return Question(named, {"mode": "several", "server": server, "requests": forms})


def refused(requests: Requests) -> str | None:
    """Why some of these cannot be put to anybody, in words for the model; None if all can."""
    if len(requests) > MOST_REQUESTS:
        return f"The server asks {len(requests)} questions at once; at most {MOST_REQUESTS} are put to a person."
    problems = [problem for request in requests.values() if (problem := _problem(request))]
    return " ".join(dict.fromkeys(problems)) or None


def answers_of(requests: Requests, answer: Any, *, roots: Iterable[str | Wire] = ()) -> dict[str, dict[str, Any]]:
    """The results to send, by key; raises `InvalidArguments` for an answer that does not fit, which changes nothing.

    A form takes the values by name, or `{"action": "accept", "content": {...}}`, `{"action": "decline"}` or
    `{"action": "cancel"}`; False declines it, and True accepts what is filled in already. A form of a single field
    takes its value alone, but yes or no only where the field has to be answered: a box that may be left out is never
    ticked by a plain yes. (Where a form has a field `action` of its own, only what has `content` beside it counts as an
    action.) An address takes True, None or `{}` for yes, and False for no. Several at once take such answers by
    key, or one action for all. Roots are told without asking.
    """
    asked = _asked(requests)
    found = {key: _roots(roots) for key, request in requests.items() if request.get("method") == _ROOTS}
    given = _by_key(asked, answer) if len(asked) > 1 else dict.fromkeys(asked, answer)
    return found | {key: _answer(request, given[key], key, alone=len(asked) == 1) for key, request in asked.items()}


def _asked(requests: Requests) -> dict[str, Wire]:
    return {key: request for key, request in requests.items() if request.get("method", _ELICIT) == _ELICIT}


def _params(request: Wire) -> Wire:
    params = request.get("params", request)
    return params if isinstance(params, Mapping) else {}


def _is_url(request: Wire) -> bool:
    return _params(request).get("mode") == "url"


def _problem(request: Wire) -> str | None:
    match request.get("method", _ELICIT):
        case "elicitation/create":
            return _bad_url(_params(request).get("url")) if _is_url(request) else _bad_form(request)
        case "roots/list":
            return None
        case "sampling/createMessage":
            return "The server asks for the use of a model (sampling), which it is not given."
    return f"The server asks for {clean_line(str(request.get('method')), 80)!r}, which is not known here."


def _bad_form(request: Wire) -> str | None:
    try:
        fields = _form(request).get("properties", {})
    except Unusable as error:
        return f"The server's form cannot be shown: {error}"
    return f"The server's form has {len(fields)} fields, at most {MOST_FIELDS}." if len(fields) > MOST_FIELDS else None


def _bad_url(url: Any) -> str | None:
    """Why nobody should be sent there: only the web, no hidden sign-in, nothing that reads as another address."""
    try:
        address = _Address.of(url)
    except ValueError:  # UnicodeError is one, too
        return f"The server asks to open {preview(url, 200)}, which is no address."
    if address.scheme not in ("http", "https") or not address.host:
        return f"The server asks to open {preview(url, 200)}; only http and https addresses are shown to people."
    if address.signs_in:
        return f"The server asks to open an address with a user name in it ({preview(url, 200)})."
    if len(url) > MOST_URL or not address.url.isascii() or clean_line(url, MOST_URL) != url or set(url) & set(' "<>\\'):
        return f"The server asks to open {preview(url, 200)}, which has characters that no address has, or too many."
    return None


@dataclass(frozen=True, slots=True)
class _Address:
    url: str
    """With its host in plain ASCII."""
    scheme: str
    host: str
    looks_like: str
    signs_in: bool

    @classmethod
    def of(cls, url: Any) -> _Address:
        parts = urlsplit(url if isinstance(url, str) else "")
        host = (parts.hostname or "").encode("idna").decode() if parts.hostname else ""
        shown = f"[{host}]" if ":" in host else host
        place = shown if parts.port is None else f"{shown}:{parts.port}"
        spelt = host.encode().decode("idna")
        return cls(urlunsplit(parts._replace(netloc=place)), parts.scheme, host, spelt, "@" in parts.netloc)


def _shown(request: Wire, server: str) -> dict[str, Any]:
    params = _params(request)
    about = {"server": server, "message": clean_text(params.get("message"))}
    if not _is_url(request):
        return {"mode": "form", **about, "schema": _form(request)}
    address = _Address.of(params["url"])
    looks = {"looks_like": address.looks_like} if address.looks_like != address.host else {}
    return {"mode": "url", **about, "url": address.url, "host": address.host, **looks}


def _sentence(form: Mapping[str, Any]) -> str:
    if form["mode"] == "form":
        return str(form["message"]) or "Please fill in the form."
    alike = f", which only looks like {form['looks_like']}" if "looks_like" in form else ""
    return f"{form['message']} Open {form['url']} (on {form['host']}{alike})".strip()


def _form(request: Wire) -> dict[str, Any]:
    """The form's schema with its prose cleaned; raises `Unusable`."""
    schema = object_schema(_params(request).get("requestedSchema"), "An MCP server's form")
    Schema(schema).bound()
    made = cleaned(schema)
    fields = made["properties"]
    if not isinstance(fields, dict) or not all(isinstance(field, dict) for field in fields.values()):
        raise Unusable("Its fields are not described as a form's are.")
    return made


def _by_key(asked: Mapping[str, Wire], answer: Any) -> dict[str, Any]:
    whole = _action(answer, ())
    if whole in ("decline", "cancel") or answer is False:
        return dict.fromkeys(asked, answer)
    keys = ", ".join(map(repr, asked))
    if not isinstance(answer, Mapping):
        raise InvalidArguments(f"Answer each of the questions by its key: {keys}. Not {preview(answer)}.")
    if strange := [key for key in answer if key not in asked]:
        raise InvalidArguments(f"{', '.join(map(repr, strange[:5]))} is none of the questions. They are: {keys}.")
    if missing := [key for key in asked if key not in answer]:
        raise InvalidArguments(f"The answer to {', '.join(map(repr, missing))} is missing.")
    return dict(answer)


def _action(answer: Any, fields: Iterable[str]) -> str | None:
    """The action that an answer names, if it is one and not the values of a form."""
    if not isinstance(answer, Mapping) or not {"action"} <= answer.keys() <= {"action", "content"}:
        return None
    if "action" in fields and "content" not in answer:
        return None
    if answer["action"] not in ACTIONS:
        raise InvalidArguments(f"{preview(answer['action'])} is no action. Use accept, decline or cancel.")
    return str(answer["action"])


def _answer(request: Wire, answer: Any, key: str, *, alone: bool) -> dict[str, Any]:
    try:
        return _to_url(answer) if _is_url(request) else _to_form(_form(request), answer)
    except InvalidArguments as error:
        raise error if alone else InvalidArguments(f"{key}: {error}") from None


def _to_url(answer: Any) -> dict[str, Any]:
    if answer is None or answer is True or answer == {}:
        return {"action": "accept"}
    if answer is False:
        return {"action": "decline"}
    if action := _action(answer, ()) or (answer if answer in ACTIONS else None):
        return {"action": action}
    raise InvalidArguments(f"Say true once the address was opened, or false for no. Not {preview(answer)}.")


def _to_form(schema: dict[str, Any], answer: Any) -> dict[str, Any]:
    fields: dict[str, Any] = schema["properties"]
    action = _action(answer, fields)
    if action in ("decline", "cancel"):
        return {"action": action}
    given = answer.get("content") or {} if action else _values(schema, answer)
    if given is None:
        return {"action": "decline"}
    return {"action": "accept", "content": _checked(schema, given)}


def _values(schema: dict[str, Any], answer: Any) -> Any:
    """The values by name; None for a plain no."""
    fields: dict[str, Any] = schema["properties"]
    if isinstance(answer, Mapping):
        return answer
    if len(fields) == 1 and answer is not None and _takes_alone(schema, answer):
        return {next(iter(fields)): answer}
    if isinstance(answer, bool):
        return {} if answer else None
    raise InvalidArguments(f"Answer with the fields of the form by name: {', '.join(fields)}. Not {preview(answer)}.")


def _takes_alone(schema: dict[str, Any], answer: Any) -> bool:
    """Whether a value without a name is that of the only field. A yes answers the question, and not a box in it."""
    [(name, field)] = schema["properties"].items()
    if field.get("type") == "boolean":
        return name in schema.get("required", ())
    return not isinstance(answer, bool)


def _checked(schema: dict[str, Any], given: Any) -> dict[str, Any]:
    fields: dict[str, Any] = schema["properties"]
    if not isinstance(given, Mapping):
        raise InvalidArguments(f"The content must be the fields of the form by name, not {preview(given)}.")
    for name in given:
        if name not in fields:
            near = nearest(str(name), fields, 1)
            hint = f"; did you mean {near[0]!r}?" if near else f". It has: {', '.join(fields)}."
            raise InvalidArguments(f"The form has no field {preview(name)}{hint}")
    filled = {name: field["default"] for name, field in fields.items() if name not in given and _has_default(field)}
    values = filled | {name: _listed(value, fields[name]) for name, value in given.items() if value is not None}
    _refuse_nested(values)
    return Schema(schema, where="An MCP server's form", formats=True).take(values)


def _has_default(field: Mapping[str, Any]) -> bool:
    return field.get("default") is not None


def _listed(value: Any, field: Mapping[str, Any]) -> Any:
    """One choice stands for a list of one."""
    return [value] if isinstance(value, str) and field.get("type") == "array" else value


def _refuse_nested(values: Mapping[str, Any]) -> None:
    for name, value in values.items():
        items = value if isinstance(value, list) else ()
        if not isinstance(value, (str, int, float, list)) or not all(isinstance(item, str) for item in items):
            raise InvalidArguments(
                f"`{name}` must be a text, a number, yes or no, or a list of texts, not {preview(value)}."
            )


def _roots(roots: Iterable[str | Wire]) -> dict[str, Any]:
    return {"roots": [{"uri": root} if isinstance(root, str) else dict(root) for root in roots]}
