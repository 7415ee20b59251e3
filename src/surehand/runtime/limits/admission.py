"""Admission to a queue: bounds how many calls wait, and refuses those that would wait too long for their caller.

Under more load than a queue can serve, a call that begins when its caller's time is nearly up wastes its slot. Both
kinds of queues use it; the time that a call would wait is estimated from how fast the queue served others.
"""

from __future__ import annotations

from dataclasses import dataclass

DEFAULT_MAX_WAITING = 10_000
"""Calls that may wait in a queue which does not say how many."""
MIN_SAMPLE = 4
"""Served calls from which an estimate is made."""
MIN_WINDOW = 64
"""Served calls that an estimate looks back on, at least."""
MAX_RETRY_AFTER_SECONDS = 300.0
UNKNOWN_RETRY_AFTER_SECONDS = 1.0
"""What a refused call is told while the queue has served no call that had to wait."""


@dataclass(frozen=True, slots=True)
class QueueRefusal:
    """Why a call is not let into a queue."""

    problem: str
    waiting: int
    """Calls that wait already."""
    retry_after: float
    """Seconds after which there should be room."""


class QueueAdmission:
    """Decides on one queue's calls that have to wait, and measures how fast waiting calls are served."""

    def __init__(self, max_waiting: int, concurrent: int | None) -> None:
        self.max_waiting = max_waiting
        self._concurrent = concurrent
        self._served_count = 0.0
        self._busy_seconds = 0.0
        """Seconds in which calls waited, up to `_busy_since`."""
        self._busy_since: float | None = None
        """When the first of the calls that wait now came; None if none waits."""

    def begin_busy_period(self, now: float) -> None:
        """Note that a call has to wait."""
        if self._busy_since is None:
            self._busy_since = now

    def end_busy_period(self, now: float) -> None:
        """Note that no call waits any more."""
        if self._busy_since is not None:
            self._busy_seconds += now - self._busy_since
            self._busy_since = None

    def count_served(self, now: float) -> None:
        """Note that a waiting call got its slot."""
        self._served_count += 1
        if self._served_count > 2 * max(MIN_WINDOW, 2 * (self._concurrent or 0)):  # forget the older half
            self._busy_seconds = self._total_busy_seconds(now) / 2
            self._busy_since = None if self._busy_since is None else now
            self._served_count /= 2

    def refusal(self, *, ahead: int, now: float, seconds_left: float | None = None) -> QueueRefusal | None:
        """Why a call may not wait behind `ahead` others; None if it may.

        Args:
            seconds_left: how long the caller waits at most for the outcome, if it said so.
        """
        interval = self._seconds_per_call(now)
        if ahead >= self.max_waiting:
            drained = UNKNOWN_RETRY_AFTER_SECONDS if interval is None else ahead * interval
            problem = f"calls waiting there: {ahead}, at most {self.max_waiting}"
            return QueueRefusal(problem, ahead, _retry_after(drained))
        # As many calls as there are slots may always wait: they show how fast the queue is now.
        if seconds_left is None or interval is None or ahead < (self._concurrent or 1):
            return None
        wait = (ahead + 1) * interval
        run_time = (self._concurrent or 0) * interval
        # Half of what is left: an estimate is not exact, and a call that begins too late wastes its slot.
        allowed = max(seconds_left - run_time, 0.0) / 2
        if wait <= allowed:
            return None
        problem = f"it would wait about {wait:.2g} s there, too long for its caller's time limit"
        return QueueRefusal(problem, ahead, _retry_after(wait - allowed))

    def _seconds_per_call(self, now: float) -> float | None:
        """Seconds from one served call to the next while calls wait; None if too few were served."""
        if self._served_count < max(MIN_SAMPLE, (self._concurrent or 0) // 2):
            return None
        return self._total_busy_seconds(now) / self._served_count

    def _total_busy_seconds(self, now: float) -> float:
        return self._busy_seconds + (0.0 if self._busy_since is None else now - self._busy_since)


def _retry_after(seconds: float) -> float:
    return round(min(max(seconds, 0.001), MAX_RETRY_AFTER_SECONDS), 3)
