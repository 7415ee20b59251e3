"""Conversion of HTML pages to text or Markdown by html-to-markdown, in a child process with limits."""

from __future__ import annotations

import json
import re
from html import unescape
from importlib.util import find_spec
from typing import Any, Literal, TypeAlias

from surehand.builtin.conversion_process import (
    MAX_OUTPUT_BYTES,
    TOO_LARGE_EXIT_CODE,
    ConversionFailed,
    run_converter,
)
from surehand.core.errors import TimedOut, ToolError, Unavailable
from surehand.core.extras import install_command

ConversionFormat: TypeAlias = Literal["text", "markdown"]

MAX_CONVERSION_SECONDS = 10.0
MAX_BASE_URL_LENGTH = 300
"""Longest page URL that relative links are resolved with: a longer one could make a small page huge."""
MAX_TITLE_LENGTH = 300
_TITLE_SEARCH_LENGTH = 200_000
_TITLE = re.compile(r"<title(?:\s[^<>]{0,200})?>([^<]{0,2000})", re.IGNORECASE)
_EXCLUDED_ELEMENTS = ["script", "style", "template", "iframe", "object", "embed", "svg", "canvas", "noscript"]
_CONVERTER_PROGRAM = f"""
import json, sys
from html_to_markdown import ConversionOptions, PreprocessingOptions, convert
options = json.loads(sys.stdin.buffer.readline())
html = sys.stdin.buffer.read().decode("utf-8", "replace")
text = convert(html, ConversionOptions(**options, preprocessing=PreprocessingOptions(enabled=False))).content or ""
if len(text) > {MAX_OUTPUT_BYTES}:
    sys.exit({TOO_LARGE_EXIT_CODE})
sys.stdout.buffer.write(text.encode("utf-8", "replace"))
"""


async def convert_html(html: str, output_format: ConversionFormat, url: str) -> str:
    """The readable part of a page, without scripts, styles and hidden elements, with absolute links."""
    if find_spec("html_to_markdown") is None:
        raise Unavailable(f"webfetch needs the package html-to-markdown: {install_command('http')}")
    options = json.dumps(_conversion_options(output_format, url)).encode()
    page = html.replace("\0", "").encode("utf-8", "replace")
    try:
        output = await run_converter(_CONVERTER_PROGRAM, options + b"\n" + page, max_seconds=MAX_CONVERSION_SECONDS)
    except ConversionFailed as failure:
        raise _conversion_error(failure) from None
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


def _conversion_error(failure: ConversionFailed) -> ToolError:
    match failure.reason:
        case "timed_out":
            return TimedOut("The page is too complicated to be converted. Ask for format html.")
        case "too_large":
            return ToolError("The page is too large once it is converted. Ask for format html.", code="too_large")
    return ToolError("The page cannot be converted. Ask for format html to see it as it is.")


def find_title(html: str) -> str:
    """The title of a page on one line, or an empty string."""
    match = _TITLE.search(html, 0, _TITLE_SEARCH_LENGTH)
    return " ".join(unescape(match[1]).split())[:MAX_TITLE_LENGTH] if match else ""
