"""Exit codes, and the errors that end a command."""

from __future__ import annotations

import os
import sys

DONE, FAILED, USAGE, PENDING, REFUSED, UNKNOWN, INTERRUPTED = 0, 1, 2, 3, 4, 5, 130


class Ended(Exception):
    """Ends the command with an exit code, after what had to be said was said."""

    def __init__(self, code: int, problem: str = "") -> None:
        super().__init__(problem)
        self.code, self.problem = code, problem


def colour_on(stream: object) -> bool:
    """Whether a stream shows colour: a terminal, and nobody asked for none."""
    return bool(getattr(stream, "isatty", bool)()) and "NO_COLOR" not in os.environ


def complain(problem: str, *, kind: str = "error", colour: int = 31) -> None:
    """Tell a person on stderr, in red where there is colour."""
    label = f"{kind}:"
    if colour_on(sys.stderr):
        label = f"\x1b[{colour}m{label}\x1b[0m"
    sys.stderr.write(f"{label} {problem}\n")
    sys.stderr.flush()
