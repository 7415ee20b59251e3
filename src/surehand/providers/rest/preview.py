"""The preview of a request: what will be sent, as a person reads it before approving it."""

from __future__ import annotations

from urllib.parse import quote

from surehand.core.redaction import REDACTION_MASK
from surehand.core.sanitize import escape_unprintable
from surehand.http.request import HttpRequest, StreamedBody

MAX_PREVIEW_CHARS = 20_000
"""Characters of a body that are shown."""
_QUOTED_MASK = quote(REDACTION_MASK, safe="")


def render_url(request: HttpRequest) -> str:
    """The URL of a request whose secrets are masked already."""
    return request.target.url.replace(_QUOTED_MASK, REDACTION_MASK)


def render_request(request: HttpRequest) -> str:
    """Method, URL, headers and body of a request whose secrets are masked already."""
    lines = [f"{request.method} {render_url(request)}", *(f"{name}: {value}" for name, value in request.headers)]
    return escape_unprintable("\n".join([*lines, *_render_body(request)]))


def _render_body(request: HttpRequest) -> list[str]:
    body = request.body
    if body is None:
        return []
    if isinstance(body, StreamedBody):
        return ["", f"({body.size:,} bytes, sent piece by piece)"]
    try:
        text = body.decode().replace(_QUOTED_MASK, REDACTION_MASK)
    except UnicodeDecodeError:
        return ["", f"({len(body):,} bytes that are no text)"]
    if len(text) > MAX_PREVIEW_CHARS:
        return ["", text[:MAX_PREVIEW_CHARS], f"({len(text) - MAX_PREVIEW_CHARS:,} more characters)"]
    return ["", text]
