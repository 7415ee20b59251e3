"""Page: HTML as text or Markdown."""

from __future__ import annotations

import asyncio
import json
import sys
from contextlib import suppress
from importlib.util import find_spec
from tempfile import TemporaryFile
from typing import IO, Any, Literal, TypeAlias

from surehand.core.errors import TimedOut, ToolError, Unavailable

ConversionFormat: TypeAlias = Literal["text", "markdown"]

MAX_CONVERSION_SECONDS = 10.0
MAX_BASE_URL_LENGTH = 300
"""Relative links are made whole with the address of the page: with a long one, they could make a small page huge."""
_EXCLUDED_ELEMENTS = ["script", "style", "template", "iframe", "object", "embed", "svg", "canvas", "noscript"]
_TOO_LARGE_EXIT_CODE = 3
# The converter holds the interpreter's lock, and a page made for it keeps it busy for seconds: 40 kB of quotations in
# each other took two. So every page is converted in a process of its own, which costs some 50 ms and can be ended.
_CONVERTER_PROGRAM = f"""
import json, sys
try:
    import resource
    for limit, most in (("AS", 2 << 30), ("CPU", {MAX_CONVERSION_SECONDS:.0f}), ("CORE", 0)):
        resource.setrlimit(getattr(resource, "RLIMIT_" + limit), (most, most))
except ImportError:
    pass
from html_to_markdown import ConversionOptions, PreprocessingOptions, convert
given = json.loads(sys.stdin.buffer.readline())
html = sys.stdin.buffer.read().decode("utf-8", "replace")
text = convert(html, ConversionOptions(**given, preprocessing=PreprocessingOptions(enabled=False))).content or ""
if len(text) > 10 << 20:
    sys.exit({_TOO_LARGE_EXIT_CODE})
sys.stdout.buffer.write(text.encode("utf-8", "replace"))
"""


async def convert_html(html: str, output_format: ConversionFormat, url: str) -> str:
    """The readable part of a page: no scripts, no styles, nothing hidden; relative links made whole."""
    if find_spec("html_to_markdown") is None:
        raise Unavailable("webfetch needs the package html-to-markdown: pip install 'surehand[http]'")
    told = (
        json.dumps(_conversion_options(output_format, url)).encode()
        + b"\n"
        + html.replace("\0", "").encode("utf-8", "replace")
    )
    return (await _run_converter(told)).decode().strip()


def _conversion_options(output_format: ConversionFormat, url: str) -> dict[str, Any]:
    base = url.partition("?")[0]
    return {
        "output_format": "plain" if output_format == "text" else "markdown",
        "extract_metadata": False,
        "exclude_selectors": _EXCLUDED_ELEMENTS,
        "inline_data_media": "alt_text_only",
        "base_url": base if len(base) <= MAX_BASE_URL_LENGTH else None,
        "compact_tables": True,
        "max_depth": 200,
    }


async def _run_converter(program_input: bytes) -> bytes:
    # Files and not pipes: they hold what a page may be at most, and nothing of them is left when the child is ended.
    with TemporaryFile() as given, TemporaryFile() as made:
        given.write(program_input)
        given.seek(0)
        await _run_child(given, made)
        made.seek(0)
        return made.read()


async def _run_child(stdin: IO[bytes], stdout: IO[bytes]) -> None:
    child = await asyncio.create_subprocess_exec(
        sys.executable,
        "-I",
        "-c",
        _CONVERTER_PROGRAM,
        stdin=stdin,
        stdout=stdout,
        stderr=asyncio.subprocess.DEVNULL,
        env={},
    )
    try:
        async with asyncio.timeout(MAX_CONVERSION_SECONDS):
            code = await child.wait()
    except TimeoutError:
        raise TimedOut("The page is too complicated to be converted. Ask for format html.") from None
    finally:
        await _ensure_ended(child)
    if code == _TOO_LARGE_EXIT_CODE:
        raise ToolError("The page is too large once it is converted. Ask for format html.", code="too_large")
    if code:
        raise ToolError("The page cannot be converted. Ask for format html to see it as it is.")


async def _ensure_ended(child: asyncio.subprocess.Process) -> None:
    if child.returncode is None:
        with suppress(ProcessLookupError):
            child.kill()
        await child.wait()
