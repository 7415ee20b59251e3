"""Content blocks: the parts of an outcome that a model or a person is shown."""

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
    """A JSON value, and the text it is shown as when that is not simply the value itself."""

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
    """A sound: base64 `data` or a `url`."""

    type: ClassVar[str] = "audio"
    data: str = ""
    mime_type: str = "audio/wav"
    url: str = ""


@dataclass(frozen=True, slots=True)
class File:
    """A file: base64 `data` or a `url`, with the name it should be saved under."""

    type: ClassVar[str] = "file"
    data: str = ""
    mime_type: str = "application/octet-stream"
    filename: str = ""
    url: str = ""


@dataclass(frozen=True, slots=True)
class Resource:
    """Something that can be read elsewhere, by its address."""

    type: ClassVar[str] = "resource"
    uri: str
    name: str = ""
    mime_type: str = ""
    text: str = ""


Block: TypeAlias = Text | Json | Image | Audio | File | Resource
BLOCK_TYPES = (Text, Json, Image, Audio, File, Resource)


def block_text(block: Block) -> str:
    """What a model that reads only text is shown of a block."""
    match block:
        case Text(text):
            return text
        case Json(data, text):
            return to_text(data) if text is None else text
        case Resource(uri=uri, text=text):
            return text or f"[resource: {uri}]"
        case Image() | Audio() | File():
            size = f"{len(block.data) * 3 // 4 - block.data.count('=')} bytes" if block.data else block.url
            return f"[{block.type}: {block.mime_type}, {size}]"


def to_text(value: Any) -> str:
    """A plain value as text: a string as it is, anything else as JSON."""
    if isinstance(value, str):
        return str.__str__(value)  # an enum of strings would show its name
    return to_json(value).decode()


def to_json(value: Any) -> bytes:
    """Serialise what a handler may return: plain values, dataclasses, pydantic models, dates, paths, bytes."""
    return _load_serializer()(value, bytes_mode="base64", inf_nan_mode="strings")


@cache
def _load_serializer() -> Callable[..., bytes]:
    from pydantic_core import to_json  # loaded on first use: plain calls never need it

    return to_json
