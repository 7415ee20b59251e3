"""Content blocks: the parts of an outcome that models and people read, and their text form.

A block is one of the classes below, or a plain dictionary with a `type`, which `parse_blocks` turns into one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from dataclasses import fields as dataclass_fields
from functools import cache
from typing import Any, ClassVar, TypeAlias


@dataclass(frozen=True, slots=True)
class Text:
    """Plain text."""

    type: ClassVar[str] = "text"
    text: str


@dataclass(frozen=True, slots=True)
class Json:
    """A JSON value, and its `text`: the serialized value, if no other text is given."""

    type: ClassVar[str] = "json"
    data: Any
    text: str = ""

    def __post_init__(self) -> None:
        if not self.text:
            object.__setattr__(self, "text", to_text(self.data))


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


@dataclass(frozen=True, slots=True)
class OtherBlock:
    """A block of a kind that has no class of its own, such as `video` or `code`: its fields pass through unchanged."""

    type: str
    fields: Mapping[str, Any] = field(default_factory=dict)


Block: TypeAlias = Text | Json | Image | Audio | File | Resource | OtherBlock
BLOCK_TYPES = (Text, Json, Image, Audio, File, Resource, OtherBlock)
_CLASSES_BY_TYPE = {each.type: each for each in (Text, Json, Image, Audio, File, Resource)}
_REQUIRED_FIELDS: Mapping[str, tuple[str, ...]] = {
    "text": ("text",),
    "json": ("data",),
    "image": ("data", "url"),
    "audio": ("data", "url"),
    "file": ("data", "url"),
    "resource": ("uri",),
    "document": ("source",),
    "video": ("source",),
    "tool_use": ("input",),
    "tool_result": ("content",),
    "reasoning": ("text",),
    "xml": ("text",),
    "csv": ("text",),
    "html": ("text",),
    "code": ("text",),
    "generated_image": ("data", "url"),
    "generated_file": ("data", "uri"),
    "executable_code": ("code",),
    "code_execution_result": ("output",),
}
"""The kinds of blocks, each with the fields of which a block has one. A dictionary without it is data, not a block."""
_FIELD_ALIASES = {"mimeType": "mime_type", "media_type": "mime_type"}
_MAX_SHOWN_CHARS = 500
"""Longer strings in a block without text are left out of its text: they are mostly base64."""


def parse_blocks(value: Any) -> tuple[Block, ...] | None:
    """The content blocks that a value consists of, alone or in a list; None for any other value."""
    if isinstance(value, (list, tuple)):
        blocks = tuple(map(_parse_block, value))
        return blocks if blocks and None not in blocks else None  # type: ignore[return-value]  # no None is left
    block = _parse_block(value)
    return None if block is None else (block,)


def _parse_block(value: Any) -> Block | None:
    if isinstance(value, BLOCK_TYPES):
        return value
    if type(value) is not dict or not isinstance(value.get("type"), str):
        return None
    block_class = _CLASSES_BY_TYPE.get(value["type"])
    fields = value if block_class is None else _own_fields(value, block_class)
    if not any(fields.get(name) is not None for name in _REQUIRED_FIELDS.get(value["type"], ())):
        return None
    return block_from_fields({"type": value["type"], **fields})


def _own_fields(value: dict[str, Any], block_class: type[Any]) -> dict[str, Any]:
    """The fields of a dictionary that a class of ours has; empty if one is not the text that it must be."""
    fields = dict(value)
    # The Messages API of Anthropic nests the data of an image in `source`, MCP that of a resource in `resource`.
    for name in ("source", "resource"):  # as other programs nest them: `{"type": "base64", "data": ...}`
        if isinstance(value.get(name), Mapping):
            fields |= value[name]
    named = {_FIELD_ALIASES.get(name, name): item for name, item in fields.items()}
    own = {each.name: named[each.name] for each in dataclass_fields(block_class) if each.name in named}
    is_text = all(isinstance(item, str) for name, item in own.items() if name != "data" or block_class is not Json)
    return own if is_text else {}


def block_from_fields(stored: Mapping[str, Any]) -> Block:
    """The block with these fields, `type` among them: the opposite of `block_fields`."""
    fields = {name: value for name, value in stored.items() if name != "type"}
    block_class = _CLASSES_BY_TYPE.get(stored["type"])
    return OtherBlock(stored["type"], fields) if block_class is None else block_class(**fields)


def block_fields(block: Block) -> dict[str, Any]:
    """The block as a plain dictionary, with its `type`."""
    if isinstance(block, OtherBlock):
        return {"type": block.type, **block.fields}
    return {"type": block.type, **{each.name: getattr(block, each.name) for each in dataclass_fields(block)}}


def map_block_values(block: Block, change: Callable[[Any], Any]) -> Block:
    """The block with each of its values changed, for example redacted."""
    fields = block_fields(block)
    return block_from_fields({name: value if name == "type" else change(value) for name, value in fields.items()})


def block_text(block: Block) -> str:
    """The text of a block, for models that read only text."""
    match block:
        case Text(text) | Json(text=text):
            return text
        case Resource(uri=uri, text=text):
            return text or f"[resource: {uri}]"
        case Image() | Audio() | File():
            # Four base64 characters hold three bytes; each `=` of the padding stands for one byte less.
            byte_count = len(block.data) * 3 // 4 - block.data.count("=")
            size = f"{byte_count} bytes" if block.data else block.url
            return f"[{block.type}: {block.mime_type}, {size}]"
        case OtherBlock(fields={"text": str(text)}):
            return text
        case OtherBlock():
            return to_text(_shorten_strings(block_fields(block)))


def _shorten_strings(value: Any) -> Any:
    """The value with long strings replaced by their size."""
    if isinstance(value, str):
        return value if len(value) <= _MAX_SHOWN_CHARS else f"[{len(value)} characters]"
    if isinstance(value, Mapping):
        return {name: _shorten_strings(item) for name, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, bytes):
        return [_shorten_strings(item) for item in value]
    return value


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
