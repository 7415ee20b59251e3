"""Fetching a page: text, Markdown or HTML from a URL, and images as they are."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

from surehand.builtin.web.html_conversion import convert_html
from surehand.builtin.web.text_decoding import decode_text, is_text
from surehand.core.content import Image
from surehand.core.errors import NotFound, RateLimited, ToolError, Unavailable
from surehand.core.outcome import Done
from surehand.core.sanitize import strip_hidden
from surehand.http.client import HttpClient
from surehand.http.response import HttpResponse, IncomingResponse, ResponseHead

PageFormat: TypeAlias = Literal["text", "markdown", "html"]

MAX_IMAGE_BYTES = 3_750_000
"""What the model APIs take, once it is written as base64."""
EXCERPT_LENGTH = 300
EXCERPT_SOURCE_BYTES = 16_384
_ACCEPT_HEADERS: dict[PageFormat, str] = {
    "text": "text/plain, text/html;q=0.9, text/markdown;q=0.8, */*;q=0.1",
    "markdown": "text/markdown, text/html;q=0.9, text/plain;q=0.8, */*;q=0.1",
    "html": "text/html, application/xhtml+xml;q=0.9, */*;q=0.1",
}
_HTML_TYPES = frozenset({"text/html", "application/xhtml+xml"})
_TEXT_TYPE_PREFIXES = (
    *("text/", "application/json", "application/xml", "application/javascript", "application/x-javascript"),
    *("application/x-ndjson", "application/yaml", "application/x-yaml", "application/toml", "application/sql"),
    *("application/graphql", "application/x-sh", "application/ecmascript", "application/x-www-form-urlencoded"),
)
_UNKNOWN_TYPES = frozenset({"", "application/octet-stream", "binary/octet-stream", "application/unknown"})
_IMAGE_SIGNATURES = {b"\x89PNG\r\n\x1a\n": "image/png", b"\xff\xd8\xff": "image/jpeg", b"GIF8": "image/gif"}


async def fetch_page(client: HttpClient, url: str, page_format: PageFormat, timeout_seconds: float) -> Done:
    """Get a page and make it readable."""
    headers = {"Accept": _ACCEPT_HEADERS[page_format], "Accept-Language": "en, *;q=0.5"}
    async with client.stream("GET", url, headers=headers, timeout=timeout_seconds) as incoming:
        response = await (_read_page(incoming) if incoming.head.ok else _read_beginning(incoming))
    if not response.ok:
        raise await error_from_response(response)
    return await _render_page(response, page_format)


async def _read_page(incoming: IncomingResponse) -> HttpResponse:
    _refuse_binary(incoming.head)
    return await incoming.read()


async def _read_beginning(incoming: IncomingResponse) -> HttpResponse:
    """Of an answer that is no success; where even that cannot be read, its status still counts."""
    try:
        return await incoming.read(truncate=True, max_bytes=EXCERPT_SOURCE_BYTES)
    except ToolError:
        head = incoming.head
        return HttpResponse(head.method, head.url, head.status, head.reason, head.headers)


def media_type(head: ResponseHead) -> str:
    """The kind of content that an answer claims to be, without its parameters."""
    return head.header("content-type").partition(",")[0].partition(";")[0].strip().lower()


def _refuse_binary(head: ResponseHead) -> None:
    kind = media_type(head)
    if not (_is_text_type(kind) or kind in _UNKNOWN_TYPES or kind.startswith("image/")):
        raise _binary_content_error(head, head.header("content-length") or "unknown")


def _is_text_type(content_type: str) -> bool:
    return (
        content_type in _HTML_TYPES
        or content_type.startswith(_TEXT_TYPE_PREFIXES)
        or content_type.endswith(("+json", "+xml", "+yaml"))
    )


def _binary_content_error(head: ResponseHead, size: int | str) -> ToolError:
    kind = media_type(head) or "data of unknown kind"
    return ToolError(
        f"{_url_without_query(head)} is {kind[:100]}, {size} bytes: not text, and not an image that can be shown."
    )


def _url_without_query(head: ResponseHead) -> str:
    """The address without its query, which may hold a key."""
    return head.url.partition("?")[0][:300]


async def _render_page(response: HttpResponse, page_format: PageFormat) -> Done:
    body, kind = response.body, media_type(response)
    if (image := _detect_image_type(body)) is not None:
        return _render_image(response, image, page_format)
    if not _is_text_type(kind) and not is_text(body):
        raise _binary_content_error(response, len(body))
    text = decode_text(body, response.header("content-type"))
    if page_format != "html" and (kind in _HTML_TYPES or (not kind and _looks_like_html(text))):
        text = await convert_html(text, page_format, response.url)
    return Done(strip_hidden(text), title=_title(response), metadata=_metadata(response, page_format))


def _detect_image_type(body: bytes) -> str | None:
    """By its first bytes: model APIs refuse an image that is not what it claims to be."""
    if body.startswith(b"RIFF") and body[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for mark, kind in _IMAGE_SIGNATURES.items() if body.startswith(mark)), None)


def _render_image(response: HttpResponse, image_type: str, page_format: PageFormat) -> Done:
    if len(response.body) > MAX_IMAGE_BYTES:
        size, most = len(response.body), MAX_IMAGE_BYTES
        raise ToolError(f"The image has {size} bytes; at most {most} can be shown.", code="too_large")
    block = Image(base64.b64encode(response.body).decode(), image_type)
    shown = f"Image from the web: {image_type}, {len(response.body)} bytes."
    return Done(shown, content=[block], title=_title(response), metadata=_metadata(response, page_format))


def _looks_like_html(text: str) -> bool:
    start = text[:512].lstrip().lower()
    return start.startswith(("<!doctype html", "<html", "<head", "<body"))


def _title(response: HttpResponse) -> str:
    return f"From the web: {response.url[:200]}"


def _metadata(response: HttpResponse, page_format: PageFormat) -> dict[str, Any]:
    return {
        "url": response.url,
        "status": response.status,
        "contentType": strip_hidden(response.header("content-type")),
        "contentLength": len(response.body),
        "format": page_format,
    }


async def error_from_response(response: HttpResponse) -> ToolError:
    """What is told of an answer that is no success: its status, and how it begins."""
    place, status = _url_without_query(response), response.status
    told = f"{place} answered {status} {strip_hidden(response.reason)}".strip() + "."
    if excerpt := await _body_excerpt(response):
        told += f" The answer begins: {excerpt}"
    return _error_class(status)(told, data={"url": place, "status": status}, retry_after=retry_after_seconds(response))


async def _body_excerpt(response: HttpResponse) -> str:
    if not is_text(response.body):
        return ""
    text = decode_text(response.body, response.header("content-type"))
    if media_type(response) in _HTML_TYPES:
        text = await convert_html(text, "text", response.url)
    return " ".join(strip_hidden(text).split())[:EXCERPT_LENGTH]


def _error_class(status: int) -> type[ToolError]:
    kinds: Sequence[tuple[type[ToolError], tuple[int, ...]]] = (
        (NotFound, (404, 410)),
        (RateLimited, (429,)),
        (Unavailable, (502, 503, 504)),
    )
    return next((kind for kind, known in kinds if status in known), ToolError)


def retry_after_seconds(head: ResponseHead) -> float | None:
    """The seconds that the other side asks to wait; a date is as good as none."""
    given = head.header("retry-after")
    return min(float(given), 86_400.0) if given.isascii() and given.isdigit() and len(given) < 9 else None
