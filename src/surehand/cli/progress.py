"""ProgressDisplay: a spinner or a progress bar on the terminal for each running call."""

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
from surehand.runtime.runtime import Runtime

DISPLAY_DELAY_SECONDS = 0.2
"""Delay before anything is shown: most calls are faster, and a flash would only distract."""


class ProgressDisplay:
    """An event listener that draws running calls on stderr, and removes them when they end."""

    def __init__(self) -> None:
        console = create_console(sys.stderr)
        # Narrower than the terminal: a `^C` that it echoes at the edge would wrap to a line that is never erased.
        message_column = Column(no_wrap=True, overflow="ellipsis", max_width=max(console.width - 48, 20))
        self._progress = Progress(
            SpinnerColumn(),
            _MessageColumn(message_column, self._attempt),
            _PercentageBarColumn(),
            TimeElapsedColumn(),
            console=console,
            transient=True,
        )
        self._task_ids: dict[str, TaskID] = {}
        self._runtime: Runtime | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._is_drawing = False
        self._is_paused = False

    def follow(self, runtime: Runtime) -> None:
        """Draw the calls of a runtime."""
        self._runtime = runtime
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
                    completed = min(max(event.fraction, 0.0), 1.0)
                    self._progress.update(self._task_ids[call_id], total=1.0, completed=completed)
                self._start_drawing()
            case CallEnded(call_id=call_id) if call_id in self._task_ids:
                self._progress.remove_task(self._task_ids.pop(call_id))

    def _attempt(self, call_id: str) -> int:
        # rich draws in a thread of its own, while the event loop may change what runs: `running_calls` is a copy.
        running = [] if self._runtime is None else self._runtime.running_calls()
        return next((each.attempt for each in running if each.assigned_id == call_id), 1)

    def _set_message(self, call_id: str, message: str | None) -> None:
        if message and call_id in self._task_ids:
            self._progress.update(self._task_ids[call_id], description=message)

    def _start_drawing(self) -> None:
        if not self._is_drawing and not self._is_paused and self._task_ids:
            self._is_drawing = True
            self._progress.start()

    def close(self) -> None:
        """Remove the display."""
        if self._timer is not None:
            self._timer.cancel()
        self._stop_drawing()

    def _stop_drawing(self) -> None:
        if self._is_drawing:
            self._is_drawing = False
            self._progress.stop()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """A context in which nothing is drawn, so that a prompt can use the terminal."""
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
    """The tool's name, its attempt after the first, and its last message."""

    def __init__(self, column: Column, attempt: Callable[[str], int]) -> None:
        super().__init__(column)
        self._attempt = attempt

    def render(self, task: Task) -> Text:
        attempt = self._attempt(task.fields["call_id"])
        details = [f"attempt {attempt}" if attempt > 1 else "", to_one_line(task.description)]
        return Text.assemble((str(task.fields["tool"]), "cyan"), *(f"  {each}" for each in details if each))


class _PercentageBarColumn(ProgressColumn):
    """A progress bar with its percentage, for calls that report a fraction."""

    def __init__(self) -> None:
        super().__init__()
        self._bar = BarColumn(bar_width=24)

    def render(self, task: Task) -> RenderableType:
        if task.total is None:
            return Text()
        row = Table.grid(padding=(0, 1))
        row.add_row(self._bar(task), f"{task.percentage:>3.0f}%")
        return row
