"""One `tools/call` request, from submission to its result, with the questions that the server asks in between.

The connection sends it; `tool_call.py` waits for its events. It outlives the task that waits for it: in the handshake
protocol a question keeps the request open until another task brings the answer.
"""

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
from surehand.providers.mcp.connection.elicitation import CURRENT_QUESTION_KEY, InputRequests
from surehand.providers.mcp.connection.silence_timeout import SilenceTimeout

if TYPE_CHECKING:
    from mcp.client.session import ClientSession

_RESULT_ADAPTER: TypeAdapter[dict[str, Any]] = TypeAdapter(dict[str, Any])
"""The MCP SDK has validated the result already. Parsing it into a model would validate and copy it again."""


class _RawRequest:
    """The part of a request that the SDK's session uses. The SDK's own model would validate the arguments again."""

    name_param = None

    def __init__(self, method: str, params: Mapping[str, Any]) -> None:
        self._method = method
        self._params = params

    def model_dump(self, **_: Any) -> dict[str, Any]:
        """The message. Raises here, and not during sending, for arguments that JSON cannot represent."""
        return {"method": self._method, "params": to_jsonable_python(self._params)}


class ConnectionLost(Exception):
    """The connection was lost while the server worked on a call."""


@dataclass(frozen=True, slots=True)
class InputNeeded:
    """The server needs input from a person before it continues."""

    requests: InputRequests
    answer: asyncio.Future[types.ElicitResult] | None = None
    """Where to put the answer; None if the server ended the call, and expects it again after the input."""


class CallRequest:
    """Belongs to its connection, not to the task that waits for it: a later task may bring the answer to a question."""

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
        self.tool = tool
        self.arguments = arguments
        self.user = user
        self._input_responses = input_responses
        self._request_state = request_state
        self._report = report
        self._check_allowed = check_allowed
        self._next_event: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._task: asyncio.Task[None] | None = None
        self._direct_calls: DirectToolCalls | None = None
        self._on_end: Callable[[CallRequest], None] | None = None
        self._silence_timeout: SilenceTimeout | None = None
        self.request_id: int | None = None
        """Its JSON-RPC id on the direct path."""
        self.reconnect: Callable[[str], None] = _no_reconnect
        """Ends the session that the request was sent through, so that the connection restarts."""
        self.open_question: InputNeeded | None = None
        """The question that waits for an answer."""
        self.is_over = False
        self.is_answered = False
        self.has_plain_result = False
        """Whether its result was checked to be plain, see `tools/plain_result.py`."""

    @property
    def resume_id(self) -> str:
        """The id by which a stored question finds its request again; created on first use."""
        if self._resume_id is None:
            self._resume_id = token_hex(12)
        return self._resume_id

    _resume_id: str | None = None

    @property
    def is_resumption(self) -> bool:
        """Whether it resumes a call with a `requestState`."""
        return self._request_state is not None

    @property
    def has_begun(self) -> bool:
        """Whether it was handed to a session that was up."""
        return self._task is not None or self._direct_calls is not None

    @property
    def has_new_event(self) -> bool:
        """Whether a result or an error has arrived since the last question."""
        return self._next_event.done() and not isinstance(self._next_event.result(), InputNeeded)

    @property
    def is_lost(self) -> bool:
        """Whether the connection was lost before a result arrived."""
        return self.is_over and (not self.has_new_event or isinstance(self._next_event.result(), ConnectionLost))

    @property
    def next_event(self) -> asyncio.Future[Any]:
        """Resolves to the result, a question (`InputNeeded`) or an exception."""
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
        """Send the request, and start its silence timeout."""
        self.reconnect = reconnect
        if self.is_over:
            on_end(self)
            return
        try:
            if self._check_allowed is not None:  # raises if the tool was held back since the call was made
                self._check_allowed()
        except ToolError as error:
            self.is_over = True
            self.deliver(error)
            on_end(self)
            return
        self._on_end = on_end
        self._silence_timeout = silence_timeout
        silence_timeout.start(self)
        if isinstance(sender, DirectToolCalls):
            self._direct_calls = sender
            sender.send(self, self._params())
        else:
            self._task = asyncio.get_running_loop().create_task(self._run_in_session(sender), name=f"mcp: {self.tool}")

    async def _run_in_session(self, session: ClientSession) -> None:
        """Send through the SDK's session, for a server object of this process."""
        try:
            message: Any = _RawRequest("tools/call", self._params())
            self.succeed(await session.send_request(message, _RESULT_ADAPTER, progress_callback=self._on_progress))
        except Exception as error:  # noqa: BLE001 - the task that waits decides what it means
            self.fail(error)
        finally:
            self._end()

    def _params(self) -> dict[str, Any]:
        """The params of `tools/call`.

        The SDK's own `call_tool` is not used: it validates results with a validator that a hostile schema can stall.
        """
        params: dict[str, Any] = {"name": self.tool, "arguments": self.arguments}
        if self._input_responses is not None:
            params["inputResponses"] = self._input_responses
        if self._request_state is not None:
            params["requestState"] = self._request_state
        return params

    def succeed(self, result: Any, *, plain: bool = False) -> None:
        """Deliver the result, and end."""
        self.is_answered = True
        self.has_plain_result = plain
        self.deliver(result)
        self._end()

    def fail(self, error: Exception) -> None:
        """Deliver an error, and end. The task that waits decides what it means."""
        self.deliver(error)
        self._end()

    def _end(self) -> None:
        self.is_over = True
        self._stop_timeout()
        on_end, self._on_end = self._on_end, None
        if on_end is not None:
            on_end(self)

    def deliver(self, event: Any) -> None:
        """Resolve `next_event`. If it is resolved already, start a new one, for the task that comes next."""
        # An exception is delivered as a result, too: a future with an exception that no task awaits logs an error.
        if self._next_event.done():
            self._next_event = asyncio.get_running_loop().create_future()
        self._next_event.set_result(event)

    def ask_question(self, params: Mapping[str, Any]) -> asyncio.Future[types.ElicitResult]:
        """Deliver a question that the server asks while it works. The silence timeout stops until it is answered."""
        self._stop_timeout()
        answer: asyncio.Future[types.ElicitResult] = asyncio.get_running_loop().create_future()
        self.open_question = InputNeeded(
            {CURRENT_QUESTION_KEY: {"method": "elicitation/create", "params": params}}, answer
        )
        self.deliver(self.open_question)
        return answer

    # For the task that waits

    def answer_question(self, result: types.ElicitResult) -> None:
        """Send the answer to the open question, and start a new `next_event`."""
        question, self.open_question = self.open_question, None
        if question is not None and question.answer is not None and not question.answer.done():
            if self._next_event.done() and self._next_event.result() is question:
                self._next_event = asyncio.get_running_loop().create_future()
            question.answer.set_result(result)
            if self._silence_timeout is not None and not self.is_over:
                self._silence_timeout.start(self)

    def cancel(self) -> None:
        """Cancel the request, and notify the server if it was sent."""
        self.is_over = True
        self._stop_timeout()
        if self._task is not None:
            self._task.cancel()
        elif self._direct_calls is not None:
            self._direct_calls.cancel(self)
            self._end()

    async def wait_ended(self) -> None:
        """Wait until its task has ended."""
        if self._task is not None:
            await asyncio.wait({self._task})

    # Progress and timeout

    async def _on_progress(self, progress: float, total: float | None, message: str | None) -> None:
        self.report_progress(progress, total, message)

    def report_progress(self, progress: float, total: float | None, message: str | None) -> None:
        """Restart the silence timeout, and report progress to the caller."""
        if self._silence_timeout is not None:
            self._silence_timeout.restart(self)
        if self._report is not None and not self.is_over:
            self._report(*_progress_arguments(progress, total, message), progress=progress, total=total)

    def _stop_timeout(self) -> None:
        if self._silence_timeout is not None:
            self._silence_timeout.stop(self)

    def time_out(self, seconds: float) -> None:
        """Fail: the server was silent for too long."""
        self.deliver(TimedOut(f"{self.tool} gave no sign for {seconds:g} s."))
        self.cancel()


def _progress_arguments(progress: float, total: float | None, message: str | None) -> tuple[Any, ...]:
    """Arguments of `Context.report`: the fraction if the total is known, and the message."""
    fraction = (min(max(progress / total, 0.0), 1.0),) if total else ()
    return (*fraction, message) if message else fraction


def _no_reconnect(reason: str) -> None:
    """Do nothing: the request was not sent."""
