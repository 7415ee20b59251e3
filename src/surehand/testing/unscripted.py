"""`Unscripted`: raised when a test ends that used something which was neither scripted nor recorded."""

from __future__ import annotations

from types import TracebackType
from typing import Self


class Unscripted(AssertionError):
    """A test used something that was neither scripted nor recorded."""


class UnscriptedGuard:
    """A context manager that raises `Unscripted` at its end if anything was missing."""

    def __init__(self) -> None:
        self.missing: list[str] = []
        """A message for each missing script or recording."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self.missing:
            return
        message = "\n".join(dict.fromkeys(self.missing))
        if error is None:
            raise Unscripted(message)
        error.add_note(message)  # probably the reason of the failure
