"""Request: one call that a server works on, whoever still waits for it. Loaded when a connection is opened."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from secrets import token_hex
from typing import TYPE_CHECKING, Any

import mcp_types as types
from pydantic import TypeAdapter
from pydantic_core import to_jsonable_python

from surehand.core.errors import TimedOut, ToolError
from surehand.providers.mcp.connection.direct_call import DirectToolCalls

if TYPE_CHECKING:
    from mcp.client.session import ClientSession

    from surehand.providers.mcp.connection.silence_timeout import SilenceTimeout

_RESULT_ADAPTER: TypeAdapter[dict[str, Any]] = TypeAdapter(dict[str, Any])
"""The library has checked it against its protocol already; as a model it would be checked, and copied, once more."""
CURRENT_QUESTION_KEY = "now"
"""The key of a question that the server waits for at this very moment."""


class _RawRequest:
    """All that the library's session asks of a request; its own model would check once more what was checked before."""

    name_param = None

    def __init__(self, method: str, params: Mapping[str, Any]) -> None:
        self._method, self._params = method, params

    def model_dump(self, **_: Any) -> dict[str, Any]:
        """As it is sent; raises here, and not in the middle of sending it, for what JSON cannot hold."""
        return {"method": self._method, "params": to_jsonable_python(self._params)}


class ConnectionLost(Exception):
    """The connection went away while the server worked."""


@dataclass(frozen=True, slots=True)
class InputNeeded:
    """The server wants to know something before it goes on."""

    requests: Mapping[str, Mapping[str, Any]]
    answer: asyncio.Future[types.ElicitResult] | None = None
    """What lets it go on; None where it has ended the call, and wants it to be made again."""


class CallRequest:
    """It belongs to its connection: whoever waits for it may leave, and come back with an answer."""

    def __init__(
        self,
        tool: str,
        arguments: Mapping[str, Any],
        *,
        input_responses: Mapping[str, Any] | None = None,
        request_state: str | None = None,
        report: Callable[..., None] | None = None,
        check_allowed: Callable[[], object] | None = None,
        user: str | None = None,
    ) -> None:
        self.tool, self.arguments, self.user = tool, arguments, user
        self._input_responses, self._request_state = input_responses, request_state
        self._report, self._check_allowed = report, check_allowed
        self._next_event: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._task: asyncio.Task[None] | None = None
        self._direct_calls: DirectToolCalls | None = None
        self._on_end: Callable[[CallRequest], None] | None = None
        self._silence_timeout: SilenceTimeout | None = None
        self.request_id: int | None = None
        """Under which it was written, past the library's session."""
        self.reconnect: Callable[[str], None] = _no_reconnect
        """Has the connection that it was sent through made anew."""
        self.open_question: InputNeeded | None = None
        """The question that is open."""
        self.is_over = self.is_answered = False
        self.has_plain_result = False
        """Whether its result is known to be a plain one."""

    @property
    def resume_id(self) -> str:
        """Under which it is found again by whoever brings an answer; made when first asked for."""
        if "_id" not in self.__dict__:
            self.__dict__["_id"] = token_hex(12)
        return self.__dict__["_id"]  # type: ignore[no-any-return]

    @property
    def is_resumption(self) -> bool:
        """Whether it goes on with what a server asked for."""
        return self._request_state is not None

    @property
    def has_begun(self) -> bool:
        """Whether it was handed to a connection that was up."""
        return self._task is not None or self._direct_calls is not None

    @property
    def has_new_event(self) -> bool:
        """Whether something came of it since the question was asked."""
        return self._next_event.done() and not isinstance(self._next_event.result(), InputNeeded)

    @property
    def is_lost(self) -> bool:
        """Whether its connection went away before anything came of it."""
        return self.is_over and (not self.has_new_event or isinstance(self._next_event.result(), ConnectionLost))

    @property
    def next_event(self) -> asyncio.Future[Any]:
        """What there is to know next: the server's answer, what it asks, or an error."""
        return self._next_event

    # For the connection

    def begin(
        self,
        sender: DirectToolCalls | ClientSession,
        silence_timeout: SilenceTimeout,
        *,
        on_end: Callable[[CallRequest], None],
        reconnect: Callable[[str], None],
    ) -> None:
        """Have it sent. From now on the server may not be silent for longer than the timeout."""
        self.reconnect = reconnect
        if self.is_over:
            on_end(self)
            return
        try:
            if self._check_allowed is not None:  # raises for a tool that may not be called any more
                self._check_allowed()
        except ToolError as error:
            self.is_over = True
            self.deliver(error)
            on_end(self)
            return
        self._on_end, self._silence_timeout = on_end, silence_timeout
        silence_timeout.start(self)
        if isinstance(sender, DirectToolCalls):
            self._direct_calls = sender
            sender.send(self, self._params())
        else:
            self._task = asyncio.get_running_loop().create_task(self._run_in_session(sender), name=f"mcp: {self.tool}")

    async def _run_in_session(self, session: ClientSession) -> None:
        """Through the library's session, which waits in a task for as long as it takes."""
        try:
            message: Any = _RawRequest("tools/call", self._params())
            self.succeed(await session.send_request(message, _RESULT_ADAPTER, progress_callback=self._on_progress))
        except Exception as error:  # noqa: BLE001 - whoever waits decides what it means
            self.fail(error)
        finally:
            self._end()

    def _params(self) -> dict[str, Any]:
        """The library's own `call_tool` would check the answer with a validator that a hostile schema can stall."""
        params: dict[str, Any] = {"name": self.tool, "arguments": self.arguments}
        if self._input_responses is not None:
            params["inputResponses"] = self._input_responses
        if self._request_state is not None:
            params["requestState"] = self._request_state
        return params

    def succeed(self, result: Any, *, plain: bool = False) -> None:
        """The server has answered."""
        self.is_answered, self.has_plain_result = True, plain
        self.deliver(result)
        self._end()

    def fail(self, error: Exception) -> None:
        """It has come to nothing; whoever waits decides what that means."""
        self.deliver(error)
        self._end()

    def _end(self) -> None:
        self.is_over = True
        self._stop_timeout()
        ended, self._on_end = self._on_end, None
        if ended is not None:
            ended(self)

    def deliver(self, event: Any) -> None:
        """Let whoever waits know; what comes after that is kept for who asks next."""
        if self._next_event.done():
            self._next_event = asyncio.get_running_loop().create_future()
        self._next_event.set_result(event)

    def ask_question(self, params: Mapping[str, Any]) -> asyncio.Future[types.ElicitResult]:
        """The server asks in the middle of its work. Time stands still until somebody answers."""
        self._stop_timeout()
        answer: asyncio.Future[types.ElicitResult] = asyncio.get_running_loop().create_future()
        self.open_question = InputNeeded(
            {CURRENT_QUESTION_KEY: {"method": "elicitation/create", "params": params}}, answer
        )
        self.deliver(self.open_question)
        return answer

    # For those who wait

    def answer_question(self, result: types.ElicitResult) -> None:
        """Answer the open question, and wait for the next turn."""
        asked, self.open_question = self.open_question, None
        if asked is not None and asked.answer is not None and not asked.answer.done():
            if self._next_event.done() and self._next_event.result() is asked:
                self._next_event = asyncio.get_running_loop().create_future()
            asked.answer.set_result(result)
            if self._silence_timeout is not None and not self.is_over:
                self._silence_timeout.start(self)

    def cancel(self) -> None:
        """Nobody wants it any more; the server is told, if it was sent."""
        self.is_over = True
        self._stop_timeout()
        if self._task is not None:
            self._task.cancel()
        elif self._direct_calls is not None:
            self._direct_calls.cancel(self)
            self._end()

    async def wait_ended(self) -> None:
        """Wait until nothing of it runs."""
        if self._task is not None:
            await asyncio.wait({self._task})

    # Time

    async def _on_progress(self, progress: float, total: float | None, message: str | None) -> None:
        self.report_progress(progress, total, message)

    def report_progress(self, progress: float, total: float | None, message: str | None) -> None:
        """The server works on it."""
        if self._silence_timeout is not None:
            self._silence_timeout.restart(self)
        if self._report is not None and not self.is_over:
            self._report(*_progress_arguments(progress, total, message), progress=progress, total=total)

    def _stop_timeout(self) -> None:
        if self._silence_timeout is not None:
            self._silence_timeout.stop(self)

    def time_out(self, seconds: float) -> None:
        """Its server has been silent for too long."""
        self.deliver(TimedOut(f"{self.tool} gave no sign for {seconds:g} s."))
        self.cancel()


def _progress_arguments(progress: float, total: float | None, message: str | None) -> tuple[Any, ...]:
    """As `Context.report` takes it: a fraction where the server says of how much, and its words."""
    fraction = (min(max(progress / total, 0.0), 1.0),) if total else ()
    return (*fraction, message) if message else fraction


def _no_reconnect(reason: str) -> None:
    """It was not sent."""
