"""Errors of model requests: what an SDK or a server said, as a `ModelError` that says whether to try again.

A request that cannot succeed is never retryable: a wrong key, a prompt that is too long, an empty account.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Mapping
from typing import Any

from surehand.agent.models.base import ModelError
from surehand.core.errors import Denied
from surehand.core.retry_after import parse_retry_after

_RETRYABLE_STATUSES = frozenset({408, 409, 429})
_PERMANENT_SERVER_STATUSES = frozenset({501, 505})
_PERMANENT_CODES = frozenset({"insufficient_quota", "billing_hard_limit_reached", "billing_error"})
_PERMANENT_TYPES = frozenset(
    {"invalid_request_error", "authentication_error", "permission_error", "not_found_error", "request_too_large"}
)
_CONTEXT_PHRASES = (
    "context_length_exceeded",
    "maximum context length",
    "context window",
    "context size",
    "context limit",
    "prompt is too long",
    "too many tokens",
)
_MAX_MESSAGE_CHARS = 500


class ContextTooLong(ModelError):
    """The conversation does not fit the model's context; a shorter one may."""


class StreamBroken(ModelError):
    """An answer that did not arrive whole: nothing of it is used. Another request may succeed."""

    def __init__(self, message: str) -> None:
        super().__init__(message, retryable=True)


def status_error(model: str, status: int, body: Any, headers: Mapping[str, str], redact: Redact) -> ModelError:
    """The error of an HTTP response with an error status."""
    fields = _error_fields(body)
    detail = redact(_shorten(fields.message or f"HTTP status {status}"))
    kind = f" ({fields.code or fields.type})" if fields.code or fields.type else ""
    message = f"{model} answered {status}{kind}: {detail}"
    if _is_context_error(fields, status):
        return ContextTooLong(f"{message} Shorten the conversation, or choose a model with a larger context.")
    if status in (401, 403):
        return ModelError(f"{message} Check the API key of this model.")
    return ModelError(message, retryable=_is_retryable(status, fields, headers), retry_after=read_retry_after(headers))


def event_error(model: str, body: Any, redact: Redact) -> ModelError:
    """The error of an error event in the middle of a stream."""
    fields = _error_fields(body)
    detail = redact(_shorten(fields.message or "no reason given"))
    message = f"{model} reported an error while it answered: {detail}"
    if _is_context_error(fields, 400):
        return ContextTooLong(message)
    is_permanent = fields.type in _PERMANENT_TYPES or fields.code in _PERMANENT_CODES
    return ModelError(message, retryable=not is_permanent)


def connection_error(model: str, error: BaseException, redact: Redact) -> ModelError:
    """The error of a connection that could not be made, or that broke before the answer began."""
    causes = _causes(error)
    detail = redact(_shorten(str(causes[-1]) or type(causes[-1]).__name__))
    # A certificate or an address that is refused now is refused again.
    is_retryable = not any(isinstance(cause, (ssl.SSLCertVerificationError, Denied)) for cause in causes)
    return ModelError(f"The connection to {model} failed: {detail}", retryable=is_retryable)


def timeout_error(model: str, idle_timeout: float) -> ModelError:
    """The error of a server that sent nothing of its answer for too long."""
    return ModelError(f"{model} sent nothing of its answer for {idle_timeout:g} seconds.", retryable=True)


def read_retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds to wait before the next request, if a response asks for that."""
    try:
        return max(float(headers["retry-after-ms"]) / 1000, 0.0)
    except (KeyError, ValueError):
        pass
    return parse_retry_after(headers.get("retry-after") or "")


Redact = Callable[[str], str]


class _ErrorFields:
    """`type`, `code` and `message` of an error body, which servers nest in different ways."""

    def __init__(self, type: str, code: str, message: str) -> None:
        self.type = type
        self.code = code
        self.message = message


def _error_fields(body: Any) -> _ErrorFields:
    if isinstance(body, str):
        return _ErrorFields("", "", body)
    if not isinstance(body, Mapping):
        return _ErrorFields("", "", "")
    error = body.get("error")
    if isinstance(error, str):
        return _ErrorFields("", "", error)
    fields = error if isinstance(error, Mapping) else body
    return _ErrorFields(_text(fields.get("type")), _text(fields.get("code")), _text(fields.get("message")))


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _is_context_error(fields: _ErrorFields, status: int) -> bool:
    if status not in (400, 413, 422):
        return False
    text = f"{fields.code} {fields.message}".lower()
    return any(phrase in text for phrase in _CONTEXT_PHRASES)


def _is_retryable(status: int, fields: _ErrorFields, headers: Mapping[str, str]) -> bool:
    if fields.code in _PERMANENT_CODES or fields.type in _PERMANENT_CODES:
        return False
    advice = headers.get("x-should-retry")  # the providers' own servers know best
    if advice == "false":
        return False
    return status in _RETRYABLE_STATUSES or (status >= 500 and status not in _PERMANENT_SERVER_STATUSES)


def _causes(error: BaseException) -> list[BaseException]:
    """The error and its causes, outermost first."""
    causes = [error]
    while (cause := causes[-1].__cause__ or causes[-1].__context__) is not None and cause not in causes:
        causes.append(cause)
    return causes


def _shorten(message: str) -> str:
    words = " ".join(message.split())
    return words if len(words) <= _MAX_MESSAGE_CHARS else f"{words[:_MAX_MESSAGE_CHARS]}..."
