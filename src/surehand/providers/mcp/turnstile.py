"""Turnstile: in the older protocol a server that asks does not say for which call; so calls that may ask go singly."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING

from surehand.core.clock import Clock, Deadline, Deadlines

if TYPE_CHECKING:
    from surehand.providers.mcp.request import Request

PATIENCE = 1.0
"""Seconds that a tool has to ask when it is first called; most ask at once."""


class Turnstile:
    """Calls of one tool begin one after the other until it is known that it does not ask.

    Without it, answers would still go to the right questions, but a question might be shown with the wrong call.
    """

    def __init__(self, begin: Callable[[Request], None]) -> None:
        self._begin = begin
        self._quiet: set[str] = set()
        self._asking: set[str] = set()
        self._first: dict[str, Request] = {}
        """By tool: the call that may still ask."""
        self._held: dict[str, deque[Request]] = {}
        self._deadlines = Deadlines(Clock())
        self._timers: dict[str, Deadline] = {}

    def enter(self, request: Request) -> None:
        """Begin now, or when those before it have asked or ended."""
        if request.tool in self._quiet:
            self._begin(request)
        elif request.tool in self._first:
            self._held.setdefault(request.tool, deque()).append(request)
        else:
            self._let(request)

    def asked(self, request: Request) -> None:
        """It has asked: the next may begin."""
        self._quiet.discard(request.tool)
        self._asking.add(request.tool)
        self._next(request)

    def ended(self, request: Request) -> None:
        """It has ended: if it never asked, its tool is taken to be a quiet one."""
        if request.answered and request.tool not in self._asking:
            self._quiet.add(request.tool)
        if request.tool in self._first:
            self._next(request)

    def meant(self, able: Iterable[Request]) -> Request | None:
        """Whose question it is, among the calls that have none open: a tool that is known to ask, or else the last.

        None where that could be another user's: nobody answers for somebody else.
        """
        waiting = [request for request in able if request.tool not in self._quiet]
        if not waiting or len({request.user for request in waiting}) > 1:
            return None
        known = [request for request in waiting if request.tool in self._asking]
        return (known or waiting)[-1]

    def clear(self) -> list[Request]:
        """Those that have not begun, for whoever begins anew."""
        left = [request for held in self._held.values() for request in held if not request.over]
        self._deadlines.close()
        self._first, self._held, self._timers = {}, {}, {}
        return left

    def _let(self, request: Request) -> None:
        self._first[request.tool] = request
        self._timers[request.tool] = self._deadlines.start(PATIENCE, partial(self._lapsed, request))
        self._begin(request)

    def _lapsed(self, request: Request) -> None:
        """It neither asks nor ends: those that wait for it begin, all of them."""
        tool = request.tool
        if self._first.get(tool) is request:
            for waiting in self._held.pop(tool, ()):
                self._begin(waiting)
            self._next(request)

    def _next(self, request: Request) -> None:
        tool = request.tool
        if self._first.get(tool) is not request:
            return
        del self._first[tool]
        self._timers.pop(tool).cancel()
        held = self._held.pop(tool, deque())
        while held and (tool in self._quiet or tool not in self._first):
            waiting = held.popleft()
            if not waiting.over:
                self._begin(waiting) if tool in self._quiet else self._let(waiting)
        if held:
            self._held[tool] = held
