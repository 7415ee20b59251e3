"""Exit codes, and the errors that end a command."""

from __future__ import annotations

import os
import sys

EXIT_DONE, EXIT_FAILED, EXIT_USAGE, EXIT_PENDING, EXIT_REFUSED, EXIT_NOT_FOUND, EXIT_INTERRUPTED = 0, 1, 2, 3, 4, 5, 130


class CommandExit(Exception):
    """Ends the command with an exit code, after what had to be said was said."""

    def __init__(self, code: int, message: str = "") -> None:
        super().__init__(message)
        self.code, self.message = code, message


def supports_colour(stream: object) -> bool:
    """Whether a stream shows colour: a terminal, and nobody asked for none."""
    return bool(getattr(stream, "isatty", bool)()) and "NO_COLOR" not in os.environ


def print_problem(message: str, *, prefix: str = "error", ansi_colour: int = 31) -> None:
    """Tell a person on stderr, in red where there is colour."""
    label = f"{prefix}:"
    if supports_colour(sys.stderr):
        label = f"\x1b[{ansi_colour}m{label}\x1b[0m"
    sys.stderr.write(f"{label} {message}\n")
    sys.stderr.flush()
