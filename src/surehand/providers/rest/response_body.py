"""The body of a response: JSON and text as data, other content as an attachment. Bodies are untrusted."""

from __future__ import annotations

import asyncio
import re
from base64 import b64encode
from collections.abc import Callable
from email.message import Message
from typing import Any, TypeVar

from surehand.core.content import Audio, Block, File, Image
from surehand.core.errors import ToolError
from surehand.core.outcome import Done
from surehand.core.redaction import Redactor
from surehand.core.sanitize import clean_line, strip_hidden
from surehand.http.response import HttpResponse
from surehand.http.text_decoding import decode_text, is_text

MAX_INLINE_BYTES = 256 * 1024
"""A larger body is parsed in a thread, so as not to block the event loop."""
Result = TypeVar("Result")
_JSON_TYPE = re.compile(r"(?:application|text)/(?:[\w.+-]+\+|x-)?json")
_TEXT_TYPE = re.compile(
    r"text/[\w.+-]+|image/svg\+xml"
    r"|application/(?:[\w.+-]+\+)?(?:xml|yaml|x-yaml|javascript|graphql|x-www-form-urlencoded|toml|sql)"
)
_MEDIA_TYPE = re.compile(r"[a-z0-9][a-z0-9!#$&^_.+-]{0,126}/[a-z0-9][a-z0-9!#$&^_.+-]{0,126}")
_UNKNOWN_TYPE = "application/octet-stream"
_NOT_JSON = object()


async def run_by_size(size: int, function: Callable[..., Result], *arguments: Any) -> Result:
    """Call a function that handles so many bytes of a body: in a thread if they are many."""
    if size <= MAX_INLINE_BYTES:
        return function(*arguments)
    return await asyncio.to_thread(function, *arguments)


def parse_body(response: HttpResponse, redactor: Redactor) -> Any:
    """The body as JSON or text, or a `Done` with an attachment; None if it is empty."""
    body = response.body
    if not body:
        return None
    media_type = _media_type(response)
    if media_type == _UNKNOWN_TYPE or _JSON_TYPE.fullmatch(media_type):
        value = _parse_json(body)
        if value is not _NOT_JSON:
            return value
    if is_text_response(response):
        return strip_hidden(decode_text(body, response.header("content-type")))
    if redactor.occurs_in(body):
        raise ToolError("The answer holds a secret of the request, in a format in which it cannot be masked.")
    return _attachment(response, media_type, redactor)


def _media_type(response: HttpResponse) -> str:
    """The media type without parameters."""
    media_type = response.header("content-type").partition(";")[0].strip().lower()
    return media_type if _MEDIA_TYPE.fullmatch(media_type) else _UNKNOWN_TYPE


def is_text_response(response: HttpResponse) -> bool:
    """Whether the body is text, JSON included."""
    media_type = _media_type(response)
    if media_type == _UNKNOWN_TYPE:
        return is_text(response.body)
    return _JSON_TYPE.fullmatch(media_type) is not None or _TEXT_TYPE.fullmatch(media_type) is not None


def _parse_json(body: bytes) -> Any:
    """The JSON value of a body; `_NOT_JSON` if it is none."""
    from pydantic_core import from_json  # loaded with the first response

    try:
        return from_json(body.removeprefix(b"\xef\xbb\xbf"), allow_inf_nan=False)
    except ValueError:
        return _NOT_JSON


def _attachment(response: HttpResponse, media_type: str, redactor: Redactor) -> Done:
    """Content that is neither JSON nor text, as an attachment; the data describes it."""
    encoded = b64encode(response.body).decode()
    filename = _filename(redactor(response.header("content-disposition")))
    kind = media_type.partition("/")[0]
    block: Block
    if kind == "image":
        block = Image(encoded, media_type)
    elif kind == "audio":
        block = Audio(encoded, media_type)
    else:
        block = File(encoded, media_type, filename)
    data = {"mime_type": media_type, "bytes": len(response.body)}
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
