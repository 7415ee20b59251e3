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
from surehand.providers.mcp.direct_call import DirectCalls

if TYPE_CHECKING:
    from mcp.client.session import ClientSession

    from surehand.providers.mcp.silence_timeout import SilenceTimeout

_ANSWER: TypeAdapter[dict[str, Any]] = TypeAdapter(dict[str, Any])
"""The library has checked it against its protocol already; as a model it would be checked, and copied, once more."""
NOW = "now"
"""The key of a question that the server waits for at this very moment."""


class _Message:
    """All that the library's session asks of a request; its own model would check once more what was checked before."""

    name_param = None

    def __init__(self, method: str, params: Mapping[str, Any]) -> None:
        self._method, self._params = method, params

    def model_dump(self, **_: Any) -> dict[str, Any]:
        """As it is sent; raises here, and not in the middle of sending it, for what JSON cannot hold."""
        return {"method": self._method, "params": to_jsonable_python(self._params)}


class Lost(Exception):
    """The connection went away while the server worked."""


@dataclass(frozen=True, slots=True)
class Asked:
    """The server wants to know something before it goes on."""

    requests: Mapping[str, Mapping[str, Any]]
    answer: asyncio.Future[types.ElicitResult] | None = None
    """What lets it go on; None where it has ended the call, and wants it to be made again."""


class Request:
    """It belongs to its connection: whoever waits for it may leave, and come back with an answer."""

    def __init__(
        self,
        tool: str,
        arguments: Mapping[str, Any],
        *,
        inputs: Mapping[str, Any] | None = None,
        state: str | None = None,
        report: Callable[..., None] | None = None,
        permit: Callable[[], object] | None = None,
        user: str | None = None,
    ) -> None:
        self.tool, self.arguments, self.user = tool, arguments, user
        self._inputs, self._state = inputs, state
        self._report, self._permit = report, permit
        self._turn: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._task: asyncio.Task[None] | None = None
        self._calls: DirectCalls | None = None
        self._ended: Callable[[Request], None] | None = None
        self._timeout: SilenceTimeout | None = None
        self.number: int | None = None
        """Under which it was written, past the library's session."""
        self.leave: Callable[[str], None] = _nowhere
        """Has the connection that it was sent through made anew."""
        self.asked: Asked | None = None
        """The question that is open."""
        self.over = self.answered = False
        self.plain = False
        """Whether its result is known to be a plain one."""

    @property
    def id(self) -> str:
        """Under which it is found again by whoever brings an answer; made when first asked for."""
        if "_id" not in self.__dict__:
            self.__dict__["_id"] = token_hex(12)
        return self.__dict__["_id"]  # type: ignore[no-any-return]

    @property
    def resumes(self) -> bool:
        """Whether it goes on with what a server asked for."""
        return self._state is not None

    @property
    def began(self) -> bool:
        """Whether it was handed to a connection that was up."""
        return self._task is not None or self._calls is not None

    @property
    def news(self) -> bool:
        """Whether something came of it since the question was asked."""
        return self._turn.done() and not isinstance(self._turn.result(), Asked)

    @property
    def is_lost(self) -> bool:
        """Whether its connection went away before anything came of it."""
        return self.over and (not self.news or isinstance(self._turn.result(), Lost))

    @property
    def turn(self) -> asyncio.Future[Any]:
        """What there is to know next: the server's answer, what it asks, or an error."""
        return self._turn

    # For the connection

    def begin(
        self,
        way: DirectCalls | ClientSession,
        timeout: SilenceTimeout,
        *,
        ended: Callable[[Request], None],
        leave: Callable[[str], None],
    ) -> None:
        """Have it sent. From now on the server may not be silent for longer than the timeout."""
        self.leave = leave
        if self.over:
            ended(self)
            return
        try:
            if self._permit is not None:  # raises for a tool that may not be called any more
                self._permit()
        except ToolError as error:
            self.over = True
            self.tell(error)
            ended(self)
            return
        self._ended, self._timeout = ended, timeout
        timeout.start(self)
        if isinstance(way, DirectCalls):
            self._calls = way
            way.send(self, self._params())
        else:
            self._task = asyncio.get_running_loop().create_task(self._run(way), name=f"mcp: {self.tool}")

    async def _run(self, session: ClientSession) -> None:
        """Through the library's session, which waits in a task for as long as it takes."""
        try:
            message: Any = _Message("tools/call", self._params())
            self.succeed(await session.send_request(message, _ANSWER, progress_callback=self._progress))
        except Exception as error:  # noqa: BLE001 - whoever waits decides what it means
            self.fail(error)
        finally:
            self._end()

    def _params(self) -> dict[str, Any]:
        """The library's own `call_tool` would check the answer with a validator that a hostile schema can stall."""
        params: dict[str, Any] = {"name": self.tool, "arguments": self.arguments}
        if self._inputs is not None:
            params["inputResponses"] = self._inputs
        if self._state is not None:
            params["requestState"] = self._state
        return params

    def succeed(self, result: Any, *, plain: bool = False) -> None:
        """The server has answered."""
        self.answered, self.plain = True, plain
        self.tell(result)
        self._end()

    def fail(self, error: Exception) -> None:
        """It has come to nothing; whoever waits decides what that means."""
        self.tell(error)
        self._end()

    def _end(self) -> None:
        self.over = True
        self._still()
        ended, self._ended = self._ended, None
        if ended is not None:
            ended(self)

    def tell(self, what: Any) -> None:
        """Let whoever waits know; what comes after that is kept for who asks next."""
        if self._turn.done():
            self._turn = asyncio.get_running_loop().create_future()
        self._turn.set_result(what)

    def ask(self, params: Mapping[str, Any]) -> asyncio.Future[types.ElicitResult]:
        """The server asks in the middle of its work. Time stands still until somebody answers."""
        self._still()
        answer: asyncio.Future[types.ElicitResult] = asyncio.get_running_loop().create_future()
        self.asked = Asked({NOW: {"method": "elicitation/create", "params": params}}, answer)
        self.tell(self.asked)
        return answer

    # For those who wait

    def answer(self, result: types.ElicitResult) -> None:
        """Answer the open question, and wait for the next turn."""
        asked, self.asked = self.asked, None
        if asked is not None and asked.answer is not None and not asked.answer.done():
            if self._turn.done() and self._turn.result() is asked:
                self._turn = asyncio.get_running_loop().create_future()
            asked.answer.set_result(result)
            if self._timeout is not None and not self.over:
                self._timeout.start(self)

    def cancel(self) -> None:
        """Nobody wants it any more; the server is told, if it was sent."""
        self.over = True
        self._still()
        if self._task is not None:
            self._task.cancel()
        elif self._calls is not None:
            self._calls.cancel(self)
            self._end()

    async def ended(self) -> None:
        """Wait until nothing of it runs."""
        if self._task is not None:
            await asyncio.wait({self._task})

    # Time

    async def _progress(self, progress: float, total: float | None, message: str | None) -> None:
        self.progress(progress, total, message)

    def progress(self, progress: float, total: float | None, message: str | None) -> None:
        """The server works on it."""
        if self._timeout is not None:
            self._timeout.restart(self)
        if self._report is not None and not self.over:
            self._report(*_told(progress, total, message), progress=progress, total=total)

    def _still(self) -> None:
        if self._timeout is not None:
            self._timeout.stop(self)

    def give_up(self, seconds: float) -> None:
        """Its server has been silent for too long."""
        self.tell(TimedOut(f"{self.tool} gave no sign for {seconds:g} s."))
        self.cancel()


def _told(progress: float, total: float | None, message: str | None) -> tuple[Any, ...]:
    """As `Context.report` takes it: a fraction where the server says of how much, and its words."""
    fraction = (min(max(progress / total, 0.0), 1.0),) if total else ()
    return (*fraction, message) if message else fraction


def _nowhere(reason: str) -> None:
    """It was not sent."""
