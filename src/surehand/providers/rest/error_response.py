"""Error responses as `ToolError`s: the failure code of a status, and the useful part of the body for the model."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from html import unescape
from typing import Any

from surehand.core.content import to_text
from surehand.core.errors import FailureCode, ToolError
from surehand.core.retry_after import parse_retry_after
from surehand.core.sanitize import clean_line, clean_text
from surehand.http.response import HttpResponse

MAX_ERROR_BODY_BYTES = 64 * 1024
"""Bytes of an error response that are read."""
MAX_ERROR_CHARS = 500
"""Characters of the body of an error response that a model is shown."""
_CODES: Mapping[int, FailureCode] = {
    401: "denied",
    403: "denied",
    404: "not_found",
    408: "timed_out",
    410: "not_found",
    425: "unavailable",
    429: "rate_limited",
    500: "unavailable",
    502: "unavailable",
    503: "unavailable",
    504: "timed_out",
}
"""Failure codes of statuses; the runtime retries a repeatable call after `unavailable`, `rate_limited`, `timed_out`."""
_MESSAGE_KEYS = ("message", "detail", "error_description", "error", "title", "reason", "errors", "msg", "description")
"""Fields in which services tell what is wrong, the most telling first."""
_TITLE = re.compile(r"<title[^>]{0,200}>([^<]{1,500})", re.IGNORECASE)
# No tag extends over the next `<`, and a script without an end extends to the end: so the time is linear.
_MARKUP = re.compile(r"<(script|style)\b[^<>]*>.*?(?:</\1\s*>|\Z)|<[^<>]*>?", re.IGNORECASE | re.DOTALL)


def error_from_response(response: HttpResponse, data: Any, redact: Callable[[str], str]) -> ToolError:
    """The error of a response whose status is not one of success.

    Args:
        data: the body, parsed if it is JSON, as text otherwise.
        redact: masks secrets; it sees the text before that is cut.
    """
    reason = clean_line(redact(response.reason), 60)
    status = f"HTTP {response.status} {reason}".rstrip()
    useful = clean_text(redact(useful_part(data)), MAX_ERROR_CHARS)
    return ToolError(
        f"{status}: {useful}" if useful else status,
        code=_CODES.get(response.status, "failed"),
        data={"status": response.status, "reason": reason, "body": data},
        retry_after=parse_retry_after(response.header("retry-after")),
    )


def useful_part(data: Any) -> str:
    """What the body of an error says: its message if it has one, else all of it."""
    if isinstance(data, Mapping):
        message = _find_message(data, depth=0)
        return to_text(data) if message is None else message
    if not isinstance(data, str):
        return "" if data is None else to_text(data)
    if data.lstrip()[:1] != "<":
        return data
    title = _TITLE.search(data)
    text = title[1] if title else _MARKUP.sub(" ", data)
    return " ".join(unescape(text).split())


def _find_message(data: Mapping[str, Any], depth: int) -> str | None:
    texts: list[str] = []
    for key in _MESSAGE_KEYS:
        value = data.get(key)
        if isinstance(value, str) and value.strip():
            texts.append(value.strip())
        elif isinstance(value, Mapping) and depth < 3:
            inner = _find_message(value, depth + 1)
            texts.append(to_text(value) if inner is None else inner)
        elif isinstance(value, list) and value:
            texts.append(to_text(value))
        if texts and key not in ("error", "title"):
            break
    return ": ".join(dict.fromkeys(texts)) or None
