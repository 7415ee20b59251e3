"""Turns the result of a tool, as a server sent it, into a `Done` or a `ToolError`.

`tool_call.py` uses it. Results are untrusted: texts lose hidden characters, structured content is validated against the
output schema, and sizes are bounded.
"""

from __future__ import annotations

import json
import re
from base64 import b64decode
from binascii import Error
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import unquote

from surehand.core.argument_errors import short_repr
from surehand.core.content import Audio, Block, File, Image, Json, OtherBlock, Resource, Text, block_text, to_text
from surehand.core.errors import ToolError
from surehand.core.outcome import Done
from surehand.core.sanitize import clean_line, strip_hidden
from surehand.providers.mcp.tools.plain_result import MAX_DIRECT_BLOCKS
from surehand.providers.mcp.tools.schema import ServerSchema
from surehand.providers.mcp.tools.schema_walk import measure_json, replace_non_finite

if TYPE_CHECKING:
    from mcp_types import CallToolResult  # costs most of a second to import

OutputCheck: TypeAlias = Callable[[Any], str | None]
"""Returns the problem of structured content; None if it is valid."""
WireObject: TypeAlias = Mapping[str, Any]

DEFAULT_ERROR_MESSAGE = "The MCP tool returned an error"
MAX_CONTENT_BLOCKS = 10_000
"""Content blocks of one result."""
HEAVY_RESULT_SIZE = 20_000
"""Values, or characters, from which a result is converted in a thread, so as not to block the event loop."""
MAX_METADATA_LENGTH = 10_000
"""Characters of JSON up to which extra fields of a block, or the payload of an error, are kept."""
_SERVER_INFO_META_KEY = "io.modelcontextprotocol/serverInfo"
_WRAP_RESULT_KEY = "x-fastmcp-wrap-result"
_MIME_TYPE = re.compile(r"[a-z0-9][a-z0-9!#$&^_.+-]{0,126}/[a-z0-9][a-z0-9!#$&^_.+-]{0,126}")
_RENDERED_FIELDS = {
    "text": {"type", "text"},
    "image": {"type", "data", "mimeType"},
    "audio": {"type", "data", "mimeType"},
}
"""Fields of a block that its converted form contains."""


class OutputValidator:
    """Validates structured content against the output schema of its tool."""

    def __init__(self, schema: ServerSchema, *, wraps_result: bool) -> None:
        self._schema = schema
        self.wraps_result = wraps_result
        """Whether the server wraps values that are not objects as `{"result": value}`."""

    def __call__(self, value: Any) -> str | None:
        return self._schema.find_problem(value)

    def surely_accepts(self, value: Any) -> bool:
        """Whether a small value of plain JSON is valid. False may also mean unknown."""
        return self._schema.is_surely_valid(value)


def build_output_validator(output_schema: Any, *, where: str = "An MCP tool") -> OutputValidator | None:
    """The validator of an output schema; None if there is none, or if it cannot be compiled."""
    if not isinstance(output_schema, Mapping):
        return None
    schema = ServerSchema(output_schema, where=f"{where}: its output schema")
    return (
        OutputValidator(schema, wraps_result=output_schema.get(_WRAP_RESULT_KEY) is True)
        if schema.is_enforced
        else None
    )


def is_heavy(result: WireObject) -> bool:
    """Whether `done_from_result` may take long enough to block the event loop. Takes about a millisecond."""
    blocks = result.get("content")
    if isinstance(blocks, list) and len(blocks) > MAX_DIRECT_BLOCKS:
        return True
    parts = [result.get("structuredContent"), result.get("_meta"), blocks]
    return max(measure_json(parts, HEAVY_RESULT_SIZE)) >= HEAVY_RESULT_SIZE


def done_from_result(result: CallToolResult | WireObject, validator: OutputCheck | None = None) -> Done:
    """The outcome of a call. Raises `ToolError` for an error result, and for one that breaks the output schema.

    `data` is the structured content if there is any, else the text, else a list with a summary of each block. `content`
    is what a model reads. Extra fields of blocks (annotations, titles, links) are in the metadata under `blocks`. If
    `data` is not an object, `structured` in the metadata says whether it was sent bare (`plain`) or under `result`
    (`wrapped`).
    """
    wire = _to_wire_object(result)
    content = wire.get("content") or ()
    if len(content) > MAX_CONTENT_BLOCKS:
        raise ToolError(
            f"The answer has {len(content):,} blocks, at most {MAX_CONTENT_BLOCKS:,}. Ask for less.", code="too_large"
        )
    sent = [_block_fields(block) for block in content]
    blocks = [_parse_block(block) for block in sent]
    if wire.get("isError"):
        raise _tool_error(wire, sent, blocks)
    if validator is not None:
        _validate_output(wire, validator)
    return _build_done(wire, sent, blocks, _result_metadata(wire, sent), validator)


def done_from_plain_result(result: dict[str, Any], validator: OutputValidator | None = None) -> Done:
    """The outcome of a small plain result: equals `done_from_result`, with less work."""
    if result.get("isError"):
        return done_from_result(result, validator)
    if validator is not None:
        is_surely_valid = "structuredContent" in result and validator.surely_accepts(result["structuredContent"])
        if not is_surely_valid:
            _validate_output(result, validator)
    sent = result["content"]
    blocks: list[Block] = [Text(strip_hidden(block["text"])) for block in sent]
    meta = _result_meta(result) if "_meta" in result else None
    return _build_done(result, sent, blocks, {"_meta": meta} if meta else None, validator)


def _build_done(
    wire: WireObject,
    sent: list[dict[str, Any]],
    blocks: list[Block],
    metadata: dict[str, Any] | None,
    validator: OutputCheck | None,
) -> Done:
    if wire.get("structuredContent") is None and (blocks or "structuredContent" not in wire):
        return _done_from_blocks(sent, blocks, metadata)
    data = _structured_data(wire, validator)
    if not isinstance(data, dict):  # our own MCP server sends it to its clients in the same form
        form = "plain" if data is wire["structuredContent"] else "wrapped"
        metadata = {**(metadata or {}), "structured": form}
    return Done(data, content=blocks or _blocks_for_data(data), metadata=metadata)


def _to_wire_object(result: CallToolResult | WireObject) -> WireObject:
    """The fields as on the wire, with blocks unconverted. Long strings are shared, not copied."""
    if isinstance(result, Mapping):
        return {key: value if key == "content" else replace_non_finite(value) for key, value in result.items()}
    wire = {"content": result.content, "isError": result.is_error, "_meta": replace_non_finite(result.meta)}
    if "structured_content" in result.model_fields_set:  # null was sent, which is not the same as nothing
        wire["structuredContent"] = replace_non_finite(result.structured_content)
    return wire


def _block_fields(block: Any) -> dict[str, Any]:
    if hasattr(block, "model_dump"):
        return block.model_dump(mode="json", by_alias=True, exclude_none=True)  # type: ignore[no-any-return]
    return dict(block) if isinstance(block, Mapping) else {"type": "unknown", "value": block}


def _validate_output(wire: WireObject, validator: OutputCheck) -> None:
    if "structuredContent" not in wire:
        raise ToolError(
            "The tool declares an output schema, but gave no structured content. Report it to its operator."
        )
    if problem := validator(wire["structuredContent"]):
        raise ToolError(f"The tool's result breaks its own output schema: {problem}. It may have done its work.")


def _structured_data(wire: WireObject, validator: OutputCheck | None) -> Any:
    data = wire["structuredContent"]
    if not isinstance(data, dict) or data.keys() != {"result"}:
        return data
    is_marked_in_schema = isinstance(validator, OutputValidator) and validator.wraps_result
    is_marked_in_meta = _nested_value(wire.get("_meta"), "fastmcp", "wrap_result") is True
    return data["result"] if is_marked_in_schema or is_marked_in_meta else data


def _nested_value(value: Any, *path: str) -> Any:
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _blocks_for_data(data: Any) -> list[Block] | None:
    """Blocks for data without blocks; needed only if its text has hidden characters."""
    text = to_text(data)
    visible = strip_hidden(text)
    return None if visible == text else [Json(data, visible)]


def _done_from_blocks(sent: list[dict[str, Any]], blocks: list[Block], metadata: dict[str, Any] | None) -> Done:
    if not blocks:
        return Done(None, metadata=metadata)
    if not all(block["type"] == "text" and isinstance(block.get("text"), str) for block in sent):
        summaries = [_summarize_block(*pair) for pair in zip(sent, blocks, strict=True)]
        return Done(summaries, content=blocks, metadata=metadata)
    data = "\n".join(block["text"] for block in sent)
    is_same_text = len(blocks) == 1 and block_text(blocks[0]) == data
    return Done(data, content=None if is_same_text else blocks, metadata=metadata)


def _summarize_block(sent: WireObject, block: Block) -> Any:
    """A short form of a block, without its payload."""
    if isinstance(block, Text | Json):
        return sent.get("text", block.text) if sent.get("type") == "text" else block.text
    mime_type = "" if isinstance(block, OtherBlock) else block.mime_type
    summary = {"type": block.type, "mime_type": mime_type, "text": block_text(block)}
    return {**summary, "uri": block.uri} if isinstance(block, Resource) else summary


def _result_metadata(wire: WireObject, sent: list[dict[str, Any]]) -> dict[str, Any] | None:
    extras = {str(index): extra for index, block in enumerate(sent) if (extra := _extra_fields(block))}
    metadata = {"_meta": _result_meta(wire), "blocks": extras}
    return {name: value for name, value in metadata.items() if value} or None


def _result_meta(wire: WireObject) -> dict[str, Any]:
    """The `_meta` of a result without the server's own name, which every result carries."""
    meta = wire.get("_meta")
    if not isinstance(meta, dict):
        return {}
    return {key: value for key, value in meta.items() if key != _SERVER_INFO_META_KEY}


def _extra_fields(block: dict[str, Any]) -> dict[str, Any]:
    """The fields of a block that its converted form does not contain."""
    rendered = _RENDERED_FIELDS.get(str(block.get("type")), {"type"})
    if block.keys() <= rendered:
        return {}
    extra: dict[str, Any] = replace_non_finite({key: value for key, value in block.items() if key not in rendered})
    resource = extra.get("resource")
    if isinstance(resource, Mapping):
        extra["resource"] = {key: value for key, value in resource.items() if key not in ("text", "blob")}
    return extra if len(_to_json(extra)) <= MAX_METADATA_LENGTH else {}


def _tool_error(wire: WireObject, sent: list[dict[str, Any]], blocks: list[Block]) -> ToolError:
    payload: dict[str, Any] = {"content": [_sanitize_block(*pair) for pair in zip(sent, blocks, strict=True)]}
    extras = {"structuredContent": wire.get("structuredContent"), "_meta": _result_meta(wire)}
    payload |= {name: value for name, value in extras.items() if value}
    message = "\n".join(filter(None, map(block_text, blocks))).strip() or DEFAULT_ERROR_MESSAGE
    is_small = len(_to_json(payload)) <= MAX_METADATA_LENGTH
    return ToolError(message, data=payload if is_small else wire.get("structuredContent"))


def _sanitize_block(sent: dict[str, Any], block: Block) -> dict[str, Any]:
    """A block as sent, with its hidden characters removed."""
    match sent, block:
        case {"type": "text"}, Text(text=text):
            return {**sent, "text": text}
        case {"resource": Mapping() as resource}, Resource(text=text) if "text" in resource:
            return {**sent, "resource": {**resource, "text": text}}
    return sent


def _to_json(value: Any) -> str:
    return json.dumps(value, default=repr)


def _parse_block(sent: dict[str, Any]) -> Block:
    match sent:
        case {"type": "text", "text": str(text)}:
            return Text(strip_hidden(text))
        case {"type": "image" | "audio" as kind, "data": str(data)}:
            return _parse_media(str(kind), data, sent.get("mimeType"))
        case {"type": "resource", "resource": Mapping() as resource}:
            return _parse_resource(resource)
        case {"type": "resource_link", "uri": str(uri)}:
            return Resource(_clean_uri(uri), clean_line(sent.get("name")), _parse_mime_type(sent.get("mimeType")))
    sent.setdefault("type", "unknown")
    return Text(f"[{clean_line(str(sent['type']), 50)}: {clean_line(short_repr(sent, 300), 300)}]")


def _parse_resource(sent: WireObject) -> Block:
    uri = _clean_uri(sent.get("uri"))
    mime_type = _parse_mime_type(sent.get("mimeType"))
    if isinstance(text := sent.get("text"), str):
        return Resource(uri, mime_type=mime_type, text=strip_hidden(text))
    if isinstance(blob := sent.get("blob"), str):
        return _parse_media(mime_type.partition("/")[0], blob, mime_type, uri)
    return Resource(uri, mime_type=mime_type)


def _parse_media(kind: str, data: str, mime_type: Any, uri: str = "") -> Block:
    mime = _parse_mime_type(mime_type) or "application/octet-stream"
    encoded = _normalize_base64(data)
    if encoded is None:
        return Text(f"[{kind or 'file'}: {mime}, {len(data)} characters that are no base64]")
    if kind == mime.partition("/")[0] and kind in ("image", "audio"):
        return Image(encoded, mime) if kind == "image" else Audio(encoded, mime)
    return File(encoded, mime, _filename_from_uri(uri))


def _normalize_base64(data: str) -> str | None:
    """Standard base64 with padding; None if the text is not base64, or empty."""
    packed = "".join(data.split()).rstrip("=").replace("-", "+").replace("_", "/")
    packed += "=" * (-len(packed) % 4)
    try:
        return packed if b64decode(packed, validate=True) else None
    except (Error, ValueError):
        return None


def _parse_mime_type(value: Any) -> str:
    """`type/subtype` without parameters; empty if malformed."""
    match = _MIME_TYPE.match(value.strip().lower()) if isinstance(value, str) else None
    return match[0] if match else ""


def _clean_uri(uri: Any) -> str:
    return clean_line(uri, 2_000)


def _filename_from_uri(uri: str) -> str:
    name = unquote(uri.partition("?")[0].rpartition("/")[2])
    return re.sub(r"[^\w.() -]", "_", clean_line(name, 100)).lstrip(".")
