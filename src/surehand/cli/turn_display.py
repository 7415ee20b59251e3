"""TurnDisplay: shows a turn of an agent as it happens, its text on stdout and its calls on stderr."""

from __future__ import annotations

import sys

from rich.text import Text

from surehand.cli.formatting import compact_json, create_console, to_one_line
from surehand.core.events import (
    CallEnded,
    CallPending,
    CallProgress,
    CallQueued,
    CallStarted,
    Event,
    ModelRetried,
    RunStarted,
    TextDelta,
)
from surehand.core.outcome import Done, Failed, Outcome, Pending
from surehand.core.sanitize import escape_unprintable

_MAX_SHOWN_CHARS = 300


class TurnDisplay:
    """Prints the events of a turn: text as it is written, and for each call what it does and what comes of it."""

    def __init__(self) -> None:
        self._console = create_console(sys.stderr)
        self._is_in_line = False
        """Whether the text has not ended its line."""
        self.text = ""
        """The text of the turn so far."""
        self._run_id: str | None = None
        """The run of the turn: what the agents write that it calls is shown as the outcomes of its calls."""
        self.ended_calls: list[str] = []
        """The calls of the turn that have ended, each with what came of it."""

    def __call__(self, event: Event) -> None:
        match event:
            case RunStarted(run_id=run_id):
                self._run_id = self._run_id or run_id
            case TextDelta(text=text):
                if event.run_id == self._run_id:
                    self._write_text(text)
            case ModelRetried(reason=reason):
                self._print_line("model", f"{reason} Trying again.", "yellow")
            case CallStarted(tool=tool, arguments=arguments):
                written = arguments if isinstance(arguments, str) else compact_json(arguments)
                self._print_line(tool, _shorten(written), "cyan")
            case CallQueued(tool=tool):
                self._print_line(tool, f"waits in the queue {event.queue}, number {event.position}", "dim")
            case CallProgress(tool=tool):
                self._print_line(tool, _progress_text(event), "dim")
            case CallPending(tool=tool, waiting_for=waiting_for):
                self._print_line(tool, f"waits for {waiting_for}", "yellow")
            case CallEnded(tool=tool, outcome=outcome) if not isinstance(outcome, Pending):
                text = _outcome_text(outcome)
                self.ended_calls.append(f"{tool}: {text}")
                self._print_line(tool, text, "green" if isinstance(outcome, Done) else "red")

    def _write_text(self, text: str) -> None:
        self.text += text
        sys.stdout.write(escape_unprintable(text))
        sys.stdout.flush()
        if text:
            self._is_in_line = not text.endswith("\n")

    def _print_line(self, subject: str, text: str, style: str) -> None:
        self.end_line()
        self._console.print(Text.assemble((f"[{subject}] ", style), escape_unprintable(text)), soft_wrap=True)

    def end_line(self) -> None:
        """Begin a new line, if the text has not ended its last one."""
        if self._is_in_line:
            self._is_in_line = False
            self.text += "\n"
            sys.stdout.write("\n")
            sys.stdout.flush()


def _progress_text(event: CallProgress) -> str:
    parts = [event.title or "", event.message or ""]
    if event.fraction is not None:
        parts.append(f"{min(max(event.fraction, 0.0), 1.0):.0%}")
    return to_one_line(" ".join(filter(None, parts)))


def _outcome_text(outcome: Outcome) -> str:
    if isinstance(outcome, Failed):
        return f"failed ({outcome.code}): {_shorten(outcome.message)}"
    return f"done: {_shorten(outcome.text)}"


def _shorten(text: str) -> str:
    line = to_one_line(text)
    return line if len(line) <= _MAX_SHOWN_CHARS else f"{line[:_MAX_SHOWN_CHARS]}..."
