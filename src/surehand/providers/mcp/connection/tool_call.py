"""Talk: a call with a server, to and fro, until there is an outcome. Loaded when the first call is made."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
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
from surehand.providers.mcp.addresses.address import ConnectionOwner
from surehand.providers.mcp.connection import process_marker
from surehand.providers.mcp.connection.connection import Connection
from surehand.providers.mcp.connection.connection_pool import ConnectionPool
from surehand.providers.mcp.connection.elicitation import build_input_responses, build_question, refusal_reason
from surehand.providers.mcp.connection.request import CURRENT_QUESTION_KEY, CallRequest, ConnectionLost, InputNeeded
from surehand.providers.mcp.tools.result import done_from_plain_result, done_from_result, is_heavy
from surehand.providers.mcp.tools.server_tools import ServerTools
from surehand.providers.mcp.transports.connection_errors import ConnectionFailure, failure_from_error

ReportProgress: TypeAlias = Callable[..., None]
"""Told of progress, as `Context.report` is."""
InputRequests: TypeAlias = Mapping[str, Mapping[str, Any]]
MAX_QUESTION_ROUNDS = 32
"""How often a server may ask before it is no longer listened to."""
_UNREADABLE_RESPONSE_PREFIXES = ("Failed to parse ", "Unexpected content type: ")
"""How the library begins when it says, in the server's place, that an answer cannot be read."""
MAX_STATE_BYTES = 256 * 1024
"""Bytes that are kept of a question until somebody answers: what was asked, and what the server wants to see again."""
POLL_STEP_SECONDS, MAX_POLL_SECONDS = 0.1, 2.0
"""Seconds before a server that only asked for more time is asked again; they grow from the first to the second."""


@dataclass(slots=True)
class _CallExchange:
    """One side's turn in a talk: what is sent, and what was said before."""

    call: Call
    wire_name: str
    owner: ConnectionOwner
    report: ReportProgress | None = None
    input_responses: Mapping[str, Any] | None = None
    request_state: str | None = None
    round: int = 0
    polls: int = 0

    @property
    def arguments(self) -> Mapping[str, Any]:
        given = self.call.arguments
        return given if isinstance(given, (dict, Mapping)) else {}  # a dict is known as one at once


class ToolCaller:
    """Calls of one server. In the newer protocol a question ends the exchange, and the answer begins the next."""

    def __init__(self, server_name: str, connections: ConnectionPool, server_tools: ServerTools) -> None:
        self.id = token_hex(8)
        """Under which a wait names it: nobody else can bring an answer to a server that waits."""
        self._server_name, self._connections, self._server_tools = server_name, connections, server_tools
        self._open_requests: dict[str, tuple[CallRequest, Connection]] = {}
        """Requests that the server holds open for somebody's answer, by their id."""
        self._resume_ids_by_call: dict[str, str] = {}
        """The same by the ids of their calls."""

    def call(self, call: Call, wire_name: str, owner: ConnectionOwner, context: Context) -> Awaitable[Any]:
        """Carry a call out, from the beginning."""
        return self._run_exchange(_CallExchange(call, wire_name, owner, context.report), lambda: context.call_id)

    async def resume(
        self,
        call: Call,
        state: Mapping[str, Any],
        answer: Any,
        owner: ConnectionOwner,
        report: ReportProgress | None = None,
    ) -> Outcome | Any:
        """Go on after somebody answered. An answer that does not fit leaves the question open."""
        requests: InputRequests = state["requests"]
        try:
            answers = build_input_responses(requests, answer)
        except InvalidArguments as error:
            return self._build_pending(requests, state, f"{error} ")
        if "request" in state:
            return await self._answer_open_request(call, state, answers)
        part = _CallExchange(
            call, state["tool"], owner, report, answers, state.get("state"), int(state.get("round", 0))
        )
        if state.get("again"):
            _require_acceptance(answers)
            part.input_responses = None
        return await self._run_exchange(part, lambda: call.id or "")

    def is_lost(self, resume_id: str) -> bool:
        """Whether nobody waits for the answer to a question any more."""
        request, _ = self._open_requests.get(resume_id, (None, None))
        return request is None or request.is_lost

    def abandon(self, call: Call) -> None:
        """Nobody will answer any more: the server need not wait."""
        request, _ = self._open_requests.pop(self._resume_ids_by_call.pop(call.id or "", ""), (None, None))
        if request is not None:
            request.cancel()

    # To and fro

    async def _run_exchange(self, exchange: _CallExchange, get_call_id: Callable[[], str]) -> Any:
        while True:
            told, request, connection = await self._send(exchange)
            if isinstance(told, InputNeeded):
                return await self._handle_event(told, request, connection, exchange.call, get_call_id())
            if request.has_plain_result:
                return done_from_plain_result(told, self._server_tools.output_validator(exchange.call.tool))
            if told.get("resultType") != "input_required":
                return await self._build_done(told, exchange.call.tool)
            requests: InputRequests = told.get("inputRequests") or {}
            exchange.round, exchange.request_state = exchange.round + bool(requests), told.get("requestState")
            if exchange.round > MAX_QUESTION_ROUNDS:
                raise ToolError(f"{self._server_name} asked {MAX_QUESTION_ROUNDS} times and did not come to an end.")
            if (question := self._input_required(requests, exchange)) is not None:
                return question
            exchange.input_responses = build_input_responses(requests, None) if requests else None
            if not requests:  # it only needs more time, and may have it while the call has
                exchange.polls += 1
                await asyncio.sleep(min(POLL_STEP_SECONDS * exchange.polls, MAX_POLL_SECONDS))

    async def _send(self, exchange: _CallExchange) -> tuple[Any, CallRequest, Connection]:
        """What the server says to a call; what surely did not arrive is sent once more."""
        again = True
        while True:
            connection = self._connections.get_or_create(exchange.owner)
            request = CallRequest(
                exchange.wire_name, exchange.arguments, input_responses=exchange.input_responses, request_state=exchange.request_state,
                report=exchange.report, user=exchange.call.user,
                check_allowed=partial(self._server_tools.require_wire_name, exchange.call.tool),
            )  # fmt: skip
            connection.submit(request)
            try:
                return await self._wait_for_event(connection, request), request, connection
            except _SendAgain as error:
                if not again:
                    raise
                again = False
                if error.needs_relist:
                    await _relist_tools(connection, error)

    async def _wait_for_event(self, connection: Connection, request: CallRequest) -> Any:
        try:
            told = await request.next_event
        except asyncio.CancelledError:
            request.cancel()
            raise
        return self._handle_error(told, connection, request) if isinstance(told, Exception) else told

    def _handle_error(self, error: Exception, connection: Connection, request: CallRequest) -> InputNeeded:
        """What is asked instead, or raises what the error means."""
        if isinstance(error, TimedOut):
            connection.probe()
        if isinstance(error, NotStarted):
            raise (
                _SendAgain(str(error)) if request.has_begun and failure_from_error(error).is_retryable else error
            ) from error
        if isinstance(error, ToolError):
            raise error
        if (
            isinstance(error, MCPError)
            and error.code == types.URL_ELICITATION_REQUIRED
            and (asked := _url_elicitations(error))
        ):
            return asked
        raise self._error_for_model(error, request) from error

    def _error_for_model(self, error: Exception, request: CallRequest) -> ToolError:
        """What an error means for the call: was it done, and is it worth another try?"""
        trouble = _classify_error(error)
        if trouble.has_stale_headers:
            return _SendAgain(f"{self._server_name} does not accept the call: {trouble.message}", needs_relist=True)
        if trouble.is_connection_lost:
            request.reconnect(trouble.message)
        if trouble.is_server_answer and request.is_resumption and "requeststate" in trouble.message.lower():
            again = "It was most likely started anew since it asked. Call the tool again."
            return ToolError(
                f"{self._server_name} does not take the answer: {trouble.message} {again}", code="interrupted"
            )
        if trouble.code is not None:
            return ToolError(f"{self._server_name}: {trouble.message}", code=trouble.code)
        if trouble.is_server_answer:
            return ToolError(f"{self._server_name} says: {trouble.message}"[:2000])
        if not trouble.was_sent:
            what = f"{self._server_name} cannot be reached: {trouble.message}"
            return _SendAgain(what) if trouble.is_retryable else NotStarted(what)
        happened = "went away while it worked on this" if trouble.is_connection_lost else "gave no answer to this"
        what = f"{self._server_name} {happened}: {trouble.message}"
        if self._server_tools.is_repeatable(request.tool):
            return Unavailable(what)
        return ToolError(
            f"{what} Whether it was done is not known. Do not repeat it before that has been found out.",
            code="unknown_effect",
        )

    async def _build_done(self, result: Any, tool: str) -> Done:
        check = self._server_tools.output_validator(tool)
        if is_heavy(result):
            return await asyncio.to_thread(done_from_result, result, check)
        return done_from_result(result, check)

    # Questions

    def _input_required(self, requests: InputRequests, exchange: _CallExchange) -> Pending | None:
        """What a person is asked in the newer protocol: all that is needed to go on is in the wait."""
        if (why := refusal_reason(requests)) is not None:
            raise ToolError(f"{self._server_name} asks for what nobody here can give: {why}")
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
        """In the older protocol the server waits in the middle of its work, and the request stays open."""
        for _ in range(MAX_QUESTION_ROUNDS):
            if not isinstance(event, InputNeeded):
                return await self._build_done(event, call.tool)
            if event.answer is None or refusal_reason(event.requests) is None:
                return self._keep_question_open(event, request, connection, call_id)
            request.answer_question(types.ElicitResult(action="decline"))
            event = await self._wait_for_event(connection, request)
        request.cancel()
        raise ToolError(f"{self._server_name} asked {MAX_QUESTION_ROUNDS} times for what nobody here can give.")

    def _keep_question_open(
        self, question: InputNeeded, request: CallRequest, connection: Connection, call_id: str
    ) -> Pending | None:
        requests = question.requests
        if question.answer is None:  # it refuses to begin until a person has been somewhere
            return self._build_pending(requests, {"requests": requests, "tool": request.tool, "again": True})
        self._open_requests[request.resume_id] = request, connection
        self._resume_ids_by_call[call_id] = request.resume_id
        state = {"requests": requests, "tool": request.tool, "request": request.resume_id, "call": call_id}
        state |= {"process": process_marker.current_process_marker(), "talk": self.id}
        return self._build_pending(requests, state)

    async def _answer_open_request(self, call: Call, state: Mapping[str, Any], answers: Mapping[str, Any]) -> Any:
        self._resume_ids_by_call.pop(state["call"], None)
        request, connection = self._open_requests.pop(state["request"], (None, None))
        if request is None or connection is None or request.is_lost:
            return self._server_tools.interrupted_outcome(state["tool"])
        request.answer_question(
            types.ElicitResult.model_validate(answers[CURRENT_QUESTION_KEY])
        )  # also to one that did not wait: it is harmless
        return await self._wait_for_next_event(call, request, connection, state["call"])

    async def _wait_for_next_event(self, call: Call, request: CallRequest, connection: Connection, call_id: str) -> Any:
        told = await self._wait_for_event(connection, request)
        return await self._handle_event(told, request, connection, call, call_id)

    def _build_pending(self, requests: InputRequests, state: Mapping[str, Any], mistake: str = "") -> Pending | None:
        question = build_question(requests, server=self._server_name)
        if question is None:
            return None
        return Pending("input", message=f"{mistake}{question.message}", request=question.request, state=dict(state))


class _SendAgain(NotStarted):
    """The request did not arrive: it may be sent again."""

    def __init__(self, message: str, *, needs_relist: bool = False) -> None:
        super().__init__(message)
        self.needs_relist = needs_relist
        """Whether the server wants headers that follow a newer list of its tools."""


def _classify_error(error: Exception) -> ConnectionFailure:
    if isinstance(error, ConnectionLost):
        return ConnectionFailure(True, True, str(error))
    if isinstance(error, ValidationError) or str(error).startswith(_UNREADABLE_RESPONSE_PREFIXES):
        # Only this call fails: the others go on.
        return ConnectionFailure(True, False, "What came is no result of a tool.")
    return failure_from_error(error)


async def _relist_tools(connection: Connection, refusal: _SendAgain) -> None:
    try:
        await connection.relist_tools()
    except Exception:  # noqa: BLE001 - whatever it is, the call was refused
        raise refusal from None


def _url_elicitations(error: MCPError) -> InputNeeded | None:
    """The addresses that a person has to visit before the call can be made at all."""
    data = error.data
    found = data.get("elicitations") if isinstance(data, Mapping) else None
    params = [each for each in found if isinstance(each, Mapping)] if isinstance(found, list) else []
    asked = {str(n): {"method": "elicitation/create", "params": dict(each)} for n, each in enumerate(params)}
    return InputNeeded(asked) if asked else None


def _require_acceptance(answers: Mapping[str, Any]) -> None:
    if any(answer.get("action") != "accept" for answer in answers.values()):
        raise ToolError("The person who was asked did not agree.", code="rejected")
