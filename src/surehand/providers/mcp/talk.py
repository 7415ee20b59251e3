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
from surehand.providers.mcp import process
from surehand.providers.mcp.addresses.address import Who
from surehand.providers.mcp.connection import Connection
from surehand.providers.mcp.content import done_of, done_of_plain, is_heavy
from surehand.providers.mcp.forms import answers_of, question_of, refused
from surehand.providers.mcp.offer import Offer
from surehand.providers.mcp.request import NOW, Asked, Lost, Request
from surehand.providers.mcp.sessions import Sessions
from surehand.providers.mcp.transports.connection_errors import ConnectionFailure, failure_of

Reports: TypeAlias = Callable[..., None]
"""Told of progress, as `Context.report` is."""
Requests: TypeAlias = Mapping[str, Mapping[str, Any]]
ROUNDS = 32
"""How often a server may ask before it is no longer listened to."""
_UNREADABLE = ("Failed to parse ", "Unexpected content type: ")
"""How the library begins when it says, in the server's place, that an answer cannot be read."""
STATE = 256 * 1024
"""Bytes that are kept of a question until somebody answers: what was asked, and what the server wants to see again."""
POLLING, LONGEST = 0.1, 2.0
"""Seconds before a server that only asked for more time is asked again; they grow from the first to the second."""


@dataclass(slots=True)
class _Part:
    """One side's turn in a talk: what is sent, and what was said before."""

    call: Call
    wire: str
    who: Who
    report: Reports | None = None
    inputs: Mapping[str, Any] | None = None
    state: str | None = None
    round: int = 0
    polls: int = 0

    @property
    def arguments(self) -> Mapping[str, Any]:
        given = self.call.arguments
        return given if isinstance(given, (dict, Mapping)) else {}  # a dict is known as one at once


class Talk:
    """Calls of one server. In the newer protocol a question ends the exchange, and the answer begins the next."""

    def __init__(self, server: str, sessions: Sessions, offer: Offer) -> None:
        self.id = token_hex(8)
        """Under which a wait names it: nobody else can bring an answer to a server that waits."""
        self._server, self._sessions, self._offer = server, sessions, offer
        self._open: dict[str, tuple[Request, Connection]] = {}
        """Requests that the server holds open for somebody's answer, by their id."""
        self._ids: dict[str, str] = {}
        """The same by the ids of their calls."""

    def call(self, call: Call, wire: str, who: Who, context: Context) -> Awaitable[Any]:
        """Carry a call out, from the beginning."""
        return self._go(_Part(call, wire, who, context.report), lambda: context.call_id)

    async def resume(
        self, call: Call, state: Mapping[str, Any], answer: Any, who: Who, report: Reports | None = None
    ) -> Outcome | Any:
        """Go on after somebody answered. An answer that does not fit leaves the question open."""
        requests: Requests = state["requests"]
        try:
            answers = answers_of(requests, answer)
        except InvalidArguments as error:
            return self._question(requests, state, f"{error} ")
        if "request" in state:
            return await self._answered(call, state, answers)
        part = _Part(call, state["tool"], who, report, answers, state.get("state"), int(state.get("round", 0)))
        if state.get("again"):
            _agreed(answers)
            part.inputs = None
        return await self._go(part, lambda: call.id or "")

    def is_lost(self, number: str) -> bool:
        """Whether nobody waits for the answer to a question any more."""
        request, _ = self._open.get(number, (None, None))
        return request is None or request.is_lost

    def forget(self, call: Call) -> None:
        """Nobody will answer any more: the server need not wait."""
        request, _ = self._open.pop(self._ids.pop(call.id or "", ""), (None, None))
        if request is not None:
            request.cancel()

    # To and fro

    async def _go(self, part: _Part, call_id: Callable[[], str]) -> Any:
        while True:
            told, request, connection = await self._said(part)
            if isinstance(told, Asked):
                return await self._asked(told, request, connection, part.call, call_id())
            if request.plain:
                return done_of_plain(told, self._offer.check_of(part.call.tool))
            if told.get("resultType") != "input_required":
                return await self._done(told, part.call.tool)
            requests: Requests = told.get("inputRequests") or {}
            part.round, part.state = part.round + bool(requests), told.get("requestState")
            if part.round > ROUNDS:
                raise ToolError(f"{self._server} asked {ROUNDS} times and did not come to an end.")
            if (question := self._wanted(requests, part)) is not None:
                return question
            part.inputs = answers_of(requests, None) if requests else None
            if not requests:  # it only needs more time, and may have it while the call has
                part.polls += 1
                await asyncio.sleep(min(POLLING * part.polls, LONGEST))

    async def _said(self, part: _Part) -> tuple[Any, Request, Connection]:
        """What the server says to a call; what surely did not arrive is sent once more."""
        again = True
        while True:
            connection = self._sessions.of(part.who)
            request = Request(
                part.wire, part.arguments, inputs=part.inputs, state=part.state,
                report=part.report, user=part.call.user,
                permit=partial(self._offer.wire_name, part.call.tool),
            )  # fmt: skip
            connection.submit(request)
            try:
                return await self._turn(connection, request), request, connection
            except _Again as error:
                if not again:
                    raise
                again = False
                if error.relist:
                    await _relisted(connection, error)

    async def _turn(self, connection: Connection, request: Request) -> Any:
        try:
            told = await request.turn
        except asyncio.CancelledError:
            request.cancel()
            raise
        return self._failed(told, connection, request) if isinstance(told, Exception) else told

    def _failed(self, error: Exception, connection: Connection, request: Request) -> Asked:
        """What is asked instead, or raises what the error means."""
        if isinstance(error, TimedOut):
            connection.suspect()
        if isinstance(error, NotStarted):
            raise (_Again(str(error)) if request.began and failure_of(error).again else error) from error
        if isinstance(error, ToolError):
            raise error
        if (
            isinstance(error, MCPError)
            and error.code == types.URL_ELICITATION_REQUIRED
            and (asked := _addresses(error))
        ):
            return asked
        raise self._meant(error, request) from error

    def _meant(self, error: Exception, request: Request) -> ToolError:
        """What an error means for the call: was it done, and is it worth another try?"""
        trouble = _trouble(error)
        if trouble.stale:
            return _Again(f"{self._server} does not accept the call: {trouble.message}", relist=True)
        if trouble.gone:
            request.leave(trouble.message)
        if trouble.answered and request.resumes and "requeststate" in trouble.message.lower():
            again = "It was most likely started anew since it asked. Call the tool again."
            return ToolError(f"{self._server} does not take the answer: {trouble.message} {again}", code="interrupted")
        if trouble.code is not None:
            return ToolError(f"{self._server}: {trouble.message}", code=trouble.code)
        if trouble.answered:
            return ToolError(f"{self._server} says: {trouble.message}"[:2000])
        if not trouble.sent:
            what = f"{self._server} cannot be reached: {trouble.message}"
            return _Again(what) if trouble.again else NotStarted(what)
        happened = "went away while it worked on this" if trouble.gone else "gave no answer to this"
        what = f"{self._server} {happened}: {trouble.message}"
        if self._offer.is_repeatable(request.tool):
            return Unavailable(what)
        return ToolError(
            f"{what} Whether it was done is not known. Do not repeat it before that has been found out.",
            code="unknown_effect",
        )

    async def _done(self, told: Any, tool: str) -> Done:
        check = self._offer.check_of(tool)
        if is_heavy(told):
            return await asyncio.to_thread(done_of, told, check)
        return done_of(told, check)

    # Questions

    def _wanted(self, requests: Requests, part: _Part) -> Pending | None:
        """What a person is asked in the newer protocol: all that is needed to go on is in the wait."""
        if (why := refused(requests)) is not None:
            raise ToolError(f"{self._server} asks for what nobody here can give: {why}")
        state = {"requests": requests, "tool": part.wire, "state": part.state, "round": part.round}
        if len(to_json(state)) > STATE:
            raise ToolError(f"{self._server} wants more kept for its question than {STATE:,} bytes.", code="too_large")
        return self._question(requests, state)

    async def _asked(self, told: Any, request: Request, connection: Connection, call: Call, call_id: str) -> Any:
        """In the older protocol the server waits in the middle of its work, and the request stays open."""
        for _ in range(ROUNDS):
            if not isinstance(told, Asked):
                return await self._done(told, call.tool)
            if told.answer is None or refused(told.requests) is None:
                return self._put(told, request, connection, call_id)
            request.answer(types.ElicitResult(action="decline"))
            told = await self._turn(connection, request)
        request.cancel()
        raise ToolError(f"{self._server} asked {ROUNDS} times for what nobody here can give.")

    def _put(self, asked: Asked, request: Request, connection: Connection, call_id: str) -> Pending | None:
        requests = asked.requests
        if asked.answer is None:  # it refuses to begin until a person has been somewhere
            return self._question(requests, {"requests": requests, "tool": request.tool, "again": True})
        self._open[request.id] = request, connection
        self._ids[call_id] = request.id
        state = {"requests": requests, "tool": request.tool, "request": request.id, "call": call_id}
        state |= {"process": process.here(), "talk": self.id}
        return self._question(requests, state)

    async def _answered(self, call: Call, state: Mapping[str, Any], answers: Mapping[str, Any]) -> Any:
        self._ids.pop(state["call"], None)
        request, connection = self._open.pop(state["request"], (None, None))
        if request is None or connection is None or request.is_lost:
            return self._offer.interrupted(state["tool"])
        request.answer(types.ElicitResult.model_validate(answers[NOW]))  # also to one that did not wait: it is harmless
        return await self._next(call, request, connection, state["call"])

    async def _next(self, call: Call, request: Request, connection: Connection, call_id: str) -> Any:
        told = await self._turn(connection, request)
        return await self._asked(told, request, connection, call, call_id)

    def _question(self, requests: Requests, state: Mapping[str, Any], mistake: str = "") -> Pending | None:
        question = question_of(requests, server=self._server)
        if question is None:
            return None
        return Pending("input", message=f"{mistake}{question.message}", request=question.request, state=dict(state))


class _Again(NotStarted):
    """The request did not arrive: it may be sent again."""

    def __init__(self, message: str, *, relist: bool = False) -> None:
        super().__init__(message)
        self.relist = relist
        """Whether the server wants headers that follow a newer list of its tools."""


def _trouble(error: Exception) -> ConnectionFailure:
    if isinstance(error, Lost):
        return ConnectionFailure(True, True, str(error))
    if isinstance(error, ValidationError) or str(error).startswith(_UNREADABLE):
        # Only this call fails: the others go on.
        return ConnectionFailure(True, False, "What came is no result of a tool.")
    return failure_of(error)


async def _relisted(connection: Connection, refusal: _Again) -> None:
    try:
        await connection.relist()
    except Exception:  # noqa: BLE001 - whatever it is, the call was refused
        raise refusal from None


def _addresses(error: MCPError) -> Asked | None:
    """The addresses that a person has to visit before the call can be made at all."""
    data = error.data
    found = data.get("elicitations") if isinstance(data, Mapping) else None
    params = [each for each in found if isinstance(each, Mapping)] if isinstance(found, list) else []
    asked = {str(n): {"method": "elicitation/create", "params": dict(each)} for n, each in enumerate(params)}
    return Asked(asked) if asked else None


def _agreed(answers: Mapping[str, Any]) -> None:
    if any(answer.get("action") != "accept" for answer in answers.values()):
        raise ToolError("The person who was asked did not agree.", code="rejected")
