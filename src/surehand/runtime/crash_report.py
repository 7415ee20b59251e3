"""Crash report: what a model is shown of an exception that nothing expected."""

from __future__ import annotations

from dataclasses import dataclass

from surehand.core.invoke import RedactText, failed_from_crash
from surehand.core.outcome import Failed


@dataclass(frozen=True, slots=True)
class CrashReport:
    """How a runtime reports crashes: with the first line of the exception or its type alone, without known secrets."""

    redact_secrets: RedactText | None = None
    """Replaces the secrets that were given to the runtime; None if none were."""
    shows_details: bool = True

    def redact(self, text: str) -> str:
        """The text without known secrets."""
        return self.redact_secrets(text) if self.redact_secrets is not None else text

    def failure(self, name: str, error: BaseException) -> Failed:
        """Log the exception of a tool, or of a part of this package, and turn it into an outcome."""
        return failed_from_crash(name, error, redact=self.redact_secrets, crash_details=self.shows_details)
