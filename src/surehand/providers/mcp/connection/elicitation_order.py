"""The order of calls whose tool may ask a person, in the handshake protocol.

There an `elicitation/create` does not name the call it belongs to. Calls that may ask therefore start one at a time, so
that a question can be assigned to its call. The modern protocol does not need this.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING

from surehand.core.clock import Clock, Deadline, Deadlines

if TYPE_CHECKING:
    from surehand.providers.mcp.connection.request import CallRequest

ASK_TIMEOUT_SECONDS = 1.0
"""How long the first call of a tool runs alone: most tools that ask do so at once."""


class ElicitationOrder:
    """Starts the calls of one tool one after the other, until the tool is known not to ask.

    Without this order an answer would still reach its question, but a question could be shown with the wrong call.
    """

    def __init__(self, begin: Callable[[CallRequest], None]) -> None:
        self._begin = begin
        self._silent_tools: set[str] = set()
        self._asking_tools: set[str] = set()
        self._first_requests: dict[str, CallRequest] = {}
        """The call of each tool that runs alone and may still ask."""
        self._waiting_requests: dict[str, deque[CallRequest]] = {}
        self._deadlines = Deadlines(Clock())
        self._timers: dict[str, Deadline] = {}

    def submit(self, request: CallRequest) -> None:
        """Start a request now, or when the one before it has asked or ended."""
        if request.tool in self._silent_tools:
            self._begin(request)
        elif request.tool in self._first_requests:
            self._waiting_requests.setdefault(request.tool, deque()).append(request)
        else:
            self._begin_alone(request)

    def record_question(self, request: CallRequest) -> None:
        """The request has asked a question: the next of its tool may start."""
        self._silent_tools.discard(request.tool)
        self._asking_tools.add(request.tool)
        self._begin_next(request)

    def record_end(self, request: CallRequest) -> None:
        """The request has ended. If its tool has never asked, its further calls start at once."""
        if request.is_answered and request.tool not in self._asking_tools:
            self._silent_tools.add(request.tool)
        if request.tool in self._first_requests:
            self._begin_next(request)

    def find_asking_request(self, candidates: Iterable[CallRequest]) -> CallRequest | None:
        """The request that a question belongs to: one of a tool that is known to ask, otherwise the last started.

        None if the candidates belong to several users: a user must not answer the question of another.
        """
        possible = [request for request in candidates if request.tool not in self._silent_tools]
        if not possible or len({request.user for request in possible}) > 1:
            return None
        likely = [request for request in possible if request.tool in self._asking_tools]
        return (likely or possible)[-1]

    def clear(self) -> list[CallRequest]:
        """Return the requests that were not started, for the next session."""
        unsent = [request for queue in self._waiting_requests.values() for request in queue if not request.is_over]
        self._deadlines.close()
        self._first_requests = {}
        self._waiting_requests = {}
        self._timers = {}
        return unsent

    def _begin_alone(self, request: CallRequest) -> None:
        self._first_requests[request.tool] = request
        self._timers[request.tool] = self._deadlines.start(ASK_TIMEOUT_SECONDS, partial(self._on_ask_timeout, request))
        self._begin(request)

    def _on_ask_timeout(self, request: CallRequest) -> None:
        """The request has neither asked nor ended: start all that wait for it."""
        tool = request.tool
        if self._first_requests.get(tool) is request:
            for waiting in self._waiting_requests.pop(tool, ()):
                self._begin(waiting)
            self._begin_next(request)

    def _begin_next(self, request: CallRequest) -> None:
        tool = request.tool
        if self._first_requests.get(tool) is not request:
            return
        del self._first_requests[tool]
        self._timers.pop(tool).cancel()
        waiting = self._waiting_requests.pop(tool, deque())
        # A tool that is silent lets all start; otherwise one starts alone, and the others wait for it.
        while waiting and (tool in self._silent_tools or tool not in self._first_requests):
            next_request = waiting.popleft()
            if next_request.is_over:
                continue
            if tool in self._silent_tools:
                self._begin(next_request)
            else:
                self._begin_alone(next_request)
        if waiting:
            self._waiting_requests[tool] = waiting
