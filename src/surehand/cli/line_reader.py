"""TerminalLineReader: reads lines of a terminal while the event loop goes on, with readline's editing and history."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, NamedTuple

try:
    import readline
    import termios
except ImportError:  # Windows has neither: lines cannot be edited there
    readline = termios = None  # type: ignore[assignment]


class _Request(NamedTuple):
    prompt: str
    initial_text: str


class TerminalLineReader:
    """Reads one line at a time in a thread of its own.

    A read that is no longer waited for cannot be taken back: the next question takes it over, and gets its line.
    """

    def __init__(self, on_line: Callable[[str], None]) -> None:
        """`on_line` is given the lines that no question waits for."""
        self._on_line = on_line
        self._loop = asyncio.get_running_loop()
        self._requests: SimpleQueue[_Request] = SimpleQueue()
        self._is_reading = False
        self._waiter: asyncio.Future[str | None] | None = None
        self._terminal_state: list[Any] | None = None
        self._thread = threading.Thread(target=self._read_lines, name="surehand-line-reader", daemon=True)

    def start(self) -> None:
        """Start the thread, and remember the state of the terminal."""
        if termios is not None:
            self._terminal_state = termios.tcgetattr(sys.stdin)
        self._thread.start()

    def close(self) -> None:
        """Restore the terminal: readline changes it for as long as it reads."""
        if self._terminal_state is not None:
            termios.tcsetattr(sys.stdin, termios.TCSADRAIN, self._terminal_state)

    async def ask(self, question: str, initial_text: str = "") -> str | None:
        """The line that the person types after a question; None at the end of input."""
        self._waiter = self._loop.create_future()
        if self._is_reading:
            sys.stdout.write(question)
            sys.stdout.flush()
        else:
            self._begin(question, initial_text)
        try:
            return await self._waiter
        finally:
            self._waiter = None

    def ask_from_thread(self, question: str, initial_text: str = "") -> str | None:
        """The same for code that runs in another thread, such as a review: its answers are not kept in the history."""
        line = asyncio.run_coroutine_threadsafe(self.ask(question, initial_text), self._loop).result()
        if line:
            _forget_last_line(line)
        return line

    def listen(self) -> None:
        """Read a line without a question; it goes to `on_line`."""
        if not self._is_reading:
            self._begin("", "")

    def _begin(self, prompt: str, initial_text: str) -> None:
        self._is_reading = True
        self._requests.put(_Request(prompt, initial_text))

    def _read_lines(self) -> None:
        while True:
            request = self._requests.get()
            line = _read_line(request)
            try:
                self._loop.call_soon_threadsafe(self._deliver, line)
            except RuntimeError:  # the loop is closed: the command has ended
                return

    def _deliver(self, line: str | None) -> None:
        self._is_reading = False
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(line)
        elif line is not None:
            self._on_line(line)


def _forget_last_line(line: str) -> None:
    """Remove a line from the history, if it is the last one."""
    if readline is not None:
        last = readline.get_current_history_length()
        if last and readline.get_history_item(last) == line:
            readline.remove_history_item(last - 1)  # the one function of readline that counts from 0


def _read_line(request: _Request) -> str | None:
    if readline is not None:
        readline.set_startup_hook(
            (lambda: readline.insert_text(request.initial_text)) if request.initial_text else None
        )
    try:
        return input(request.prompt)
    except EOFError:
        return None
