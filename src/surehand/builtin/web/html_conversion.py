"""Conversion of HTML pages to text or Markdown by html-to-markdown, in a child process with limits."""

from __future__ import annotations

import asyncio
import json
import sys
from contextlib import suppress
from importlib.util import find_spec
from tempfile import TemporaryFile
from typing import IO, Any, Literal, TypeAlias

from surehand.core.errors import TimedOut, ToolError, Unavailable
from surehand.core.extras import install_command

ConversionFormat: TypeAlias = Literal["text", "markdown"]

MAX_CONVERSION_SECONDS = 10.0
MAX_BASE_URL_LENGTH = 300
"""Longest page URL that relative links are resolved with: a longer one could make a small page huge."""
_EXCLUDED_ELEMENTS = ["script", "style", "template", "iframe", "object", "embed", "svg", "canvas", "noscript"]
_TOO_LARGE_EXIT_CODE = 3
# The converter holds the GIL, and a hostile page keeps it busy for seconds: 40 kB of nested quotations took two.
# So every page is converted in a process of its own, which costs about 50 ms and can be killed.
_CONVERTER_PROGRAM = f"""
import json, sys
try:
    import resource
    for name, limit in (("AS", 2 << 30), ("CPU", {MAX_CONVERSION_SECONDS:.0f}), ("CORE", 0)):
        resource.setrlimit(getattr(resource, "RLIMIT_" + name), (limit, limit))
except ImportError:
    pass
from html_to_markdown import ConversionOptions, PreprocessingOptions, convert
options = json.loads(sys.stdin.buffer.readline())
html = sys.stdin.buffer.read().decode("utf-8", "replace")
text = convert(html, ConversionOptions(**options, preprocessing=PreprocessingOptions(enabled=False))).content or ""
if len(text) > 10 << 20:
    sys.exit({_TOO_LARGE_EXIT_CODE})
sys.stdout.buffer.write(text.encode("utf-8", "replace"))
"""


async def convert_html(html: str, output_format: ConversionFormat, url: str) -> str:
    """The readable part of a page, without scripts, styles and hidden elements, with absolute links."""
    if find_spec("html_to_markdown") is None:
        raise Unavailable(f"webfetch needs the package html-to-markdown: {install_command('http')}")
    options = json.dumps(_conversion_options(output_format, url)).encode()
    page = html.replace("\0", "").encode("utf-8", "replace")
    output = await _run_converter(options + b"\n" + page)
    return output.decode().strip()


def _conversion_options(output_format: ConversionFormat, url: str) -> dict[str, Any]:
    base_url = url.partition("?")[0]
    return {
        "output_format": "plain" if output_format == "text" else "markdown",
        "extract_metadata": False,
        "exclude_selectors": _EXCLUDED_ELEMENTS,
        "inline_data_media": "alt_text_only",
        "base_url": base_url if len(base_url) <= MAX_BASE_URL_LENGTH else None,
        "compact_tables": True,
        "max_depth": 200,
    }


async def _run_converter(program_input: bytes) -> bytes:
    # Files instead of pipes: no task has to feed and drain them, and a killed child leaves nothing behind.
    with TemporaryFile() as stdin, TemporaryFile() as stdout:
        stdin.write(program_input)
        stdin.seek(0)
        await _run_child(stdin, stdout)
        stdout.seek(0)
        return stdout.read()


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
            exit_code = await child.wait()
    except TimeoutError:
        raise TimedOut("The page is too complicated to be converted. Ask for format html.") from None
    finally:
        await _ensure_ended(child)
    if exit_code == _TOO_LARGE_EXIT_CODE:
        raise ToolError("The page is too large once it is converted. Ask for format html.", code="too_large")
    if exit_code:
        raise ToolError("The page cannot be converted. Ask for format html to see it as it is.")


async def _ensure_ended(child: asyncio.subprocess.Process) -> None:
    if child.returncode is None:
        with suppress(ProcessLookupError):
            child.kill()
        await child.wait()
