"""Questions: what a waiting call asks of a person, as elicitations, and what the answers mean for the call."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypedDict

from surehand.core.errors import DefinitionError, InvalidArguments
from surehand.core.outcome import Failed, Outcome, Pending
from surehand.core.rawschema import RawParameters
from surehand.core.sanitize import replace_surrogates_in
from surehand.gateway.mcp.foreign import may_open
from surehand.gateway.mcp.shown import call, form, quoted, words, written
from surehand.gateway.mcp.state import State

if TYPE_CHECKING:
    from surehand.gateway.mcp.caller import Caller
    from surehand.runtime.scope import Scope
    from surehand.runtime.standing import Standing

Answers: TypeAlias = Mapping[str, Mapping[str, Any]]
"""What came back, `{"action": ..., "content": ...}`, by key."""

_FLAT = {"string", "number", "integer", "boolean"}
_ALWAYS = {"type": "boolean", "title": "Do not ask again", "default": False}


class Question(NamedTuple):
    """What is asked in one round of a call."""

    call_id: str
    kind: str
    """`approval`, `question` (answered with an action), `several` of those, or `form` (answered with its values)."""
    requests: dict[str, dict[str, Any]]
    """The parameters of elicitations, by the key of whoever asks."""
    round: int
    suffix: str = ""
    """What keys end in on the wire, where those of different rounds must differ."""

    @property
    def wire(self) -> dict[str, dict[str, Any]]:
        """As they are put to a client of the newer protocol."""
        requests = self.requests.items()
        return {f"{key}{self.suffix}": {"method": "elicitation/create", "params": params} for key, params in requests}

    def result(self, mark: str) -> dict[str, Any]:
        """In place of a result, in the newer protocol."""
        state = str(State(self.call_id, self.round, mark))
        return {"resultType": "input_required", "inputRequests": self.wire, "requestState": state}

    def fitting(self, answers: Answers) -> dict[str, Mapping[str, Any]]:
        """Those that are answers to this round, by the key of whoever asks."""
        return {key: found for key in self.requests if (found := answers.get(f"{key}{self.suffix}")) is not None}

    def complaint(self, answers: Answers) -> str | None:
        """Why answers cannot be taken. Whoever asks by an action looks at what comes back itself."""
        if self.kind != "form" or (value := answers.get(_ANSWER)) is None or value.get("action") != "accept":
            return None
        try:
            RawParameters(self.requests[_ANSWER]["requestedSchema"]).take(value.get("content") or {})
        except InvalidArguments as error:
            return str(error)
        except DefinitionError:  # nobody can say what fits a form that is no schema
            return None
        return None

    def again(self, complaint: str) -> Question:
        """The same, and what was wrong with the answer."""
        asked = {
            key: {**each, "message": f"{words(complaint)} {each['message']}"} for key, each in self.requests.items()
        }
        return self._replace(requests=asked)


_ANSWER = "answer"


def question_of(standing: Standing | None, caller: Caller) -> Question | None:
    """What can be asked of this caller's person; None if nothing is open, or it cannot be asked."""
    if standing is None or not isinstance(standing.outcome, Pending):
        return None
    kind, asked = _asked(standing, standing.outcome, caller.user)
    if not asked or not all(caller.url if params["mode"] == "url" else caller.form for params in asked.values()):
        return None
    return Question(standing.call_id, kind, asked, standing.round)


def _asked(standing: Standing, pending: Pending, user: str | None) -> tuple[str, dict[str, dict[str, Any]]]:
    request = pending.request
    match pending.waiting_for, request:
        case "approval", _:
            return "approval", {"approve": _form(_to_approve(standing, pending), {"always": _always(user)})}
        case "input", {"mode": "several", "requests": Mapping() as several}:
            asked = {str(key): _params(each, "") for key, each in several.items()}
            return "several", {key: params for key, params in asked.items() if params} if all(asked.values()) else {}
        case "input", {"mode": "form" | "url"}:
            key = str(request.get("key") or _ANSWER)
            return "question", {key: params} if (params := _params(request, pending.message)) else {}
        case "input", {"type": "object", "properties": Mapping()} if _is_flat(request):
            return "form", {_ANSWER: _as_form(words(pending.message), request)}
    return "", {}


def _params(request: Any, message: str) -> dict[str, Any] | None:
    match request:
        case {"mode": "form", "schema": {"properties": Mapping()} as schema}:
            return _as_form(words(message or str(request.get("message", ""))), schema)
        case {"mode": "url", "url": str(url)} if may_open(url):
            return {"mode": "url", "message": words(message or str(request.get("message", ""))), "url": url}
    return None


def _as_form(message: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    """A form has these fields and no others."""
    kept = replace_surrogates_in(
        form({key: schema[key] for key in ("properties", "required", "$schema") if key in schema})
    )
    return {"mode": "form", "message": message, "requestedSchema": {"type": "object", **kept}}


def _form(message: str, fields: dict[str, Any]) -> dict[str, Any]:
    return _as_form(message, {"properties": fields})


def _always(user: str | None) -> dict[str, Any]:
    """The box for a standing yes, which says whose it is."""
    whose = "for all who use this server" if user is None else f"for {user}"
    return {**_ALWAYS, "description": f"Also allow later calls of this tool, {whose}."}


def _to_approve(standing: Standing, pending: Pending) -> str:
    """The question, and what exactly would run."""
    about = standing.asked or standing  # a call that waits for another one is asked about that
    asks: Mapping[str, Any] = pending.request if isinstance(pending.request, Mapping) else {}
    parts = [words(pending.message), call(about.tool, about.arguments, _defaults(asks.get("schema")))]
    preview = asks.get("preview")
    return "\n\n".join([*parts, *([f"Its preview:\n{quoted(written(preview))}"] if preview is not None else [])])


def _defaults(schema: Any) -> dict[str, Any]:
    """What a call runs with where an argument is not sent: policy and confirmation have looked at it, too."""
    match schema:
        case {"properties": Mapping() as fields}:
            return {
                name: field["default"]
                for name, field in fields.items()
                if isinstance(field, Mapping) and "default" in field
            }
    return {}


def _is_flat(schema: Mapping[str, Any]) -> bool:
    """Whether a schema is one that a form can be made of."""
    fields = schema["properties"].values()
    return bool(fields) and all(isinstance(field, Mapping) and _is_field(field) for field in fields)


def _is_field(field: Mapping[str, Any]) -> bool:
    """A plain value, or a choice of several texts."""
    match field:
        case {"type": "array", "items": {"enum": list()} | {"anyOf": list()}}:
            return True
        case {"type": str(kind)}:
            return kind in _FLAT
    return False


TOO_LATE = ("conflict", "not_found")
"""What somebody hears who answers what was answered already."""


async def answer(scope: Scope, question: Question, answers: Answers, by: str) -> Outcome | None:
    """Give the call its answers, of which there is one for each request; None if it goes on waiting.

    They count for this question alone, also where the call asks the next one by now.
    """
    call_id, to = question.call_id, _To(by=by, round=question.round)
    if question.kind == "several":
        return await scope.settle(call_id, {key: _action(value) for key, value in answers.items()}, **to)
    [value] = answers.values()
    said, content = value.get("action"), value.get("content") or {}
    match question.kind, said:
        case "question", _:
            return await scope.settle(call_id, _action(value), **to)
        case "approval", "accept":
            return await scope.approve(call_id, always=content.get("always") is True, **to)
        case "approval", "decline":
            return await scope.reject(call_id, **to)
        case "form", "accept":
            return await scope.settle(call_id, content, **to)
        case "form", "decline":
            return await scope.settle(call_id, Failed("rejected", "the person who was asked said no."), **to)
    return None  # dismissed: somebody may still answer elsewhere


class _To(TypedDict):
    by: str
    round: int


def _action(value: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value[key] for key in ("action", "content") if value.get(key) is not None}
