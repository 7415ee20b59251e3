"""Reads a response: JSON and text as data, other content as an attachment, streams as progress, errors as `ToolError`.

`sender.py` hands it the response. What comes from the service is untrusted: secrets are masked, hidden characters do
not reach the model, and sizes are limited by the HTTP client.
"""

from __future__ import annotations

import asyncio
import re
from base64 import b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from email.message import Message
from typing import Any, TypeAlias

from surehand.core.content import Audio, Block, File, Image, Json, to_text
from surehand.core.errors import ToolError
from surehand.core.outcome import Done
from surehand.core.redaction import Redactor
from surehand.core.sanitize import clean_line, strip_hidden
from surehand.http.response import HttpResponse, IncomingResponse
from surehand.providers.rest.error_response import MAX_ERROR_BODY_BYTES, error_from_response
from surehand.providers.rest.fields import FieldMask, PickPath
from surehand.providers.rest.streams import StreamFormat, detect_stream, read_stream

ReportProgress: TypeAlias = Callable[[Mapping[str, Any]], None]

MAX_INLINE_BYTES = 256 * 1024
"""A larger JSON body is parsed and redacted in a thread, so as not to block the event loop."""
_JSON_TYPE = re.compile(r"(?:application|text)/(?:[\w.+-]+\+)?json\Z")
_TEXT_TYPE = re.compile(
    r"text/.*|application/(?:[\w.+-]+\+)?(?:xml|yaml|x-yaml|javascript|graphql|x-www-form-urlencoded|toml|sql)\Z"
)
_TEXT_LIKE_IMAGES = frozenset({"image/svg+xml"})
_JSON_ESCAPE = b"\\u"


@dataclass(frozen=True, slots=True)
class ResponseReader:
    """How the responses of one tool are read."""

    pick: PickPath | None = None
    """The part of a JSON response that is the result."""
    mask: FieldMask = field(default_factory=FieldMask)
    """Fields of a JSON response that are masked."""
    stream: StreamFormat | None = None
    """How a stream is read; None finds it out by the content type."""

    async def read(self, incoming: IncomingResponse, redactor: Redactor, report: ReportProgress) -> Done:
        """Read the whole response; raises `ToolError` for an error status."""
        head = incoming.head
        if not head.ok:
            raise await read_error(incoming, redactor, self.mask)
        stream = self.stream or detect_stream(head.header("content-type"))
        if stream is not None:
            return self.finish(await read_stream(incoming, stream, self._item_reporter(redactor, report)), redactor)
        body = await read_body(incoming)
        return body if isinstance(body, Done) else self.finish(body, redactor)

    def finish(self, data: Any, redactor: Redactor) -> Done:
        """The result from the data of a response: secrets and masked fields are hidden, then the part is picked."""
        data = self.hide(data, redactor)
        if self.pick is not None:
            data = self.pick.find(data)
        return done_with_clean_text(data)

    def hide(self, data: Any, redactor: Redactor) -> Any:
        """The data with secrets and masked fields hidden."""
        return self.mask(redactor.redact_json(data))

    def _item_reporter(self, redactor: Redactor, report: ReportProgress) -> ReportProgress:
        def report_item(item: Mapping[str, Any]) -> None:
            report(self.hide(item, redactor))

        return report_item


async def read_error(incoming: IncomingResponse, redactor: Redactor, mask: FieldMask) -> ToolError:
    """The error of a response with an error status. The beginning of its body is enough."""
    try:
        response = await incoming.read(truncate=True, max_bytes=MAX_ERROR_BODY_BYTES)
    except ToolError:  # the status alone tells more than a body that broke off
        head = incoming.head
        response = HttpResponse(head.method, head.url, head.status, head.reason, head.headers)
    body = parse_body(response)
    data = "" if isinstance(body, Done) else mask(redactor.redact_json(body))
    return error_from_response(response, data, redactor)


async def read_body(incoming: IncomingResponse) -> Any:
    """The body as JSON or text, or a `Done` with an attachment."""
    response = await incoming.read()
    if len(response.body) <= MAX_INLINE_BYTES:
        return parse_body(response)
    return await asyncio.to_thread(parse_body, response)


def parse_body(response: HttpResponse) -> Any:
    """The body as JSON or text, or a `Done` with an attachment; None if it is empty."""
    body = response.body
    if not body:
        return None
    content_type = media_type(response.header("content-type"))
    if not content_type or _JSON_TYPE.match(content_type):
        parsed = parse_json_body(body)
        if parsed is not _NOT_JSON:
            return parsed
    if _is_text(content_type, body):
        return strip_hidden(_decode(body, response.header("content-type")))
    return _attachment(response, content_type or "application/octet-stream")


_NOT_JSON = object()


def parse_json_body(body: bytes) -> Any:
    """The JSON value of a body; `_NOT_JSON` if it is none."""
    from pydantic_core import from_json  # loaded with the first response

    try:
        return from_json(body.removeprefix(b"\xef\xbb\xbf"), allow_inf_nan=False)
    except ValueError:
        return _NOT_JSON


def media_type(content_type: str) -> str:
    """The media type of a Content-Type header, without parameters."""
    return content_type.partition(";")[0].strip().lower()


def _is_text(content_type: str, body: bytes) -> bool:
    if _JSON_TYPE.match(content_type) or _TEXT_TYPE.match(content_type) or content_type in _TEXT_LIKE_IMAGES:
        return True
    if content_type and content_type != "application/octet-stream":
        return False
    try:
        return b"\0" not in body and body.decode() is not None
    except UnicodeDecodeError:
        return False


def _decode(body: bytes, content_type: str) -> str:
    header = Message()
    header["Content-Type"] = content_type or "text/plain"
    charset = str(header.get_content_charset("utf-8"))
    try:
        return body.decode(charset if _WEB_CHARSET.fullmatch(charset) else "utf-8", "replace").removeprefix("\ufeff")
    except LookupError:
        return body.decode("utf-8", "replace")


# Python has more codecs than the web uses, and some are no text encodings, or take quadratic time.
_WEB_CHARSET = re.compile(
    r"utf-8|utf-16(?:-?[lb]e)?|us-ascii|iso-8859-\d{1,2}|windows-125\d|koi8-[ru]|gbk|gb18030|big5|euc-(?:jp|kr)|shift_jis"
)


def _attachment(response: HttpResponse, content_type: str) -> Done:
    """Content that is neither JSON nor text, as an attachment; the data describes it."""
    encoded = b64encode(response.body).decode()
    filename = _filename(response.header("content-disposition"))
    kind = content_type.partition("/")[0]
    block: Block
    if kind == "image":
        block = Image(encoded, content_type)
    elif kind == "audio":
        block = Audio(encoded, content_type)
    else:
        block = File(encoded, content_type, filename)
    data = {"mime_type": content_type, "bytes": len(response.body)}
    if filename:
        data["filename"] = filename
    return Done(data, attachments=[block])


def _filename(disposition: str) -> str:
    """The file name of a Content-Disposition header, without folders."""
    if not disposition:
        return ""
    header = Message()
    header["Content-Disposition"] = disposition
    name = header.get_filename() or ""
    return clean_line(name.replace("\\", "/").rpartition("/")[2], 200)


def done_with_clean_text(data: Any) -> Done:
    """The outcome of data; its text, which a model reads, has no hidden characters."""
    if data is None or isinstance(data, (bool, int, float)):
        return Done(data)
    if isinstance(data, str):
        return Done(strip_hidden(data))
    text = to_text(data)
    if text.isascii():  # controls are escaped in JSON
        return Done(data)
    seen = strip_hidden(text)
    return Done(data) if seen == text else Done(data, content=[Json(data, seen)])
