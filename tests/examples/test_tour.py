"""The tour, as a pipe and as a person at a terminal see it."""

import codecs
import os
import pty
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from select import select

import pytest

pytestmark = pytest.mark.timeout(80)  # some of these have much to do, and a busy machine takes its time

TOUR = Path(__file__).parents[2] / "examples" / "tour.py"
SOON = 20.0
"""Seconds within which what has to be shown is shown."""


class Terminal:
    """The tour on a terminal of its own: waits for a text, and types."""

    def __init__(self, process: subprocess.Popen[bytes], screen: int) -> None:
        self.process, self._screen = process, screen
        self.shown = ""
        self._decode = codecs.getincrementaldecoder("utf-8")().decode  # a character may come in two parts

    def until(self, text: str, seconds: float = SOON) -> str:
        """What was shown up to and with the text, since the last time."""
        if not self._shows(text, seconds):
            pytest.fail(f"{text!r} was not shown, only: {self.shown}")
        before, _, self.shown = self.shown.partition(text)
        return before + text

    def _shows(self, text: str, seconds: float) -> bool:
        end = time.monotonic() + seconds
        while text not in self.shown:
            if not select([self._screen], [], [], max(end - time.monotonic(), 0.0))[0]:
                return False
            try:
                self.shown += self._decode(os.read(self._screen, 65_536))
            except OSError:  # the other side of the terminal is closed
                return False
        return True

    def interrupt(self) -> str:
        """Ctrl-C; again where it came in the very moment between showing a question and waiting for its answer."""
        for _ in range(3):
            self.process.send_signal(signal.SIGINT)
            if self._shows("Goodbye.", 5.0):
                break
        return self.until("Goodbye.", 0.0)

    def type(self, keys: str) -> None:
        os.write(self._screen, keys.encode())


@contextmanager
def on_a_terminal() -> Iterator[Terminal]:
    screen, inner = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, str(TOUR)], stdin=inner, stdout=inner, stderr=inner, start_new_session=True
    )
    os.close(inner)
    try:
        yield Terminal(process, screen)
        assert process.wait(SOON) == 0
    finally:
        process.kill()
        process.wait()
        os.close(screen)


def test_without_a_terminal_every_stop_is_visited_once():
    run = subprocess.run([sys.executable, str(TOUR)], input="", capture_output=True, text=True, check=True)

    assert run.stderr == ""
    for shown in (
        "= Done: 42",
        "`c` is not a parameter",
        "count_words waits in the queue 'desk', place 2",
        "survey: 75% place 3",
        "waits for approval: Transfer 250 to Ada?",
        "= Done: Sent 120 to Ada.",
        "= Done: Tea.",
        "It took 3 attempts.",
        "size_limit_exceeded",
        "725\t12:04 all is well",
    ):
        assert run.stdout.count(shown) == 1, shown


def test_a_person_edits_approves_and_rejects():
    with on_a_terminal() as terminal:
        terminal.until("to leave? [1] ")
        terminal.type("4\n")
        terminal.until("e(dit)? [e] ")
        terminal.type("e\n")
        terminal.until("[120] ")
        terminal.type("lots\n")
        assert "unable to parse string as a number" in terminal.until("e(dit)? [e] ")
        terminal.type("y\n")
        assert "Sent 250 to Ada." in terminal.until("to leave? [1] ")

        terminal.type("4\n")
        terminal.until("e(dit)? [e] ")
        terminal.type("n\n")
        assert "rejected by the user: not today" in terminal.until("to leave? [1] ")

        terminal.type("99\n")
        assert "'99' is not on the menu" in terminal.until("to leave? [1] ")
        terminal.type("q\n")
        terminal.until("Goodbye.")


@pytest.mark.parametrize("leave", ["ctrl-c", "ctrl-d"])
def test_a_person_leaves_at_any_question(leave):
    with on_a_terminal() as terminal:
        terminal.until("to leave? [1] ")
        terminal.type("5\n")
        terminal.until("Tea or coffee? [Tea.] ")
        if leave == "ctrl-c":
            shown = terminal.interrupt()
        else:
            terminal.type("\x04")
            shown = terminal.until("Goodbye.")
        assert "Traceback" not in shown


def test_a_person_interrupts_a_running_tool():
    with on_a_terminal() as terminal:
        terminal.until("to leave? [1] ")
        terminal.type("3\n")
        terminal.until("place 1")
        assert "Traceback" not in terminal.interrupt()
