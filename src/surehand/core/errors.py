"""Errors, each with its reader: `ToolError` is for the model, `DefinitionError` for the developer."""

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
    """Raised by a handler to tell the model what happened, with the value, and what to do next."""

    code: FailureCode = "failed"
    executed = True
    """Whether the handler may have run when this was raised."""

    def __init__(
        self, message: str = "", *, code: FailureCode | None = None, data: Any = None, retry_after: float | None = None
    ) -> None:
        super().__init__(message)
        if code is not None:
            if code not in FAILURE_CODES:
                raise ValueError(f"{code!r} is no failure code. Use one of: {', '.join(sorted(FAILURE_CODES))}.")
            self.code = code
        self.data = data
        self.retry_after = retry_after
        """Seconds to wait before another attempt, where the other side said so."""


class NotFound(ToolError):
    """What was asked for does not exist."""

    code = "not_found"


class InvalidArguments(ToolError):
    """The arguments do not fit the tool's parameters."""

    code = "invalid_arguments"


class Denied(ToolError):
    """The caller may not do this."""

    code = "denied"


class TimedOut(ToolError):
    """The work took longer than it may."""

    code = "timed_out"


class Unavailable(ToolError):
    """The other side cannot be reached now; a repeatable tool is tried again."""

    code = "unavailable"


class NotStarted(Unavailable):
    """What the handler needs to run is not there now."""

    executed = False


class RateLimited(ToolError):
    """The other side asks to slow down; `retry_after` says for how long."""

    code = "rate_limited"


class StillPending(ToolError):
    """`unwrap()` was asked for a value that a person, a browser or a webhook has yet to give."""

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
    """The class to raise and to catch for a code; most codes have none of their own."""
    return _CLASS_BY_CODE.get(code, ToolError)


class DefinitionError(Exception):
    """A tool is defined wrongly: says where, what, and how to mend it."""

    def __init__(self, problem: str, *, fix: str = "", where: str = "") -> None:
        self.problem, self.fix, self.where = problem, fix, where
        super().__init__(f"{where + ': ' if where else ''}{problem}{' Fix: ' + fix if fix else ''}")

    @classmethod
    def combine(cls, errors: list[DefinitionError]) -> DefinitionError:
        """One error that lists every mistake, so that none hides behind the first."""
        if len(errors) == 1:
            return errors[0]
        return cls(f"{len(errors)} tools cannot be used:\n" + "\n".join(f"  - {error}" for error in errors))
