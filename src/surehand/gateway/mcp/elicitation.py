"""Elicitation: the questions of pending calls as a client is asked them, and how its answers resume the calls.

`tool_calls` and `tasks` use it. A question of the runtime (an approval, or input that a tool asks for) becomes one or
more elicitations: forms to fill in, or addresses to open.
"""

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

ElicitationAnswers: TypeAlias = Mapping[str, Mapping[str, Any]]
"""Results of elicitations, `{"action": ..., "content": ...}`, by key."""

ALREADY_ANSWERED_CODES = ("conflict", "not_found")
"""Failures of an answer to a question that another client or process has answered already."""
_ANSWER_KEY = "answer"
_FORM_FIELD_TYPES = {"string", "number", "integer", "boolean"}
_FORM_SCHEMA_KEYS = ("properties", "required", "$schema")
_ALWAYS_FIELD = {"type": "boolean", "title": "Do not ask again", "default": False}


class ElicitationQuestion(NamedTuple):
    """The question that a call asks in one round."""

    call_id: str
    kind: str
    """`approval`, `question` (answered with an action), `several` of those, or `form` (answered with its values)."""
    requests: dict[str, dict[str, Any]]
    """The parameters of elicitations, by the key that the tool or the server behind it uses."""
    round: int
    key_suffix: str = ""
    """The end of the keys on the wire. Tasks set it, so that keys of different rounds differ."""

    @property
    def input_requests(self) -> dict[str, dict[str, Any]]:
        """The `inputRequests` of the modern protocol."""
        return {
            f"{key}{self.key_suffix}": {"method": "elicitation/create", "params": params}
            for key, params in self.requests.items()
        }

    def input_required_result(self, arguments_digest: str) -> dict[str, Any]:
        """The result of a modern `tools/call` request that asks the client."""
        state = str(RequestState(self.call_id, self.round, arguments_digest))
        return {"resultType": "input_required", "inputRequests": self.input_requests, "requestState": state}

    def select_answers(self, answers: ElicitationAnswers) -> dict[str, Mapping[str, Any]]:
        """Select the answers to this round, by the keys of `requests`."""
        selected: dict[str, Mapping[str, Any]] = {}
        for key in self.requests:
            answer = answers.get(f"{key}{self.key_suffix}")
            if answer is not None:
                selected[key] = answer
        return selected

    def validation_error(self, answers: ElicitationAnswers) -> str | None:
        """Why the values of a form are invalid. Answers of the other kinds are checked by the tool that asks."""
        answer = answers.get(_ANSWER_KEY)
        if self.kind != "form" or answer is None or answer.get("action") != "accept":
            return None
        try:
            RawParameters(self.requests[_ANSWER_KEY]["requestedSchema"]).validate_mapping(answer.get("content") or {})
        except InvalidArguments as error:
            return str(error)
        except DefinitionError:  # the form is not a valid schema, so no answer can be checked against it
            return None
        return None

    def with_error(self, error: str) -> ElicitationQuestion:
        """The same question, with the error of the last answer in front of its messages."""
        requests = {
            key: {**params, "message": f"{render_message(error)} {params['message']}"}
            for key, params in self.requests.items()
        }
        return self._replace(requests=requests)


# Building the question of a pending call


def build_question(status: CallStatus | None, caller: Caller) -> ElicitationQuestion | None:
    """Build the open question of a call.

    None if the call is not pending, this client cannot ask it, or its user may not answer it.
    """
    if status is None or not isinstance(status.outcome, Pending):
        return None
    if caller.may_answer is not None and (status.question is None or not caller.may_answer(status.question)):
        return None
    kind, requests = _build_elicitations(status, status.outcome, caller.user)
    if not requests or not all(_can_be_asked(caller, params) for params in requests.values()):
        return None
    return ElicitationQuestion(status.call_id, kind, requests, status.round)


def _can_be_asked(caller: Caller, params: dict[str, Any]) -> bool:
    return caller.can_open_urls if params["mode"] == "url" else caller.can_show_forms


def _build_elicitations(
    status: CallStatus, pending: Pending, user: str | None
) -> tuple[str, dict[str, dict[str, Any]]]:
    request = pending.request
    match pending.waiting_for, request:
        case "approval", _:
            form = {"properties": {"always": _always_field(user)}}
            return "approval", {"approve": _form_params(_approval_message(status, pending), form)}
        case "input", {"mode": "several", "requests": Mapping() as several}:
            requests = {str(key): _elicitation_params(each, "") for key, each in several.items()}
            if not all(requests.values()):
                return "several", {}
            return "several", {key: params for key, params in requests.items() if params}
        case "input", {"mode": "form" | "url"}:
            key = str(request.get("key") or _ANSWER_KEY)
            params = _elicitation_params(request, pending.message)
            return "question", {key: params} if params else {}
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
    """The parameters of a form. MCP allows only these keys in its schema."""
    form = sanitize_form({key: schema[key] for key in _FORM_SCHEMA_KEYS if key in schema})
    return {
        "mode": "form",
        "message": message,
        "requestedSchema": {"type": "object", **replace_surrogates_in(form)},
    }


def _always_field(user: str | None) -> dict[str, Any]:
    """The checkbox for a permanent approval, which says for which user it counts."""
    whose = "for all who use this server" if user is None else f"for {user}"
    return {**_ALWAYS_FIELD, "description": f"Also allow later calls of this tool, {whose}."}


def _approval_message(status: CallStatus, pending: Pending) -> str:
    """The question with the exact call that would run, its defaults and its preview."""
    call = status.question or status  # a call that waits for another call asks about that one
    request: Mapping[str, Any] = pending.request if isinstance(pending.request, Mapping) else {}
    paragraphs = [
        render_message(pending.message),
        render_call(call.tool, call.arguments, _argument_defaults(request.get("schema"))),
    ]
    preview = request.get("preview")
    if preview is not None:
        paragraphs.append(f"Its preview:\n{quote_lines(render_value(preview))}")
    return "\n\n".join(paragraphs)


def _argument_defaults(schema: Any) -> dict[str, Any]:
    """Defaults of a tool's parameters. Policy and confirmation have checked the call with these values."""
    match schema:
        case {"properties": Mapping() as fields}:
            return {
                name: field["default"]
                for name, field in fields.items()
                if isinstance(field, Mapping) and "default" in field
            }
    return {}


def _is_form_schema(schema: Mapping[str, Any]) -> bool:
    """Whether MCP allows a form with this schema: it has fields, and no nested objects."""
    fields = schema["properties"].values()
    return bool(fields) and all(isinstance(field, Mapping) and _is_form_field(field) for field in fields)


def _is_form_field(field: Mapping[str, Any]) -> bool:
    """Whether a field is a simple value, or a choice of several strings."""
    match field:
        case {"type": "array", "items": {"enum": list()} | {"anyOf": list()}}:
            return True
        case {"type": str(kind)}:
            return kind in _FORM_FIELD_TYPES
    return False


# Asking within a request, in the handshake protocol


async def ask_client(
    ctx: ServerRequestContext[Any, Any], question: ElicitationQuestion, wait_until_moot: Callable[[], Awaitable[object]]
) -> ElicitationAnswers | None:
    """Send the elicitations to the client. None if it cannot answer, or if the question became moot first.

    Args:
        wait_until_moot: returns when the question needs no answer any more. Open elicitations are then cancelled.
    """
    loop = asyncio.get_running_loop()
    asking = loop.create_task(_elicit_all(ctx, question), name="mcp: asking")
    watching = loop.create_task(_run_wait(wait_until_moot), name="mcp: still asking")
    try:
        await asyncio.wait({asking, watching}, return_when=asyncio.FIRST_COMPLETED)
        return asking.result() if asking.done() else None
    finally:
        await cancel_and_wait(asking, watching)  # the SDK then sends `notifications/cancelled` to the client


async def _run_wait(wait_until_moot: Callable[[], Awaitable[object]]) -> None:
    # `create_task` takes a coroutine, and not every awaitable.
    await wait_until_moot()


async def _elicit_all(ctx: ServerRequestContext[Any, Any], question: ElicitationQuestion) -> ElicitationAnswers | None:
    try:
        return {key: await _elicit(ctx, key, params) for key, params in question.requests.items()}
    except (MCPError, ValidationError):  # the client declared the capability but failed: the call stays pending
        return None


async def _elicit(ctx: ServerRequestContext[Any, Any], key: str, params: dict[str, Any]) -> dict[str, Any]:
    request_params: Any
    if params["mode"] == "url":
        request_params = ElicitRequestURLParams(**params, elicitation_id=f"{ctx.request_id}-{key}")
    else:
        request_params = ElicitRequestFormParams(message=params["message"], requested_schema=params["requestedSchema"])
    metadata = ServerMessageMetadata(related_request_id=ctx.request_id)
    result = await ctx.session.send_request(ElicitRequest(params=request_params), ElicitResult, metadata=metadata)
    return result.model_dump(mode="json", exclude_none=True)


# Resuming the call with the answers


class _AnswerOptions(TypedDict):
    by: str
    round: int


async def apply_answers(
    scope: Scope, question: ElicitationQuestion, answers: ElicitationAnswers, answered_by: str
) -> Outcome | None:
    """Resume the call with one answer for each request. None if the answers leave the call pending.

    The answers count for this round alone, even if the call has moved on to another question.
    """
    call_id = question.call_id
    options = _AnswerOptions(by=answered_by, round=question.round)
    if question.kind == "several":
        results = {key: _elicitation_result(answer) for key, answer in answers.items()}
        return await scope.settle(call_id, results, **options)
    [answer] = answers.values()
    content = answer.get("content") or {}
    match question.kind, answer.get("action"):
        case "question", _:
            return await scope.settle(call_id, _elicitation_result(answer), **options)
        case "approval", "accept":
            return await scope.approve(call_id, always=content.get("always") is True, **options)
        case "approval", "decline":
            return await scope.reject(call_id, **options)
        case "form", "accept":
            return await scope.settle(call_id, content, **options)
        case "form", "decline":
            return await scope.settle(call_id, Failed("rejected", "the person who was asked said no."), **options)
    return None  # the person closed the dialog: the call can still be answered elsewhere


def _elicitation_result(answer: Mapping[str, Any]) -> dict[str, Any]:
    return {key: answer[key] for key in ("action", "content") if answer.get(key) is not None}
