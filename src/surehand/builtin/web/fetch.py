"""The work of `webfetch`: read a URL and return its content as Markdown, text, HTML or an image."""

from __future__ import annotations

import base64
from typing import Any, Literal, TypeAlias

from surehand.builtin.pdf_text import extract_pdf_text, is_pdf
from surehand.builtin.web.html_conversion import convert_html, find_title
from surehand.core.content import Block, Image, Text
from surehand.core.errors import NotFound, RateLimited, ToolError, Unavailable
from surehand.core.outcome import Done
from surehand.core.retry_after import parse_retry_after
from surehand.core.sanitize import strip_hidden
from surehand.http.client import HttpClient
from surehand.http.response import HttpResponse, IncomingResponse, ResponseHead
from surehand.http.target import parse_target
from surehand.http.text_decoding import decode_text, is_text

PageFormat: TypeAlias = Literal["text", "markdown", "html"]

MAX_IMAGE_BYTES = 3_750_000
"""Largest image that model APIs accept, before it is encoded as base64."""
EXCERPT_LENGTH = 300
"""Characters of an error response that the error quotes."""
EXCERPT_SOURCE_BYTES = 16_384
"""Bytes of an error response that are read."""
_MAX_URL_LENGTH = 300
_ACCEPT_HEADERS: dict[PageFormat, str] = {
    "text": "text/plain, text/html;q=0.9, text/markdown;q=0.8, */*;q=0.1",
    "markdown": "text/markdown, text/html;q=0.9, text/plain;q=0.8, */*;q=0.1",
    "html": "text/html, application/xhtml+xml;q=0.9, */*;q=0.1",
}
_PDF_TYPE = "application/pdf"
_HTML_TYPES = frozenset({"text/html", "application/xhtml+xml"})
_TEXT_TYPE_PREFIXES = (
    *("text/", "application/json", "application/xml", "application/javascript", "application/x-javascript"),
    *("application/x-ndjson", "application/yaml", "application/x-yaml", "application/toml", "application/sql"),
    *("application/graphql", "application/x-sh", "application/ecmascript", "application/x-www-form-urlencoded"),
)
_UNKNOWN_TYPES = frozenset({"", "application/octet-stream", "binary/octet-stream", "application/unknown"})
_IMAGE_SIGNATURES = {b"\x89PNG\r\n\x1a\n": "image/png", b"\xff\xd8\xff": "image/jpeg", b"GIF8": "image/gif"}


async def fetch_page(client: HttpClient, url: str, page_format: PageFormat, timeout_seconds: float) -> Done:
    """Fetch a URL and return its content in a readable form."""
    headers = {"Accept": _ACCEPT_HEADERS[page_format], "Accept-Language": "en, *;q=0.5"}
    async with client.stream("GET", url, headers=headers, timeout=timeout_seconds) as incoming:
        if incoming.head.ok:
            _refuse_binary(incoming.head)  # by the header: the body may be gigabytes
            response = await incoming.read()
        else:
            response = await _read_beginning(incoming)
    if not response.ok:
        raise await error_from_response(response)
    return await _render_page(response, page_format, url)


async def _read_beginning(incoming: IncomingResponse) -> HttpResponse:
    """Read the beginning of an error response, or no body if it cannot be read: its status is enough."""
    try:
        return await incoming.read(truncate=True, max_bytes=EXCERPT_SOURCE_BYTES)
    except ToolError:
        head = incoming.head
        return HttpResponse(head.method, head.url, head.status, head.reason, head.headers)


def media_type(head: ResponseHead) -> str:
    """The media type of a response in lower case, without parameters."""
    return head.header("content-type").partition(",")[0].partition(";")[0].strip().lower()


def _refuse_binary(head: ResponseHead) -> None:
    """Refuse a response by its media type, before its body is read."""
    content_type = media_type(head)
    may_be_shown = _is_text_type(content_type) or content_type in _UNKNOWN_TYPES or content_type == _PDF_TYPE
    if not may_be_shown and not content_type.startswith("image/"):
        raise _binary_content_error(head, head.header("content-length") or "unknown")


def _is_text_type(content_type: str) -> bool:
    return (
        content_type in _HTML_TYPES
        or content_type.startswith(_TEXT_TYPE_PREFIXES)
        or content_type.endswith(("+json", "+xml", "+yaml"))
    )


def _binary_content_error(head: ResponseHead, size: int | str) -> ToolError:
    content_type = media_type(head) or "data of unknown kind"
    url = _url_without_query(head)
    return ToolError(f"{url} is {content_type[:100]}, {size} bytes: not text, and not an image that can be shown.")


def _url_without_query(head: ResponseHead) -> str:
    """The URL without its query, which may contain a key."""
    return head.url.partition("?")[0][:_MAX_URL_LENGTH]


async def _render_page(response: HttpResponse, page_format: PageFormat, requested_url: str) -> Done:
    body = response.body
    image_type = _detect_image_type(body)
    if image_type is not None:
        return _render_image(response, image_type, page_format, requested_url)
    if is_pdf(body):
        return await _render_pdf(response, page_format, requested_url)
    content_type = media_type(response)
    if not _is_text_type(content_type) and not is_text(body):
        raise _binary_content_error(response, len(body))
    text = decode_text(body, response.header("content-type"))
    is_html = content_type in _HTML_TYPES or (not content_type and _looks_like_html(text))
    about = list[str]()
    if is_html and page_format == "markdown":
        about = _describe_page(find_title(text), response)
    if is_html and page_format != "html":
        text = await convert_html(text, page_format, response.url)
    return _render_text(response, page_format, text, about, requested_url)


async def _render_pdf(response: HttpResponse, page_format: PageFormat, requested_url: str) -> Done:
    name = f"{_url_without_query(response)} ({media_type(response) or 'without a media type'})"
    pdf = await extract_pdf_text(response.body, name, extra="http")
    about = [*_describe_page(pdf.title, response), f"Pages: {pdf.page_count}"]
    return _render_text(response, page_format, pdf.render(), about, requested_url)


def _describe_page(title: str, response: HttpResponse) -> list[str]:
    return [*([f"Title: {title}"] if title else []), f"Address: {response.url}"]


def _render_text(
    response: HttpResponse, page_format: PageFormat, text: str, about: list[str], requested_url: str
) -> Done:
    """The text as data; the model is shown title and address above it, and a redirect to another host."""
    text = strip_hidden(text)
    header = strip_hidden("\n".join([*about, *_describe_redirect(response, requested_url)]))
    content = [Text(f"{header}\n\n{text}")] if header else None
    metadata = _metadata(response, page_format, requested_url)
    return Done(text, content=content, title=_title(response), metadata=metadata)


def _describe_redirect(response: HttpResponse, requested_url: str) -> list[str]:
    """A line about a redirect to another host, or none."""
    requested_host = parse_target(requested_url).host
    if requested_host == parse_target(response.url).host:
        return []
    return [f"Redirected: {requested_host} sent this request on to another host: {response.url}"]


def _detect_image_type(body: bytes) -> str | None:
    """Detect an image by its first bytes: model APIs refuse an image whose type is declared wrongly."""
    if body.startswith(b"RIFF") and body[8:12] == b"WEBP":
        return "image/webp"
    return next((image_type for mark, image_type in _IMAGE_SIGNATURES.items() if body.startswith(mark)), None)


def _render_image(response: HttpResponse, image_type: str, page_format: PageFormat, requested_url: str) -> Done:
    size = len(response.body)
    if size > MAX_IMAGE_BYTES:
        raise ToolError(f"The image has {size} bytes; at most {MAX_IMAGE_BYTES} can be shown.", code="too_large")
    block = Image(base64.b64encode(response.body).decode(), image_type)
    summary = f"Image from the web: {image_type}, {size} bytes."
    redirect = _describe_redirect(response, requested_url)
    content: list[Block] = [Text("\n".join(redirect)), block] if redirect else [block]
    metadata = _metadata(response, page_format, requested_url)
    return Done(summary, content=content, title=_title(response), metadata=metadata)


def _looks_like_html(text: str) -> bool:
    start = text[:512].lstrip().lower()
    return start.startswith(("<!doctype html", "<html", "<head", "<body"))


def _title(response: HttpResponse) -> str:
    return f"From the web: {response.url[:200]}"


def _metadata(response: HttpResponse, page_format: PageFormat, requested_url: str) -> dict[str, Any]:
    redirected = {"redirectedFrom": requested_url} if _describe_redirect(response, requested_url) else {}
    return {
        "url": response.url,
        "status": response.status,
        "contentType": strip_hidden(response.header("content-type")),
        "contentLength": len(response.body),
        "format": page_format,
        **redirected,
    }


async def error_from_response(response: HttpResponse) -> ToolError:
    """The error for a response without success: its status, and the beginning of its body."""
    url = _url_without_query(response)
    status = response.status
    message = f"{url} answered {status} {strip_hidden(response.reason)}".strip() + "."
    if excerpt := await _body_excerpt(response):
        message += f" The answer begins: {excerpt}"
    error_class = _error_class(status)
    return error_class(
        message, data={"url": url, "status": status}, retry_after=parse_retry_after(response.header("retry-after"))
    )


async def _body_excerpt(response: HttpResponse) -> str:
    if not is_text(response.body):
        return ""
    text = decode_text(response.body, response.header("content-type"))
    if media_type(response) in _HTML_TYPES:
        text = await convert_html(text, "text", response.url)
    return " ".join(strip_hidden(text).split())[:EXCERPT_LENGTH]


def _error_class(status: int) -> type[ToolError]:
    match status:
        case 404 | 410:
            return NotFound
        case 429:
            return RateLimited
        case 502 | 503 | 504:
            return Unavailable
    return ToolError
