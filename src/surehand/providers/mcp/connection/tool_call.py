"""Carries out tool calls: sends requests, retries those that were not delivered, and turns questions into `Pending`.

The provider creates one `ToolCaller` per server on the first call. It loads the MCP SDK.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from secrets import token_hex
from typing import Any, TypeAlias

import mcp_types as types
from mcp import MCPError
from pydantic import ValidationError
from pydantic_core import to_json

from surehand.core.call import Call
from surehand.core.context import Context
from surehand.core.errors import InvalidArguments, NotStarted, TimedOut, ToolError, Unavailable
from surehand.core.outcome import Done, Outcome, Pending
from surehand.providers.mcp.connection import process_marker
from surehand.providers.mcp.connection.connection import Connection
from surehand.providers.mcp.connection.connection_pool import ConnectionPool
from surehand.providers.mcp.connection.elicitation import (
    CURRENT_QUESTION_KEY,
    InputRequests,
    build_input_responses,
    build_question,
    refusal_reason,
)
from surehand.providers.mcp.connection.request import CallRequest, ConnectionLost, InputNeeded
from surehand.providers.mcp.connection_errors import ConnectionFailure, failure_from_error
from surehand.providers.mcp.connection_owner import ConnectionOwner
from surehand.providers.mcp.connection_secrets import ConnectionSecrets
from surehand.providers.mcp.tools.result import OutputValidator, done_from_plain_result, done_from_result, is_heavy
from surehand.providers.mcp.tools.server_tools import ServerTools

ReportProgress: TypeAlias = Callable[..., None]
"""Called with progress, like `Context.report`."""
MAX_QUESTION_ROUNDS = 32
"""How often a server may ask during one call."""
_UNREADABLE_RESPONSE_PREFIXES = ("Failed to parse ", "Unexpected content type: ")
"""How messages of the MCP SDK begin that replace an unreadable response."""
MAX_STATE_BYTES = 256 * 1024
"""Bytes that are stored with a question: the requests and the server's `requestState`."""
POLL_STEP_SECONDS = 0.1
MAX_POLL_SECONDS = 2.0
"""Delays before a server that only asked for more time is polled again: n times the step, up to the maximum."""


@dataclass(slots=True)
class _CallExchange:
    """The state of one call over its rounds: what is sent next, and what the server asked before."""

    call: Call
    wire_name: str
    owner: ConnectionOwner
    report: ReportProgress | None = None
    effects: frozenset[str] | None = None
    """The effects of the tool when the policy decided about the call; None for a call that is resumed."""
    input_responses: Mapping[str, Any] | None = None
    request_state: str | None = None
    round: int = 0
    polls: int = 0

    @property
    def arguments(self) -> Mapping[str, Any]:
        arguments = self.call.arguments
        # `dict` first: the check against the abstract class is slow, and a dict is the common case.
        return arguments if isinstance(arguments, (dict, Mapping)) else {}


class ToolCaller:
    """Calls the tools of one server.

    In the modern protocol a question ends the request, and the answer is sent with a new one, from any process. In the
    handshake protocol the request stays open, and only this object can answer it.
    """

    def __init__(self, server_name: str, connections: ConnectionPool, server_tools: ServerTools) -> None:
        self.id = token_hex(8)
        """Stored with a question of the handshake protocol, to find the caller that holds its request open."""
        self._server_name = server_name
        self._connections = connections
        self._server_tools = server_tools
        self._open_requests: dict[str, tuple[CallRequest, Connection]] = {}
        """Requests that wait for the answer to a question, by their `resume_id`."""
        self._resume_ids_by_call: dict[str, str] = {}
        """The `resume_id` of an open request, by call id."""

    def call(self, call: Call, wire_name: str, owner: ConnectionOwner, context: Context) -> Awaitable[Any]:
        """Make a call."""
        effects = self._server_tools.effects_of(call.tool)
        exchange = _CallExchange(call, wire_name, owner, context.report, effects)
        return self._run_exchange(exchange, lambda: context.call_id)

    async def resume(
        self,
        call: Call,
        state: Mapping[str, Any],
        answer: Any,
        owner: ConnectionOwner,
        report: ReportProgress | None = None,
    ) -> Outcome | Any:
        """Resume a call with an answer. An invalid answer returns the question again, with the mistake."""
        requests: InputRequests = state["requests"]
        try:
            responses = build_input_responses(requests, answer)
        except InvalidArguments as error:
            return self._build_pending(requests, state, f"{error} ")
        if process_marker.REQUEST_ID_KEY in state:
            return await self._answer_open_request(call, state, responses)
        exchange = _CallExchange(
            call, state["tool"], owner, report, None, responses, state.get("state"), int(state.get("round", 0))
        )
        if state.get("again"):
            _require_acceptance(responses)
            exchange.input_responses = None
        return await self._run_exchange(exchange, lambda: call.id or "")

    def is_lost(self, resume_id: str) -> bool:
        """Whether the answer to a question can no longer be delivered."""
        request, _ = self._open_requests.get(resume_id, (None, None))
        return request is None or request.is_lost

    def abandon(self, call: Call) -> None:
        """Cancel the open request of a call that will not be answered."""
        resume_id = self._resume_ids_by_call.pop(call.id or "", "")
        request, _ = self._open_requests.pop(resume_id, (None, None))
        if request is not None:
            request.cancel()

    # Requests and responses

    async def _run_exchange(self, exchange: _CallExchange, get_call_id: Callable[[], str]) -> Any:
        while True:
            event, request, connection = await self._send(exchange)
            if isinstance(event, InputNeeded):
                return await self._handle_event(event, request, connection, exchange.call, get_call_id())
            if request.has_plain_result:
                result = connection.secrets.redact_message(event)
                return done_from_plain_result(result, self._server_tools.output_validator(exchange.call.tool))
            if event.get("resultType") != "input_required":
                return await self._build_done(event, exchange.call.tool, connection.secrets)
            # The `requestState` goes back to the server as it is.
            requests: InputRequests = connection.secrets.redact_message(event.get("inputRequests") or {})
            exchange.round += bool(requests)
            exchange.request_state = event.get("requestState")
            if exchange.round > MAX_QUESTION_ROUNDS:
                raise ToolError(f"{self._server_name} asked {MAX_QUESTION_ROUNDS} times and did not come to an end.")
            question = self._input_required(requests, exchange)
            if question is not None:
                return question
            exchange.input_responses = build_input_responses(requests, None) if requests else None
            # A result without requests says: ask again later. The deadline of the call limits how often.
            if not requests:
                exchange.polls += 1
                await asyncio.sleep(min(POLL_STEP_SECONDS * exchange.polls, MAX_POLL_SECONDS))

    async def _send(self, exchange: _CallExchange) -> tuple[Any, CallRequest, Connection]:
        """Send a request and wait for its first event. A request that was certainly not delivered is sent once more."""
        may_retry = True
        while True:
            connection = self._connections.get_or_create(exchange.owner)
            request = CallRequest(
                exchange.wire_name,
                exchange.arguments,
                input_responses=exchange.input_responses,
                request_state=exchange.request_state,
                report=exchange.report,
                user=exchange.call.user,
                check_allowed=partial(self._server_tools.require_allowed, exchange.call.tool, exchange.effects),
            )
            connection.submit(request)
            try:
                return await self._wait_for_event(connection, request), request, connection
            except _SendAgain as error:
                if not may_retry:
                    raise
                may_retry = False
                if error.needs_relist:
                    await _relist_tools(connection, error)

    async def _wait_for_event(self, connection: Connection, request: CallRequest) -> Any:
        try:
            event = await request.next_event
        except asyncio.CancelledError:
            request.cancel()
            raise
        return self._handle_error(event, connection, request) if isinstance(event, Exception) else event

    def _handle_error(self, error: Exception, connection: Connection, request: CallRequest) -> InputNeeded:
        """Return the question that an error stands for, or raise the error for the model."""
        if isinstance(error, TimedOut):
            connection.probe()
        if isinstance(error, NotStarted) and request.has_begun and failure_from_error(error).is_retryable:
            raise _SendAgain(str(error)) from error
        if isinstance(error, ToolError):
            raise error
        if isinstance(error, MCPError) and error.code == types.URL_ELICITATION_REQUIRED:
            question = _url_elicitations(error)
            if question is not None:
                return question
        failure = _classify_error(error)
        failure = replace(failure, message=connection.secrets.redact(failure.message))
        raise self._error_for_model(failure, request) from error

    def _error_for_model(self, failure: ConnectionFailure, request: CallRequest) -> ToolError:
        """The error that the model reads: whether the call was carried out, and whether a retry can help."""
        if failure.has_stale_headers:
            return _SendAgain(f"{self._server_name} does not accept the call: {failure.message}", needs_relist=True)
        if failure.is_connection_lost:
            request.reconnect(failure.message)
        if failure.is_server_answer and request.is_resumption and "requeststate" in failure.message.lower():
            reason = failure.message.rstrip(".")
            advice = "It was most likely started anew since it asked. Call the tool again."
            return ToolError(f"{self._server_name} does not take the answer: {reason}. {advice}", code="interrupted")
        if failure.code is not None:
            return ToolError(f"{self._server_name}: {failure.message}", code=failure.code)
        if failure.is_server_answer:
            return ToolError(f"{self._server_name} says: {failure.message}"[:2000])
        if not failure.was_sent:
            message = f"{self._server_name} cannot be reached: {failure.message}"
            return _SendAgain(message) if failure.is_retryable else NotStarted(message)
        event = "went away while it worked on this" if failure.is_connection_lost else "gave no answer to this"
        message = f"{self._server_name} {event}: {failure.message}"
        if self._server_tools.is_repeatable(request.tool):
            return Unavailable(message)
        return ToolError(
            f"{message} Whether it was done is not known. Do not repeat it before that has been found out.",
            code="unknown_effect",
        )

    async def _build_done(self, result: Any, tool: str, secrets: ConnectionSecrets) -> Done:
        validator = self._server_tools.output_validator(tool)
        if is_heavy(result):
            return await asyncio.to_thread(_done_without_secrets, result, validator, secrets)
        return _done_without_secrets(result, validator, secrets)

    # Questions

    def _input_required(self, requests: InputRequests, exchange: _CallExchange) -> Pending | None:
        """The question of a modern server. Its stored state is enough to resume the call from any process."""
        reason = refusal_reason(requests)
        if reason is not None:
            raise ToolError(f"{self._server_name} asks for input that this client cannot give: {reason}")
        state = {
            "requests": requests,
            "tool": exchange.wire_name,
            "state": exchange.request_state,
            "round": exchange.round,
        }
        if len(to_json(state)) > MAX_STATE_BYTES:
            raise ToolError(
                f"{self._server_name} wants more kept for its question than {MAX_STATE_BYTES:,} bytes.",
                code="too_large",
            )
        return self._build_pending(requests, state)

    async def _handle_event(
        self, event: Any, request: CallRequest, connection: Connection, call: Call, call_id: str
    ) -> Any:
        """Turn an event of an open request into an outcome. Questions that cannot be shown to a person are declined."""
        for _ in range(MAX_QUESTION_ROUNDS):
            if not isinstance(event, InputNeeded):
                return await self._build_done(event, call.tool, connection.secrets)
            if event.answer is None or refusal_reason(event.requests) is None:
                return self._keep_question_open(event, request, connection, call_id)
            request.answer_question(types.ElicitResult(action="decline"))
            event = await self._wait_for_event(connection, request)
        request.cancel()
        raise ToolError(
            f"{self._server_name} asked {MAX_QUESTION_ROUNDS} times for input that this client cannot give."
        )

    def _keep_question_open(
        self, question: InputNeeded, request: CallRequest, connection: Connection, call_id: str
    ) -> Pending | None:
        requests = question.requests
        if question.answer is None:  # the server refuses the call until a person has opened a URL
            return self._build_pending(requests, {"requests": requests, "tool": request.tool, "again": True})
        self._open_requests[request.resume_id] = request, connection
        self._resume_ids_by_call[call_id] = request.resume_id
        state = {
            "requests": requests,
            "tool": request.tool,
            process_marker.REQUEST_ID_KEY: request.resume_id,
            "call": call_id,
            process_marker.PROCESS_KEY: process_marker.current_process_marker(),
            process_marker.CALLER_ID_KEY: self.id,
        }
        return self._build_pending(requests, state)

    async def _answer_open_request(self, call: Call, state: Mapping[str, Any], responses: Mapping[str, Any]) -> Any:
        self._resume_ids_by_call.pop(state["call"], None)
        request, connection = self._open_requests.pop(state[process_marker.REQUEST_ID_KEY], (None, None))
        if request is None or connection is None or request.is_lost:
            return self._server_tools.interrupted_outcome(state["tool"])
        # If the server has stopped waiting for the answer, this does nothing.
        request.answer_question(types.ElicitResult.model_validate(responses[CURRENT_QUESTION_KEY]))
        event = await self._wait_for_event(connection, request)
        return await self._handle_event(event, request, connection, call, state["call"])

    def _build_pending(self, requests: InputRequests, state: Mapping[str, Any], mistake: str = "") -> Pending | None:
        question = build_question(requests, server=self._server_name)
        if question is None:
            return None
        return Pending("input", message=f"{mistake}{question.message}", request=question.request, state=dict(state))


def _done_without_secrets(result: Any, validator: OutputValidator | None, secrets: ConnectionSecrets) -> Done:
    return done_from_result(secrets.redact_message(result), validator)


class _SendAgain(NotStarted):
    """The request was not delivered, and may be sent again."""

    def __init__(self, message: str, *, needs_relist: bool = False) -> None:
        super().__init__(message)
        self.needs_relist = needs_relist
        """Whether the tools have to be listed first: the server refused headers that follow from an old list."""


def _classify_error(error: Exception) -> ConnectionFailure:
    if isinstance(error, ConnectionLost):
        return ConnectionFailure(was_sent=True, is_connection_lost=True, message=str(error))
    if isinstance(error, ValidationError) or str(error).startswith(_UNREADABLE_RESPONSE_PREFIXES):
        # Only this call fails; other calls of the connection continue.
        return ConnectionFailure(
            was_sent=True, is_connection_lost=False, message="The server's answer is not the result of a tool."
        )
    return failure_from_error(error)


async def _relist_tools(connection: Connection, refusal: _SendAgain) -> None:
    try:
        await connection.relist_tools()
    except Exception:  # noqa: BLE001 - the server has refused the call in any case
        raise refusal from None


def _url_elicitations(error: MCPError) -> InputNeeded | None:
    """The URLs that a person has to open before the server accepts the call."""
    data = error.data
    elicitations = data.get("elicitations") if isinstance(data, Mapping) else None
    if not isinstance(elicitations, list):
        return None
    all_params = [params for params in elicitations if isinstance(params, Mapping)]
    requests = {
        str(number): {"method": "elicitation/create", "params": dict(params)}
        for number, params in enumerate(all_params)
    }
    return InputNeeded(requests) if requests else None


def _require_acceptance(responses: Mapping[str, Any]) -> None:
    if any(response.get("action") != "accept" for response in responses.values()):
        raise ToolError("The person who was asked did not agree.", code="rejected")
