"""Questions: what a waiting call asks of a person, as elicitations, and what the answers mean for the call."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypedDict

from mcp.shared.exceptions import MCPError
from mcp.shared.message import ServerMessageMetadata
from mcp_types import ElicitRequest, ElicitRequestFormParams, ElicitRequestURLParams, ElicitResult
from pydantic import ValidationError

from surehand.core.errors import DefinitionError, InvalidArguments
from surehand.core.outcome import Failed, Outcome, Pending
from surehand.core.raw_schema import RawParameters
from surehand.core.sanitize import replace_surrogates_in
from surehand.gateway.mcp.cancellation import cancel_and_wait
from surehand.gateway.mcp.display_text import quote_lines, render_call, render_message, render_value, sanitize_form
from surehand.gateway.mcp.request_state import RequestState
from surehand.gateway.mcp.result_safety import is_openable_url

if TYPE_CHECKING:
    from mcp.server.context import ServerRequestContext

    from surehand.gateway.mcp.caller import Caller
    from surehand.runtime.pending.status import CallStatus
    from surehand.runtime.scope import Scope


async def ask_client(
    ctx: ServerRequestContext[Any, Any], question: ElicitationQuestion, wait_until_moot: Callable[[], Awaitable[object]]
) -> ElicitationAnswers | None:
    """The answers; None where nobody can be asked, or once nobody need be: then what is open is withdrawn.

    Args:
        moot: comes back when the question needs no answer any more.
    """
    loop = asyncio.get_running_loop()
    asking = loop.create_task(_elicit_all(ctx, question), name="mcp: asking")
    watching = loop.create_task(_run_wait(wait_until_moot), name="mcp: still asking")
    try:
        await asyncio.wait({asking, watching}, return_when=asyncio.FIRST_COMPLETED)
        return asking.result() if asking.done() else None
    finally:
        await cancel_and_wait(asking, watching)  # a client is told that nobody asks any more


async def _run_wait(wait_until_moot: Callable[[], Awaitable[object]]) -> None:
    await wait_until_moot()


async def _elicit_all(ctx: ServerRequestContext[Any, Any], question: ElicitationQuestion) -> ElicitationAnswers | None:
    try:
        return {key: await _elicit(ctx, key, params) for key, params in question.requests.items()}
    except (MCPError, ValidationError):  # it said that it can be asked, but it cannot: the call goes on waiting
        return None


async def _elicit(ctx: ServerRequestContext[Any, Any], key: str, params: dict[str, Any]) -> dict[str, Any]:
    asked: Any
    if params["mode"] == "url":
        asked = ElicitRequestURLParams(**params, elicitation_id=f"{ctx.request_id}-{key}")
    else:
        asked = ElicitRequestFormParams(message=params["message"], requested_schema=params["requestedSchema"])
    sent = ServerMessageMetadata(related_request_id=ctx.request_id)
    result = await ctx.session.send_request(ElicitRequest(params=asked), ElicitResult, metadata=sent)
    return result.model_dump(mode="json", exclude_none=True)


ElicitationAnswers: TypeAlias = Mapping[str, Mapping[str, Any]]
"""What came back, `{"action": ..., "content": ...}`, by key."""

_FORM_FIELD_TYPES = {"string", "number", "integer", "boolean"}
_ALWAYS_FIELD = {"type": "boolean", "title": "Do not ask again", "default": False}


class ElicitationQuestion(NamedTuple):
    """What is asked in one round of a call."""

    call_id: str
    kind: str
    """`approval`, `question` (answered with an action), `several` of those, or `form` (answered with its values)."""
    requests: dict[str, dict[str, Any]]
    """The parameters of elicitations, by the key of whoever asks."""
    round: int
    key_suffix: str = ""
    """What keys end in on the wire, where those of different rounds must differ."""

    @property
    def input_requests(self) -> dict[str, dict[str, Any]]:
        """As they are put to a client of the newer protocol."""
        requests = self.requests.items()
        return {
            f"{key}{self.key_suffix}": {"method": "elicitation/create", "params": params} for key, params in requests
        }

    def input_required_result(self, arguments_digest: str) -> dict[str, Any]:
        """In place of a result, in the newer protocol."""
        state = str(RequestState(self.call_id, self.round, arguments_digest))
        return {"resultType": "input_required", "inputRequests": self.input_requests, "requestState": state}

    def select_answers(self, answers: ElicitationAnswers) -> dict[str, Mapping[str, Any]]:
        """Those that are answers to this round, by the key of whoever asks."""
        return {key: found for key in self.requests if (found := answers.get(f"{key}{self.key_suffix}")) is not None}

    def validation_error(self, answers: ElicitationAnswers) -> str | None:
        """Why answers cannot be taken. Whoever asks by an action looks at what comes back itself."""
        if self.kind != "form" or (value := answers.get(_ANSWER_KEY)) is None or value.get("action") != "accept":
            return None
        try:
            RawParameters(self.requests[_ANSWER_KEY]["requestedSchema"]).validate_mapping(value.get("content") or {})
        except InvalidArguments as error:
            return str(error)
        except DefinitionError:  # nobody can say what fits a form that is no schema
            return None
        return None

    def with_error(self, error: str) -> ElicitationQuestion:
        """The same, and what was wrong with the answer."""
        asked = {
            key: {**each, "message": f"{render_message(error)} {each['message']}"}
            for key, each in self.requests.items()
        }
        return self._replace(requests=asked)


_ANSWER_KEY = "answer"


def build_question(status: CallStatus | None, caller: Caller) -> ElicitationQuestion | None:
    """What can be asked of this caller's person; None if nothing is open, or it cannot be asked."""
    if status is None or not isinstance(status.outcome, Pending):
        return None
    kind, asked = _build_elicitations(status, status.outcome, caller.user)
    if not asked or not all(
        caller.can_open_urls if params["mode"] == "url" else caller.can_show_forms for params in asked.values()
    ):
        return None
    return ElicitationQuestion(status.call_id, kind, asked, status.round)


def _build_elicitations(
    status: CallStatus, pending: Pending, user: str | None
) -> tuple[str, dict[str, dict[str, Any]]]:
    request = pending.request
    match pending.waiting_for, request:
        case "approval", _:
            return "approval", {
                "approve": _form_with_fields(_approval_message(status, pending), {"always": _always_field(user)})
            }
        case "input", {"mode": "several", "requests": Mapping() as several}:
            asked = {str(key): _elicitation_params(each, "") for key, each in several.items()}
            return "several", {key: params for key, params in asked.items() if params} if all(asked.values()) else {}
        case "input", {"mode": "form" | "url"}:
            key = str(request.get("key") or _ANSWER_KEY)
            return "question", {key: params} if (params := _elicitation_params(request, pending.message)) else {}
        case "input", {"type": "object", "properties": Mapping()} if _is_form_schema(request):
            return "form", {_ANSWER_KEY: _form_params(render_message(pending.message), request)}
    return "", {}


def _elicitation_params(request: Any, message: str) -> dict[str, Any] | None:
    match request:
        case {"mode": "form", "schema": {"properties": Mapping()} as schema}:
            return _form_params(render_message(message or str(request.get("message", ""))), schema)
        case {"mode": "url", "url": str(url)} if is_openable_url(url):
            return {"mode": "url", "message": render_message(message or str(request.get("message", ""))), "url": url}
    return None


def _form_params(message: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    """A form has these fields and no others."""
    kept = replace_surrogates_in(
        sanitize_form({key: schema[key] for key in ("properties", "required", "$schema") if key in schema})
    )
    return {"mode": "form", "message": message, "requestedSchema": {"type": "object", **kept}}


def _form_with_fields(message: str, fields: dict[str, Any]) -> dict[str, Any]:
    return _form_params(message, {"properties": fields})


def _always_field(user: str | None) -> dict[str, Any]:
    """The box for a standing yes, which says whose it is."""
    whose = "for all who use this server" if user is None else f"for {user}"
    return {**_ALWAYS_FIELD, "description": f"Also allow later calls of this tool, {whose}."}


def _approval_message(status: CallStatus, pending: Pending) -> str:
    """The question, and what exactly would run."""
    about = status.question or status  # a call that waits for another one is asked about that
    asks: Mapping[str, Any] = pending.request if isinstance(pending.request, Mapping) else {}
    parts = [
        render_message(pending.message),
        render_call(about.tool, about.arguments, _argument_defaults(asks.get("schema"))),
    ]
    preview = asks.get("preview")
    return "\n\n".join(
        [*parts, *([f"Its preview:\n{quote_lines(render_value(preview))}"] if preview is not None else [])]
    )


def _argument_defaults(schema: Any) -> dict[str, Any]:
    """What a call runs with where an argument is not sent: policy and confirmation have looked at it, too."""
    match schema:
        case {"properties": Mapping() as fields}:
            return {
                name: field["default"]
                for name, field in fields.items()
                if isinstance(field, Mapping) and "default" in field
            }
    return {}


def _is_form_schema(schema: Mapping[str, Any]) -> bool:
    """Whether a schema is one that a form can be made of."""
    fields = schema["properties"].values()
    return bool(fields) and all(isinstance(field, Mapping) and _is_form_field(field) for field in fields)


def _is_form_field(field: Mapping[str, Any]) -> bool:
    """A plain value, or a choice of several texts."""
    match field:
        case {"type": "array", "items": {"enum": list()} | {"anyOf": list()}}:
            return True
        case {"type": str(kind)}:
            return kind in _FORM_FIELD_TYPES
    return False


ALREADY_ANSWERED_CODES = ("conflict", "not_found")
"""What somebody hears who answers what was answered already."""


async def apply_answers(
    scope: Scope, question: ElicitationQuestion, answers: ElicitationAnswers, answered_by: str
) -> Outcome | None:
    """Give the call its answers, of which there is one for each request; None if it goes on waiting.

    They count for this question alone, also where the call asks the next one by now.
    """
    call_id, to = question.call_id, _AnswerOptions(by=answered_by, round=question.round)
    if question.kind == "several":
        return await scope.settle(call_id, {key: _elicitation_result(value) for key, value in answers.items()}, **to)
    [value] = answers.values()
    said, content = value.get("action"), value.get("content") or {}
    match question.kind, said:
        case "question", _:
            return await scope.settle(call_id, _elicitation_result(value), **to)
        case "approval", "accept":
            return await scope.approve(call_id, always=content.get("always") is True, **to)
        case "approval", "decline":
            return await scope.reject(call_id, **to)
        case "form", "accept":
            return await scope.settle(call_id, content, **to)
        case "form", "decline":
            return await scope.settle(call_id, Failed("rejected", "the person who was asked said no."), **to)
    return None  # dismissed: somebody may still answer elsewhere


class _AnswerOptions(TypedDict):
    by: str
    round: int


def _elicitation_result(answer: Mapping[str, Any]) -> dict[str, Any]:
    return {key: answer[key] for key in ("action", "content") if answer.get(key) is not None}
