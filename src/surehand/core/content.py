"""Content blocks: the parts of an outcome that models and people read, and their text form."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar, TypeAlias


@dataclass(frozen=True, slots=True)
class Text:
    """Plain text."""

    type: ClassVar[str] = "text"
    text: str


@dataclass(frozen=True, slots=True)
class Json:
    """A JSON value. `text` is the text form, where it differs from the serialized value."""

    type: ClassVar[str] = "json"
    data: Any
    text: str | None = None


@dataclass(frozen=True, slots=True)
class Image:
    """An image: base64 `data` or a `url`."""

    type: ClassVar[str] = "image"
    data: str = ""
    mime_type: str = "image/png"
    url: str = ""


@dataclass(frozen=True, slots=True)
class Audio:
    """An audio recording: base64 `data` or a `url`."""

    type: ClassVar[str] = "audio"
    data: str = ""
    mime_type: str = "audio/wav"
    url: str = ""


@dataclass(frozen=True, slots=True)
class File:
    """A file: base64 `data` or a `url`, with the file name to save it under."""

    type: ClassVar[str] = "file"
    data: str = ""
    mime_type: str = "application/octet-stream"
    filename: str = ""
    url: str = ""


@dataclass(frozen=True, slots=True)
class Resource:
    """A resource that can be read at its URI."""

    type: ClassVar[str] = "resource"
    uri: str
    name: str = ""
    mime_type: str = ""
    text: str = ""


Block: TypeAlias = Text | Json | Image | Audio | File | Resource
BLOCK_TYPES = (Text, Json, Image, Audio, File, Resource)


def block_text(block: Block) -> str:
    """The text of a block, for models that read only text."""
    match block:
        case Text(text):
            return text
        case Json(data, text):
            return to_text(data) if text is None else text
        case Resource(uri=uri, text=text):
            return text or f"[resource: {uri}]"
        case Image() | Audio() | File():
            # Four base64 characters hold three bytes; each `=` of the padding stands for one byte less.
            byte_count = len(block.data) * 3 // 4 - block.data.count("=")
            size = f"{byte_count} bytes" if block.data else block.url
            return f"[{block.type}: {block.mime_type}, {size}]"


def to_text(value: Any) -> str:
    """A value as text: a string unchanged, any other value as JSON."""
    if isinstance(value, str):
        return str.__str__(value)  # `str()` of a string enum gives the member's name, not its value
    return to_json(value).decode()


def to_json(value: Any) -> bytes:
    """Serialize a value that a handler may return: plain values, dataclasses, pydantic models, dates, paths, bytes."""
    return _load_serializer()(value, bytes_mode="base64", inf_nan_mode="strings")


@cache
def _load_serializer() -> Callable[..., bytes]:
    from pydantic_core import to_json  # imported on first use: calls that return numbers or strings never need it

    return to_json
