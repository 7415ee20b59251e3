"""Deadlines: one timer for all the calls that have the same time limit, because they end in the order they began."""

from __future__ import annotations

from collections.abc import Callable

from toolwright.core.clock import Clock, Timer


class Deadline:
    """One call's time limit."""

    __slots__ = ("at", "line", "passed")

    def __init__(self, line: _Line, at: float, passed: Callable[[], object]) -> None:
        self.line, self.at, self.passed = line, at, passed

    def cancel(self) -> None:
        """The call ended in time."""
        self.line.running.pop(self, None)


class _Line:
    """The deadlines of one length, first to expire first."""

    def __init__(self, clock: Clock, seconds: float) -> None:
        self._clock, self._seconds = clock, seconds
        self.running: dict[Deadline, None] = {}
        self.timer: Timer | None = None

    def add(self, passed: Callable[[], object]) -> Deadline:
        deadline = Deadline(self, self._clock.now() + self._seconds, passed)
        self.running[deadline] = None
        if self.timer is None:
            self.timer = self._clock.call_later(self._seconds, self._expire)
        return deadline

    def stop(self) -> None:
        """Nobody is left to wake."""
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None

    def _expire(self) -> None:
        self.timer, now = None, self._clock.now()
        for deadline in list(self.running):
            if deadline.at > now:
                self.timer = self._clock.call_later(deadline.at - now, self._expire)
                return
            del self.running[deadline]
            deadline.passed()


class Deadlines:
    """All the deadlines of a runtime."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lines: dict[float, _Line] = {}

    def start(self, seconds: float, passed: Callable[[], object]) -> Deadline:
        """Call this after so many seconds, unless cancelled."""
        if (line := self._lines.get(seconds)) is None:
            self._drop_unused()
            line = self._lines[seconds] = _Line(self._clock, seconds)
        return line.add(passed)

    def _drop_unused(self) -> None:
        """Limits that depend on arguments come in endless lengths: keep only those in use."""
        if len(self._lines) > 64:
            for line in self._lines.values():
                if not line.running:
                    line.stop()
            self._lines = {length: line for length, line in self._lines.items() if line.running}

    def close(self) -> None:
        """Nothing expires any more."""
        for line in self._lines.values():
            line.stop()
        self._lines.clear()
