"""Misses: what a test met and had not prepared; a test cannot end without hearing of it."""

from __future__ import annotations

from types import TracebackType
from typing import Self


class Unscripted(AssertionError):
    """A test met something that it had neither scripted nor recorded."""


class UnscriptedGuard:
    """Used with `with`: leaving the block raises `Unscripted` if anything was missing."""

    def __init__(self) -> None:
        self.missing: list[str] = []
        """What was asked for and not there, in words."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self.missing:
            return
        told = "\n".join(dict.fromkeys(self.missing))
        if error is None:
            raise Unscripted(told)
        error.add_note(told)  # most likely what the test failed for
