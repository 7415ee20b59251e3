"""Renders a Jupyter notebook (`.ipynb`, format 4) as lines for a model: each cell with its outputs. Used by `read`."""

from __future__ import annotations

import json
from base64 import b64decode
from binascii import Error
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from surehand.builtin.file_description import detect_image_type, format_byte_count
from surehand.core.content import Image
from surehand.core.sanitize import escape_line, escape_terminal_output

NOTEBOOK_SUFFIX = ".ipynb"
_TEXT_TYPES = ("text/plain", "text/markdown", "text/latex", "application/json")
"""Media types of an output that are shown as text, the best first."""
_IMAGE_TYPES = ("image/png", "image/jpeg", "image/gif", "image/webp")


@dataclass(slots=True)
class RenderedNotebook:
    """The lines of a notebook, and the images that belong to some of them."""

    lines: list[str] = field(default_factory=list)
    images: dict[int, Image] = field(default_factory=dict)
    """Images by the number of the line that stands for them, counted from 1."""
    cell_count: int = 0

    def add_text(self, text: str) -> None:
        """Add the lines of a text."""
        self.lines += text.removesuffix("\n").split("\n")

    def add_image(self, image: Image, size: int, cell_number: int) -> None:
        """Add a line that stands for an image."""
        self.lines.append(f"[image of cell {cell_number}: {image.mime_type}, {format_byte_count(size)}]")
        self.images[len(self.lines)] = image


def render_notebook(data: bytes) -> RenderedNotebook | None:
    """The cells of a notebook; None if the data is no notebook of format 4."""
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        return None
    match document:
        case {"nbformat": 4, "cells": list(cells)} if all(isinstance(cell, Mapping) for cell in cells):
            pass
        case _:
            return None
    notebook = RenderedNotebook(cell_count=len(cells))
    for number, cell in enumerate(cells, 1):
        if notebook.lines:
            notebook.lines.append("")
        notebook.lines.append(_cell_heading(number, cell))
        if source := _join(cell.get("source")):
            notebook.add_text(source)
        outputs = cell.get("outputs")
        for output in outputs if isinstance(outputs, list) else ():
            if isinstance(output, Mapping):
                _add_output(notebook, output, number)
    return notebook


def _cell_heading(number: int, cell: Mapping[str, Any]) -> str:
    kind = escape_line(str(cell.get("cell_type", "unknown")), 40)
    count = cell.get("execution_count")
    return f"[cell {number}: {kind}, run {count}]" if isinstance(count, int) else f"[cell {number}: {kind}]"


def _join(text: Any) -> str:
    """A text of a notebook, which may be a list of its lines."""
    parts = text if isinstance(text, list) else [text]
    return "".join(part for part in parts if isinstance(part, str))


def _add_output(notebook: RenderedNotebook, output: Mapping[str, Any], cell_number: int) -> None:
    match output.get("output_type"):
        case "stream":
            _add_output_text(notebook, _join(output.get("text")), cell_number)
        case "error":
            traceback = output.get("traceback")
            lines = [line for line in traceback if isinstance(line, str)] if isinstance(traceback, list) else []
            message = f"{output.get('ename', '')}: {output.get('evalue', '')}"
            _add_output_text(notebook, "\n".join(lines) or message, cell_number)
        case "execute_result" | "display_data":
            bundle = output.get("data")
            if isinstance(bundle, Mapping):
                _add_media(notebook, bundle, cell_number)


def _add_media(notebook: RenderedNotebook, bundle: Mapping[str, Any], cell_number: int) -> None:
    """Add one of the forms in which an output is stored: an image, or a text, or the names of its media types."""
    for media_type in _IMAGE_TYPES:
        decoded = _decode_image(bundle.get(media_type))
        if decoded is not None:
            image, size = decoded
            notebook.add_image(image, size, cell_number)
            return
    for media_type in _TEXT_TYPES:
        if media_type in bundle:
            value = bundle[media_type]
            text = json.dumps(value, ensure_ascii=False) if media_type == "application/json" else _join(value)
            _add_output_text(notebook, text, cell_number)
            return
    media_types = escape_line(", ".join(map(str, bundle)) or "nothing", 200)
    _add_output_text(notebook, f"(not shown: {media_types})", cell_number)


def _add_output_text(notebook: RenderedNotebook, text: str, cell_number: int) -> None:
    if text:
        notebook.lines.append(f"[output of cell {cell_number}]")
        notebook.add_text(escape_terminal_output(text))


def _decode_image(value: Any) -> tuple[Image, int] | None:
    """An image that model APIs accept, and its size in bytes."""
    encoded = "".join(_join(value).split())
    try:
        data = b64decode(encoded, validate=True)
    except (Error, ValueError):
        return None
    mime_type = detect_image_type(data)
    return None if mime_type is None else (Image(encoded, mime_type), len(data))
