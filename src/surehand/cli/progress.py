"""Progress: on a terminal, a spinner or a bar for each call that takes a while."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import RenderableType
from rich.progress import BarColumn, Progress, ProgressColumn, SpinnerColumn, Task, TaskID, TimeElapsedColumn
from rich.table import Column, Table
from rich.text import Text

from surehand.cli.formatting import create_console, to_one_line
from surehand.core.events import CallEnded, CallProgress, CallQueued, CallResumed, CallStarted, Event
from surehand.runtime.pipeline.invocation import Invocation
from surehand.runtime.runtime import Runtime

DISPLAY_DELAY_SECONDS = 0.2
"""Seconds before anything is shown: most calls are quicker, and a flash tells nobody anything."""


class ProgressDisplay:
    """A listener that draws calls on stderr while they run, and nothing that stays."""

    def __init__(self) -> None:
        screen = create_console(sys.stderr)
        # Short of the edge: the `^C` that a terminal shows there would begin a line that nobody takes away.
        message = Column(no_wrap=True, overflow="ellipsis", max_width=max(screen.width - 48, 20))
        self._progress = Progress(
            SpinnerColumn(),
            _MessageColumn(message, self._attempt),
            _PercentageBarColumn(),
            TimeElapsedColumn(),
            console=screen,
            transient=True,
        )
        self._task_ids: dict[str, TaskID] = {}
        self._running_invocations: set[Invocation] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._is_drawing = self._is_paused = False

    def follow(self, runtime: Runtime) -> None:
        """Draw the calls of this runtime."""
        self._running_invocations = runtime.services.running_calls
        runtime.listen(self)

    def __call__(self, event: Event) -> None:
        match event:
            case CallStarted(call_id=call_id, tool=tool) | CallResumed(call_id=call_id, tool=tool):
                if call_id not in self._task_ids:
                    self._task_ids[call_id] = self._progress.add_task("", total=None, tool=tool, call_id=call_id)
                if self._timer is None:
                    self._timer = asyncio.get_running_loop().call_later(DISPLAY_DELAY_SECONDS, self._start_drawing)
            case CallQueued(call_id=call_id):
                self._set_message(call_id, f"waits in the queue {event.queue}, number {event.position}")
            case CallProgress(call_id=call_id):
                self._set_message(call_id, event.message or event.title)
                if event.fraction is not None and call_id in self._task_ids:
                    self._progress.update(
                        self._task_ids[call_id], total=1.0, completed=min(max(event.fraction, 0.0), 1.0)
                    )
                self._start_drawing()
            case CallEnded(call_id=call_id) if call_id in self._task_ids:
                self._progress.remove_task(self._task_ids.pop(call_id))

    def _attempt(self, call_id: str) -> int:
        # Asked for by the thread that draws: a copy, because calls come and go meanwhile.
        return next((each.attempt for each in list(self._running_invocations) if each.assigned_id == call_id), 1)

    def _set_message(self, call_id: str, message: str | None) -> None:
        if message and call_id in self._task_ids:
            self._progress.update(self._task_ids[call_id], description=message)

    def _start_drawing(self) -> None:
        if not self._is_drawing and not self._is_paused and self._task_ids:
            self._is_drawing = True
            self._progress.start()

    def close(self) -> None:
        """Take everything off the screen."""
        if self._timer is not None:
            self._timer.cancel()
        self._stop_drawing()

    def _stop_drawing(self) -> None:
        if self._is_drawing:
            self._is_drawing = False
            self._progress.stop()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Leave the screen to somebody else."""
        self._stop_drawing()
        self._is_paused = True
        try:
            yield
        finally:
            self._is_paused = False
            if self._timer is not None:
                self._timer.cancel()
            self._timer = asyncio.get_running_loop().call_later(DISPLAY_DELAY_SECONDS, self._start_drawing)


class _MessageColumn(ProgressColumn):
    """The tool, which attempt it is after the first, and what it said last."""

    def __init__(self, column: Column, attempt: Callable[[str], int]) -> None:
        super().__init__(column)
        self._attempt = attempt

    def render(self, task: Task) -> Text:
        attempt, message = self._attempt(task.fields["call_id"]), to_one_line(task.description)
        words = [str(task.fields["tool"]), f"attempt {attempt}" if attempt > 1 else "", message]
        name, *others = filter(None, words)
        return Text.assemble((name, "cyan"), *(f"  {word}" for word in others))


class _PercentageBarColumn(ProgressColumn):
    """A bar with its percentage, for calls that say how far they are."""

    def __init__(self) -> None:
        super().__init__()
        self._bar = BarColumn(bar_width=24)

    def render(self, task: Task) -> RenderableType:
        if task.total is None:
            return Text()
        row = Table.grid(padding=(0, 1))
        row.add_row(self._bar(task), f"{task.percentage:>3.0f}%")
        return row
