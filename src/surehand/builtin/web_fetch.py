"""Fetching a page: text, Markdown or HTML from a URL, and images as they are."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

from surehand.builtin.web_page import converted
from surehand.builtin.web_text import decoded, is_text
from surehand.core.content import Image
from surehand.core.errors import NotFound, RateLimited, ToolError, Unavailable
from surehand.core.outcome import Done
from surehand.core.sanitize import strip_hidden
from surehand.http.client import Client
from surehand.http.response import Head, Incoming, Response

Format: TypeAlias = Literal["text", "markdown", "html"]

MAX_IMAGE = 3_750_000
"""What the model APIs take, once it is written as base64."""
EXCERPT = 300
EXCERPT_FROM = 16_384
_ACCEPT: dict[Format, str] = {
    "text": "text/plain, text/html;q=0.9, text/markdown;q=0.8, */*;q=0.1",
    "markdown": "text/markdown, text/html;q=0.9, text/plain;q=0.8, */*;q=0.1",
    "html": "text/html, application/xhtml+xml;q=0.9, */*;q=0.1",
}
_HTML = frozenset({"text/html", "application/xhtml+xml"})
_TEXT = (
    *("text/", "application/json", "application/xml", "application/javascript", "application/x-javascript"),
    *("application/x-ndjson", "application/yaml", "application/x-yaml", "application/toml", "application/sql"),
    *("application/graphql", "application/x-sh", "application/ecmascript", "application/x-www-form-urlencoded"),
)
_UNKNOWN = frozenset({"", "application/octet-stream", "binary/octet-stream", "application/unknown"})
_IMAGES = {b"\x89PNG\r\n\x1a\n": "image/png", b"\xff\xd8\xff": "image/jpeg", b"GIF8": "image/gif"}


async def fetch(client: Client, url: str, form: Format, seconds: float) -> Done:
    """Get a page and make it readable."""
    headers = {"Accept": _ACCEPT[form], "Accept-Language": "en, *;q=0.5"}
    async with client.stream("GET", url, headers=headers, timeout=seconds) as incoming:
        response = await (_page(incoming) if incoming.head.ok else _beginning(incoming))
    if not response.ok:
        raise await failure(response)
    return await _shown(response, form)


async def _page(incoming: Incoming) -> Response:
    _refuse_binary(incoming.head)
    return await incoming.read()


async def _beginning(incoming: Incoming) -> Response:
    """Of an answer that is no success; where even that cannot be read, its status still counts."""
    try:
        return await incoming.read(cut=True, max_bytes=EXCERPT_FROM)
    except ToolError:
        head = incoming.head
        return Response(head.method, head.url, head.status, head.reason, head.headers)


def media_type(head: Head) -> str:
    """The kind of content that an answer claims to be, without its parameters."""
    return head.header("content-type").partition(",")[0].partition(";")[0].strip().lower()


def _refuse_binary(head: Head) -> None:
    kind = media_type(head)
    if not (_is_text_type(kind) or kind in _UNKNOWN or kind.startswith("image/")):
        raise _binary(head, head.header("content-length") or "unknown")


def _is_text_type(kind: str) -> bool:
    return kind in _HTML or kind.startswith(_TEXT) or kind.endswith(("+json", "+xml", "+yaml"))


def _binary(head: Head, size: int | str) -> ToolError:
    kind = media_type(head) or "data of unknown kind"
    return ToolError(f"{_place(head)} is {kind[:100]}, {size} bytes: not text, and not an image that can be shown.")


def _place(head: Head) -> str:
    """The address without its query, which may hold a key."""
    return head.url.partition("?")[0][:300]


async def _shown(response: Response, form: Format) -> Done:
    body, kind = response.body, media_type(response)
    if (image := _image_type(body)) is not None:
        return _image(response, image, form)
    if not _is_text_type(kind) and not is_text(body):
        raise _binary(response, len(body))
    text = decoded(body, response.header("content-type"))
    if form != "html" and (kind in _HTML or (not kind and _looks_like_html(text))):
        text = await converted(text, form, response.url)
    return Done(strip_hidden(text), title=_title(response), metadata=_metadata(response, form))


def _image_type(body: bytes) -> str | None:
    """By its first bytes: model APIs refuse an image that is not what it claims to be."""
    if body.startswith(b"RIFF") and body[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for mark, kind in _IMAGES.items() if body.startswith(mark)), None)


def _image(response: Response, kind: str, form: Format) -> Done:
    if len(response.body) > MAX_IMAGE:
        size, most = len(response.body), MAX_IMAGE
        raise ToolError(f"The image has {size} bytes; at most {most} can be shown.", code="too_large")
    block = Image(base64.b64encode(response.body).decode(), kind)
    shown = f"Image from the web: {kind}, {len(response.body)} bytes."
    return Done(shown, content=[block], title=_title(response), metadata=_metadata(response, form))


def _looks_like_html(text: str) -> bool:
    start = text[:512].lstrip().lower()
    return start.startswith(("<!doctype html", "<html", "<head", "<body"))


def _title(response: Response) -> str:
    return f"From the web: {response.url[:200]}"


def _metadata(response: Response, form: Format) -> dict[str, Any]:
    return {
        "url": response.url,
        "status": response.status,
        "contentType": strip_hidden(response.header("content-type")),
        "contentLength": len(response.body),
        "format": form,
    }


async def failure(response: Response) -> ToolError:
    """What is told of an answer that is no success: its status, and how it begins."""
    place, status = _place(response), response.status
    told = f"{place} answered {status} {strip_hidden(response.reason)}".strip() + "."
    if excerpt := await _excerpt(response):
        told += f" The answer begins: {excerpt}"
    return _error_of(status)(told, data={"url": place, "status": status}, retry_after=retry_after(response))


async def _excerpt(response: Response) -> str:
    if not is_text(response.body):
        return ""
    text = decoded(response.body, response.header("content-type"))
    if media_type(response) in _HTML:
        text = await converted(text, "text", response.url)
    return " ".join(strip_hidden(text).split())[:EXCERPT]


def _error_of(status: int) -> type[ToolError]:
    kinds: Sequence[tuple[type[ToolError], tuple[int, ...]]] = (
        (NotFound, (404, 410)),
        (RateLimited, (429,)),
        (Unavailable, (502, 503, 504)),
    )
    return next((kind for kind, known in kinds if status in known), ToolError)


def retry_after(head: Head) -> float | None:
    """The seconds that the other side asks to wait; a date is as good as none."""
    given = head.header("retry-after")
    return min(float(given), 86_400.0) if given.isascii() and given.isdigit() and len(given) < 9 else None
