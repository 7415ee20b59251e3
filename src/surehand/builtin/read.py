"""Reading files: a page of numbered lines (`read`), or the content as it is (`read_file`)."""

from __future__ import annotations

import os
from base64 import b64encode
from typing import Annotated, Any, BinaryIO

from pydantic import Field

from surehand.builtin.encoding import HEAD, Encoding, encoding_of, named
from surehand.builtin.kind import image_type, is_document, kind_of
from surehand.builtin.page import Page, page_of
from surehand.builtin.paths import FilePath, Names, facets
from surehand.builtin.sizes import size
from surehand.builtin.spot import Spot
from surehand.builtin.trouble import told
from surehand.builtin.workspace import Workspace
from surehand.core.content import Image, Text
from surehand.core.context import Context
from surehand.core.define import tool
from surehand.core.errors import InvalidArguments, ToolError
from surehand.core.outcome import Done
from surehand.core.tool import Tool

MOST_LINES, LINES, LINE = 5000, 2000, 2000
PAGE = 88_000
"""Bytes after which a page of numbered lines ends, so that it fits into what a model is shown at once."""
WHOLE = 1 << 20
"""Bytes that `read_file` gives at once."""
_NUL, _UNSHOWN = "\0", "\ufffd"  # not every model API takes a NUL
IMAGE = 3_750_000
"""Bytes of the largest image; model APIs take five megabytes of base64."""


def read_tools(workspace: Workspace, names: Names) -> list[Tool[..., Any]]:
    """`read` and `read_file`."""

    @tool(**facets(workspace, "read", "file_path", listed=names == "short", examples=[{"file_path": "src/main.py"}]))
    def read(
        file_path: FilePath,
        ctx: Context,
        offset: Annotated[int, Field(ge=1, description="First line to read, counted from 1.")] = 1,
        limit: Annotated[int, Field(ge=1, description=f"Lines to read, {MOST_LINES} at most.")] = LINES,
    ) -> Done:
        """Read a text file with line numbers, or look at an image. Long files come in pages: go on with `offset`."""
        spot, limit = workspace.spot(file_path), min(limit, MOST_LINES)
        with spot.reader() as file:
            head = file.read(HEAD)
            if (mime := image_type(head)) is not None:
                return _image(spot, file, mime)
            encoding = _text(spot, file, head)
            page = page_of(file, encoding, offset, limit, line=LINE, room=PAGE, stop=lambda: ctx.cancelled)
        return _numbered(spot, page, encoding)

    @tool(**facets(workspace, "read", "path", listed=names == "long", examples=[{"path": "src/main.py"}]))
    def read_file(
        path: FilePath,
        ctx: Context,
        encoding: Annotated[str | None, Field(description="Such as utf-8, or base64; found out if left out.")] = None,
        offset: Annotated[int | None, Field(ge=0, description="First line of a page, counted from 0.")] = None,
        limit: Annotated[int | None, Field(ge=1, description="Lines of a page.")] = None,
    ) -> dict[str, Any]:
        """Read a file's content as it is. Above 1 MiB, read pages with `offset` and `limit`."""
        spot = workspace.spot(path)
        with spot.reader() as file:
            if encoding is not None and encoding.lower() == "base64":
                return _in_base64(spot, file)
            known = _text(spot, file, file.read(HEAD)) if encoding is None else _found(file, named(encoding))
            if offset is None and limit is None:
                return _whole(spot, file, known, strict=encoding is not None)
            first, most = (offset or 0) + 1, limit or LINES
            page = page_of(file, known, first, most, line=WHOLE, room=WHOLE, stop=lambda: ctx.cancelled)
            return _plain(spot, page, known, most, _size(file))

    return [read, read_file]


def _size(file: BinaryIO) -> int:
    return os.fstat(file.fileno()).st_size


def _text(spot: Spot, file: BinaryIO, head: bytes) -> Encoding:
    encoding = None if is_document(head) else encoding_of(head)
    if encoding is None:
        what = f"it is {kind_of(head, spot.name)}, {size(_size(file))}"
        raise InvalidArguments(f"{told(spot)} cannot be shown as text: {what}.")
    return encoding


# read


def _numbered(spot: Spot, page: Page, encoding: Encoding) -> Done:
    if page.first > 1 and not page.lines:
        has = "1 line" if page.total == 1 else f"{page.total:,} lines"
        raise InvalidArguments(
            f"Line {page.first:,} is beyond the end of {told(spot)}, which has {has}. Give a smaller offset."
        )
    where = {"path": spot.shown, "startLine": page.first, "endLine": page.last, "totalLines": page.total}
    metadata = {**where, "truncated": page.truncated}
    if encoding.name != "utf-8":
        metadata["encoding"] = encoding.name
    return Done(_shown(page) or "(the file is empty)", title=f"Read {spot.shown}", metadata=metadata)


def _shown(page: Page) -> str:
    cut = f" [cut: the line is longer than {LINE:,} characters]"
    numbered = enumerate(page.lines, page.first)
    shown = [f"{number:>6}\t{line.bare.replace(_NUL, _UNSHOWN)}{cut if line.cut else ''}" for number, line in numbered]
    if page.more:
        of = "" if page.total is None else f" of {page.total:,}"
        uncounted = "; more follow, not counted in so large a file" if page.total is None else ""
        shown.append(f"\n(lines {page.first:,} to {page.last:,}{of}{uncounted}. Go on with offset={page.last + 1}.)")
    return "\n".join(shown)


def _image(spot: Spot, file: BinaryIO, mime: str) -> Done:
    length = _size(file)
    if length > IMAGE:
        problem = f"{told(spot)} is an image of {size(length)}; at most {size(IMAGE)} can be shown."
        raise ToolError(problem, code="too_large")
    file.seek(0)
    data = b64encode(file.read(IMAGE)).decode()
    found = {"path": spot.shown, "mimeType": mime, "size": length}
    content = (Text(f"{spot.shown}: {mime}, {size(length)}"), Image(data, mime))
    return Done(found, content=content, title=f"Read {spot.shown}", metadata=found)


# read_file


def _found(file: BinaryIO, encoding: Encoding) -> Encoding:
    """The encoding that was asked for; a mark that the file does not begin with is not taken away."""
    return encoding if file.read(len(encoding.mark)) == encoding.mark else Encoding(encoding.codec)


def _all(spot: Spot, file: BinaryIO) -> bytes:
    file.seek(0)
    data = file.read(WHOLE + 1)
    if len(data) > WHOLE:
        has, most = size(max(_size(file), len(data))), size(WHOLE)
        problem = f"{told(spot)} has {has}, more than the {most} that are read at once."
        raise ToolError(f"{problem} Read it in pages, with offset=0 and limit={LINES}.", code="too_large")
    return data


def _in_base64(spot: Spot, file: BinaryIO) -> dict[str, Any]:
    data = _all(spot, file)
    return {"content": b64encode(data).decode(), "size": len(data), "path": spot.shown, "encoding": "base64"}


def _whole(spot: Spot, file: BinaryIO, encoding: Encoding, *, strict: bool) -> dict[str, Any]:
    data = _all(spot, file)
    try:
        content = data[len(encoding.mark) :].decode(encoding.codec, "strict" if strict else "replace")
    except UnicodeDecodeError as error:
        problem = f"{told(spot)} is not {encoding.codec}: its byte {error.start + len(encoding.mark):,} does not fit."
        raise InvalidArguments(f"{problem} Leave the encoding out.") from None
    total = content.count("\n") + (content[-1:] not in ("", "\n"))
    found = {"content": content, "size": len(data), "totalLines": total}
    return {**found, "path": spot.shown, "encoding": encoding.name}


def _plain(spot: Spot, page: Page, encoding: Encoding, limit: int, length: int) -> dict[str, Any]:
    content = "".join(line.text for line in page.lines)
    found = {"content": content, "size": length, "totalLines": page.total, "path": spot.shown}
    where = {"offset": page.first - 1, "limit": limit, "truncated": page.truncated}
    return {**found, "encoding": encoding.name, **where}
