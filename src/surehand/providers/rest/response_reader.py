"""Reads a response: its body or stream becomes a `Done`, an error status a `ToolError`.

`sender.py` hands it the response. What comes from the service is untrusted: secrets are masked, hidden characters do
not reach the model, and sizes are limited by the HTTP client.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from surehand.core.content import Json, Text, to_text
from surehand.core.errors import ToolError
from surehand.core.outcome import Done
from surehand.core.redaction import Redactor
from surehand.core.sanitize import clean_line, strip_hidden
from surehand.http.response import HttpResponse, IncomingResponse
from surehand.providers.rest.error_response import MAX_ERROR_BODY_BYTES, error_from_response
from surehand.providers.rest.fields import FieldMask, PickPath
from surehand.providers.rest.response_body import is_text_response, parse_body, run_by_size
from surehand.providers.rest.secrets import is_secret_name
from surehand.providers.rest.streams import StreamFormat, detect_stream, read_stream

ReportProgress: TypeAlias = Callable[[Mapping[str, Any]], None]


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
            data = await read_stream(incoming, stream, self._item_reporter(redactor, report))
            return await asyncio.to_thread(self.finish, data, redactor)  # it may be as large as a body
        response = await incoming.read()
        return await run_by_size(len(response.body), self._build_result, response, redactor)

    def _build_result(self, response: HttpResponse, redactor: Redactor) -> Done:
        body = parse_body(response, redactor)
        if isinstance(body, Done):
            return body
        if response.method == "HEAD":
            return self.finish(_describe_head(response), redactor)
        if not response.body:
            return Done(
                None, content=[Text(f"HTTP {response.status} {clean_line(redactor(response.reason), 60)}".rstrip())]
            )
        return self.finish(body, redactor, has_hidden=_may_have_hidden(response.body))

    def finish(self, data: Any, redactor: Redactor, *, has_hidden: bool = True) -> Done:
        """The result from the data of a response: secrets and masked fields are hidden, then the part is picked.

        Args:
            has_hidden: whether the data may have characters that a model must not see.
        """
        data = self.hide(data, redactor)
        if self.pick is not None:
            data = self.pick.find(data)
        return done_with_clean_text(data) if has_hidden else Done(data)

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
    body = parse_body(response, redactor) if is_text_response(response) else None
    data = mask(redactor.redact_json(body))
    return error_from_response(response, data, redactor)


def _describe_head(response: HttpResponse) -> dict[str, Any]:
    """The answer to a HEAD request as data."""
    headers = {name.lower(): strip_hidden(value) for name, value in response.headers}
    public_headers = {name: value for name, value in headers.items() if not is_secret_name(name)}
    return {"status": response.status, "headers": public_headers}


def _may_have_hidden(body: bytes) -> bool:
    """Whether the text of a body may have hidden characters: ASCII has none, unless JSON escapes them."""
    return not body.isascii() or b"\\u" in body


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
