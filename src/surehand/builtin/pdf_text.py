"""Reads the text of PDF files with pypdf, in a child process with limits."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec

from surehand.builtin.conversion_process import (
    MAX_OUTPUT_BYTES,
    ConversionFailed,
    run_converter,
    run_converter_in_thread,
)
from surehand.core.errors import TimedOut, ToolError, Unavailable
from surehand.core.extras import install_command

MAX_EXTRACTION_SECONDS = 20.0
_PAGE_SECONDS = 15.0
"""Processor time after which no further page is begun: the pages read until then are returned."""
_MAX_TITLE_LENGTH = 300
# Stops by processor time and not by the clock: on a busy machine the same file gives the same pages.
_EXTRACTION_PROGRAM = f"""
import io, json, logging, sys, time
logging.disable(logging.CRITICAL)
from pypdf import PdfReader
reader = PdfReader(io.BytesIO(sys.stdin.buffer.read()))
found = {{"title": "", "pages": [], "page_count": 0, "needs_password": False}}
if reader.is_encrypted and not reader.decrypt(""):
    found["needs_password"] = True
else:
    found["page_count"] = len(reader.pages)
    try:
        found["title"] = str((reader.metadata or {{}}).get("/Title") or "")
    except Exception:
        pass
    size = 0
    for page in reader.pages:
        if size > {MAX_OUTPUT_BYTES // 2} or time.process_time() > {_PAGE_SECONDS}:
            break
        try:
            text = page.extract_text()
        except Exception:
            text = ""
        size += len(text)
        found["pages"].append(text)
sys.stdout.buffer.write(json.dumps(found).encode("utf-8", "replace"))
"""


@dataclass(frozen=True, slots=True)
class PdfText:
    """The text of a PDF file."""

    title: str
    pages: tuple[str, ...]
    """The text of each page that was read."""
    page_count: int
    """Pages of the file, which may be more than were read."""

    def render(self) -> str:
        """The pages with a line above each, and how many were left out."""
        parts = [f"[page {number} of {self.page_count}]\n{text}" for number, text in enumerate(self.pages, 1)]
        if (missing := self.page_count - len(self.pages)) > 0:
            parts.append(f"[{missing} more pages were not read: the PDF is too large to be read at once]")
        return "\n\n".join(parts)


def is_pdf(body: bytes) -> bool:
    """Whether bytes begin like a PDF file."""
    return body[:64].lstrip().startswith(b"%PDF-")


async def extract_pdf_text(body: bytes, name: str, *, extra: str) -> PdfText:
    """The text of a PDF file.

    Args:
        name: what the file is called in errors.
        extra: the extra of this package that installs pypdf for the caller.
    """
    label = _label(body, name, extra)
    with _translate_failures(label):
        output = await run_converter(_EXTRACTION_PROGRAM, body, max_seconds=MAX_EXTRACTION_SECONDS)
    return _parse_output(output, label)


def extract_pdf_text_in_thread(body: bytes, name: str, *, extra: str) -> PdfText:
    """The same, for code that runs in a thread and may block it."""
    label = _label(body, name, extra)
    with _translate_failures(label):
        output = run_converter_in_thread(_EXTRACTION_PROGRAM, body, max_seconds=MAX_EXTRACTION_SECONDS)
    return _parse_output(output, label)


def _label(body: bytes, name: str, extra: str) -> str:
    """The file's name and size for errors; raises `Unavailable` without pypdf."""
    if find_spec("pypdf") is None:
        raise Unavailable(f"Reading a PDF needs the package pypdf: {install_command(extra)}")
    return f"{name}, {len(body)} bytes,"


@contextmanager
def _translate_failures(label: str) -> Iterator[None]:
    try:
        yield
    except ConversionFailed as failure:
        if failure.reason == "timed_out":
            raise TimedOut(f"{label} is a PDF that takes too long to be read.") from None
        raise ToolError(f"{label} is a PDF that cannot be read: it is damaged or too large.") from None


def _parse_output(output: bytes, label: str) -> PdfText:
    found = json.loads(output)
    if found["needs_password"]:
        raise ToolError(f"{label} is a PDF that needs a password. Ask for a copy without one.")
    pages = tuple(_clean_text(page) for page in found["pages"])
    if not any(pages):
        count = found["page_count"]
        raise ToolError(f"{label} is a PDF of {count} pages without text; it may hold scanned images only.")
    return PdfText(" ".join(_clean_text(found["title"]).split())[:_MAX_TITLE_LENGTH], pages, found["page_count"])


def _clean_text(text: str) -> str:
    """Text without the lone surrogates that broken fonts produce."""
    return text.encode("utf-8", "replace").decode().strip()
