"""Errors of the package: `ToolError` and its subclasses are written for the model, `DefinitionError` for developers.

A handler raises a `ToolError`; the runtime turns it into a `Failed` outcome with the same failure code.
"""

from __future__ import annotations

from typing import Any, Literal, get_args

FailureCode = Literal[
    "failed",
    "not_found",
    "invalid_arguments",
    "denied",
    "rejected",
    "timed_out",
    "cancelled",
    "unavailable",
    "rate_limited",
    "over_budget",
    "too_large",
    "expired",
    "interrupted",
    "unknown_effect",
    "limit_exceeded",
    "conflict",
    "crashed",
]
FAILURE_CODES: frozenset[str] = frozenset(get_args(FailureCode))


class ToolError(Exception):
    """An error for the model. The message says what happened, with the value, and what to do next."""

    code: FailureCode = "failed"
    executed = True
    """Whether the handler may have had an effect before the error was raised."""
    tool: str = ""
    """The name of the tool whose outcome raised it in `unwrap()`; empty for an error of a handler's own."""

    def __init__(
        self, message: str = "", *, code: FailureCode | None = None, data: Any = None, retry_after: float | None = None
    ) -> None:
        super().__init__(message)
        if code is not None:
            if code not in FAILURE_CODES:
                raise ValueError(f"{code!r} is not a failure code. Use one of: {', '.join(sorted(FAILURE_CODES))}.")
            self.code = code
        self.data = data
        self.retry_after = retry_after
        """Seconds to wait before another attempt, if the service sent them."""


class NotFound(ToolError):
    """The requested thing does not exist."""

    code = "not_found"


class InvalidArguments(ToolError):
    """The arguments do not fit the tool's parameters."""

    code = "invalid_arguments"


class Denied(ToolError):
    """The caller may not do this."""

    code = "denied"


class TimedOut(ToolError):
    """The work took longer than its time limit."""

    code = "timed_out"


class Unavailable(ToolError):
    """A service that the tool needs cannot be reached. The runtime retries a repeatable tool."""

    code = "unavailable"


class NotStarted(Unavailable):
    """The handler could not start, because something that it needs is not available. It had no effect."""

    executed = False


class RateLimited(ToolError):
    """The service refuses further requests for now; `retry_after` says for how long."""

    code = "rate_limited"


class StillPending(ToolError):
    """`unwrap()` was called on a Pending outcome, which has no value yet."""

    code = "interrupted"


_CLASSES_WITH_CODE: tuple[type[ToolError], ...] = (
    NotFound,
    InvalidArguments,
    Denied,
    TimedOut,
    Unavailable,
    RateLimited,
)
_CLASS_BY_CODE = {cls.code: cls for cls in _CLASSES_WITH_CODE}


def error_class_for(code: FailureCode) -> type[ToolError]:
    """The error class of a failure code; `ToolError` for codes that have no class of their own."""
    return _CLASS_BY_CODE.get(code, ToolError)


def with_fix(problem: str, fix: str) -> str:
    """A problem as a sentence, followed by how to fix it, if that is known."""
    if not fix:
        return problem
    end = "" if problem.endswith((".", "!", "?")) else "."
    return f"{problem}{end} Fix: {fix}"


class DefinitionError(Exception):
    """A mistake in a definition or in an option, for the developer: the place, the problem and how to fix it."""

    def __init__(self, problem: str, *, fix: str = "", where: str = "") -> None:
        self.problem = problem
        self.fix = fix
        self.where = where
        super().__init__(f"{where + ': ' if where else ''}{with_fix(problem, fix)}")

    @classmethod
    def combine(cls, errors: list[DefinitionError]) -> DefinitionError:
        """One error that lists all the given errors, so that a developer sees every mistake at once."""
        if len(errors) == 1:
            return errors[0]
        return cls(f"{len(errors)} tools cannot be used:\n" + "\n".join(f"  - {error}" for error in errors))
