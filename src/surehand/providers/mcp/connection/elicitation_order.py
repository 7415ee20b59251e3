"""Turnstile: in the older protocol a server that asks does not say for which call; so calls that may ask go singly."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING

from surehand.core.clock import Clock, Deadline, Deadlines

if TYPE_CHECKING:
    from surehand.providers.mcp.connection.request import CallRequest

ASK_TIMEOUT_SECONDS = 1.0
"""Seconds that a tool has to ask when it is first called; most ask at once."""


class ElicitationOrder:
    """Calls of one tool begin one after the other until it is known that it does not ask.

    Without it, answers would still go to the right questions, but a question might be shown with the wrong call.
    """

    def __init__(self, begin: Callable[[CallRequest], None]) -> None:
        self._begin = begin
        self._silent_tools: set[str] = set()
        self._asking_tools: set[str] = set()
        self._first_requests: dict[str, CallRequest] = {}
        """By tool: the call that may still ask."""
        self._waiting_requests: dict[str, deque[CallRequest]] = {}
        self._deadlines = Deadlines(Clock())
        self._timers: dict[str, Deadline] = {}

    def submit(self, request: CallRequest) -> None:
        """Begin now, or when those before it have asked or ended."""
        if request.tool in self._silent_tools:
            self._begin(request)
        elif request.tool in self._first_requests:
            self._waiting_requests.setdefault(request.tool, deque()).append(request)
        else:
            self._begin_alone(request)

    def note_question(self, request: CallRequest) -> None:
        """It has asked: the next may begin."""
        self._silent_tools.discard(request.tool)
        self._asking_tools.add(request.tool)
        self._begin_next(request)

    def note_end(self, request: CallRequest) -> None:
        """It has ended: if it never asked, its tool is taken to be a quiet one."""
        if request.is_answered and request.tool not in self._asking_tools:
            self._silent_tools.add(request.tool)
        if request.tool in self._first_requests:
            self._begin_next(request)

    def find_asking_request(self, candidates: Iterable[CallRequest]) -> CallRequest | None:
        """Whose question it is, among the calls that have none open: a tool that is known to ask, or else the last.

        None where that could be another user's: nobody answers for somebody else.
        """
        waiting = [request for request in candidates if request.tool not in self._silent_tools]
        if not waiting or len({request.user for request in waiting}) > 1:
            return None
        known = [request for request in waiting if request.tool in self._asking_tools]
        return (known or waiting)[-1]

    def clear(self) -> list[CallRequest]:
        """Those that have not begun, for whoever begins anew."""
        left = [request for held in self._waiting_requests.values() for request in held if not request.is_over]
        self._deadlines.close()
        self._first_requests, self._waiting_requests, self._timers = {}, {}, {}
        return left

    def _begin_alone(self, request: CallRequest) -> None:
        self._first_requests[request.tool] = request
        self._timers[request.tool] = self._deadlines.start(ASK_TIMEOUT_SECONDS, partial(self._on_ask_timeout, request))
        self._begin(request)

    def _on_ask_timeout(self, request: CallRequest) -> None:
        """It neither asks nor ends: those that wait for it begin, all of them."""
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
        held = self._waiting_requests.pop(tool, deque())
        while held and (tool in self._silent_tools or tool not in self._first_requests):
            waiting = held.popleft()
            if not waiting.is_over:
                self._begin(waiting) if tool in self._silent_tools else self._begin_alone(waiting)
        if held:
            self._waiting_requests[tool] = held
