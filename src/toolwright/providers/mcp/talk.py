"""Talk: a call with a server, to and fro, until there is an outcome. Loaded when the first call is made."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import mcp_types as types

from toolwright.core.call import Call
from toolwright.core.context import Context
from toolwright.core.errors import InvalidArguments, NotStarted, TimedOut, ToolError, Unavailable
from toolwright.core.outcome import Outcome, Pending
from toolwright.providers.mcp.content import done_of
from toolwright.providers.mcp.forms import answers_of, question_of, refused
from toolwright.providers.mcp.offer import Offer
from toolwright.providers.mcp.options import Options
from toolwright.providers.mcp.request import Asked, Lost, Request
from toolwright.providers.mcp.route import Who
from toolwright.providers.mcp.sessions import Sessions
from toolwright.providers.mcp.trouble import Trouble, trouble_of

if TYPE_CHECKING:
    from toolwright.providers.mcp.connection import Connection

ROUNDS = 32
"""How often a server may ask before it is no longer listened to."""
POLLING = 0.25
"""Seconds before a server that only asked for more time is asked again."""


class Talk:
    """Calls of one server. In the newer protocol a question ends the exchange, and the answer begins the next."""

    def __init__(self, server: str, sessions: Sessions, offer: Offer, options: Options) -> None:
        self._server, self._sessions, self._offer, self._options = server, sessions, offer, options
        self._open: dict[str, tuple[Request, Connection]] = {}
        """Requests that wait for somebody's answer while the server waits too, by their id."""
        self._calls: dict[str, str] = {}

    async def call(self, call: Call, wire: str, who: Who, context: Context) -> Any:
        """Carry a call out, from the beginning."""
        arguments = call.arguments if isinstance(call.arguments, Mapping) else {}
        return await self._exchange(call, wire, arguments, who, context)

    async def resume(self, call: Call, state: Mapping[str, Any], answer: Any, who: Who) -> Outcome | Any:
        """Go on after somebody answered. An answer that does not fit leaves the question open."""
        requests: Mapping[str, Any] = state["requests"]
        try:
            answers = answers_of(requests, answer)
        except InvalidArguments as error:
            return self._question(requests, state, f"{error} ")
        if "request" in state:
            return await self._go_on(call, state, answers)
        arguments = call.arguments if isinstance(call.arguments, Mapping) else {}
        return await self._exchange(call, state["tool"], arguments, who, None, inputs=answers, asked=state)

    def forget(self, call: Call) -> None:
        """Nobody will answer any more: the server need not wait."""
        number = self._calls.pop(call.id or "", "")
        request, _ = self._open.pop(number, (None, None))
        if request is not None:
            request.cancel()

    # One exchange

    async def _exchange(
        self,
        call: Call,
        wire: str,
        arguments: Mapping[str, Any],
        who: Who,
        context: Context | None,
        *,
        inputs: Mapping[str, Any] | None = None,
        asked: Mapping[str, Any] | None = None,
    ) -> Any:
        state, round = (asked.get("state"), int(asked.get("round", 0))) if asked else (None, 0)
        again = mismatched = False
        while True:
            connection = self._sessions.of(who)
            request = Request(
                wire, arguments, inputs=inputs, state=state, patience=self._options.patience,
                report=context.report if context is not None else None,
            )  # fmt: skip
            connection.submit(request)
            try:
                told = await self._turn(connection, request)
            except _Resend:
                if again:
                    raise
                again = True
                continue
            except _Mismatch:
                if mismatched:
                    raise
                mismatched = True
                await connection.relist()
                continue
            if isinstance(told, types.InputRequiredResult):
                round += 1
                if round > ROUNDS:
                    raise ToolError(f"{self._server} asked {ROUNDS} times and did not come to an end.")
                if told.input_requests:
                    return self._required(wire, told, round)
                inputs, state = None, told.request_state
                await asyncio.sleep(POLLING)
                continue
            return self._come_to(call, wire, told, request, connection, context)

    def _come_to(
        self, call: Call, wire: str, told: Any, request: Request, connection: Connection, context: Context | None
    ) -> Any:
        if isinstance(told, Asked):
            self._open[request.id] = request, connection
            if context is not None:
                self._calls[context.call_id] = request.id
            elif call.id:
                self._calls[call.id] = request.id
            requests = {"": {"method": "elicitation/create", "params": told.params}}
            return self._question(requests, {"request": request.id, "requests": requests, "tool": wire})
        return done_of(told, self._offer.check_of(call.tool))

    async def _turn(self, connection: Connection, request: Request) -> Any:
        try:
            return await request.turn()
        except asyncio.CancelledError:
            request.cancel()
            raise
        except TimedOut:
            connection.suspect()
            raise
        except ToolError:
            raise
        except Exception as error:
            raise self._meant(error, connection, request) from error

    def _meant(self, error: Exception, connection: Connection, request: Request) -> Exception:
        """What an error means for the call: was it done, and is it worth another try?"""
        if getattr(error, "code", None) == types.HEADER_MISMATCH:
            return _Mismatch(f"{self._server} does not accept the call: {error}")
        trouble = Trouble(True, True, str(error)) if isinstance(error, Lost) else trouble_of(error)
        if trouble.gone:
            connection.lost(trouble.message)
        if trouble.answered:
            return ToolError(f"{self._server} says: {trouble.message}"[:2000])
        if not trouble.sent:
            return _Resend(f"{self._server} cannot be reached: {trouble.message}")
        return self._unknown(trouble.message, request.tool)

    def _unknown(self, why: str, tool: str) -> ToolError:
        """It was sent and nothing came back: what repeats without harm may be repeated, nothing else."""
        if self._repeatable(tool):
            return Unavailable(f"{self._server} went away while it worked on this: {why}")
        return ToolError(
            f"{self._server} went away while it worked on this: {why} Whether it was done is not known. "
            "Do not repeat it before that has been found out.",
            code="unknown_effect",
        )

    def _repeatable(self, wire: str) -> bool:
        names = [name for name, each in self._offer.definitions.items() if each.get("name") == wire]
        return any(tool.repeatable for tool in self._offer.tools if tool.name in names)

    # Questions

    def _required(self, wire: str, told: types.InputRequiredResult, round: int) -> Pending:
        assert told.input_requests
        requests = {
            key: request.model_dump(mode="json", by_alias=True, exclude_none=True)
            for key, request in told.input_requests.items()
        }
        if (why := refused(requests)) is not None:
            raise ToolError(f"{self._server} asks for what nobody here can give: {why}")
        return self._question(
            requests, {"requests": requests, "state": told.request_state, "tool": wire, "round": round}
        )

    def _question(self, requests: Mapping[str, Any], state: Mapping[str, Any], mistake: str = "") -> Pending:
        question = question_of(requests, server=self._server)
        return Pending("input", message=f"{mistake}{question.message}", request=question.request, state=dict(state))

    async def _go_on(self, call: Call, state: Mapping[str, Any], answers: Mapping[str, Any]) -> Any:
        """In the older protocol the server still waits, unless it, or we, have been restarted."""
        request, connection = self._open.pop(state["request"], (None, None))
        if request is None or connection is None or request.over:
            raise self._interrupted(state["tool"])
        request.answer(types.ElicitResult.model_validate(answers[""]))
        told = await self._turn(connection, request)
        return self._come_to(call, state["tool"], told, request, connection, None)

    def _interrupted(self, tool: str) -> ToolError:
        why = f"{self._server} no longer waits for this answer: it, or this program, was started anew."
        if self._repeatable(tool):
            return ToolError(f"{why} Call the tool again.", code="interrupted")
        return ToolError(f"{why} Whether anything was done is not known.", code="unknown_effect")


class _Resend(NotStarted):
    """The request did not arrive: it may be sent again."""


class _Mismatch(ToolError):
    """The server wants headers that follow a newer list of its tools."""
