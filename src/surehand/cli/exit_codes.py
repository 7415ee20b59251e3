"""Exit codes of all commands, the exception that ends a command, and messages on stderr.

`main.py` imports this before anything else, so it imports nothing heavy.
"""

from __future__ import annotations

import os
import sys

EXIT_DONE = 0
EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_PENDING = 3
EXIT_REFUSED = 4
EXIT_NOT_FOUND = 5
EXIT_INTERRUPTED = 130
RED = 31
YELLOW = 33


class CommandExit(Exception):
    """Ends the command with an exit code and, unless empty, an error message."""

    def __init__(self, code: int, message: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.message = message


def supports_colour(stream: object) -> bool:
    """Whether to write colour: to a terminal, unless NO_COLOR is set."""
    return bool(getattr(stream, "isatty", bool)()) and "NO_COLOR" not in os.environ


def print_problem(message: str, *, prefix: str = "error", ansi_colour: int = RED) -> None:
    """Print a message for a person on stderr, after a coloured prefix."""
    label = f"{prefix}:"
    if supports_colour(sys.stderr):
        label = f"\x1b[{ansi_colour}m{label}\x1b[0m"
    sys.stderr.write(f"{label} {message}\n")
    sys.stderr.flush()
