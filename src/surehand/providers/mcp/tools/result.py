"""Content: what a tool of a server gave back, as an outcome; it is data, whatever it says."""

from __future__ import annotations

import json
import re
from base64 import b64decode
from binascii import Error
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import unquote

from surehand.core.argument_errors import short_repr
from surehand.core.content import Audio, Block, File, Image, Json, Resource, Text, block_text, to_text
from surehand.core.errors import ToolError
from surehand.core.outcome import Done
from surehand.core.sanitize import clean_line, strip_hidden
from surehand.providers.mcp.tools.plain_result import MAX_DIRECT_BLOCKS
from surehand.providers.mcp.tools.schema import ServerSchema
from surehand.providers.mcp.tools.schema_walk import measure_json, replace_non_finite

if TYPE_CHECKING:
    from mcp_types import CallToolResult  # costs most of a second to import

OutputCheck: TypeAlias = Callable[[Any], str | None]
"""Says what is wrong with structured content; None if nothing is."""
WireObject: TypeAlias = Mapping[str, Any]

DEFAULT_ERROR_MESSAGE = "The MCP tool returned an error"
MAX_CONTENT_BLOCKS = 10_000
"""Blocks of one result."""
HEAVY_RESULT_SIZE = 20_000
"""Values, or characters, of a result that is made ready beside the loop."""
MAX_METADATA_LENGTH = 10_000
"""Characters of an unknown block, or of an error's payload, that are kept beside the text."""
_SERVER_INFO_META_KEY = "io.modelcontextprotocol/serverInfo"
_WRAP_RESULT_KEY = "x-fastmcp-wrap-result"
_MIME_TYPE = re.compile(r"[a-z0-9][a-z0-9!#$&^_.+-]{0,126}/[a-z0-9][a-z0-9!#$&^_.+-]{0,126}")
_RENDERED_FIELDS = {
    "text": {"type", "text"},
    "image": {"type", "data", "mimeType"},
    "audio": {"type", "data", "mimeType"},
}
"""Fields whose content is in the block already."""


class OutputValidator:
    """Checks structured content against the schema that the server declared for it."""

    def __init__(self, schema: ServerSchema, *, wraps_result: bool) -> None:
        self._schema = schema
        self.wraps_result = wraps_result
        """Whether the value itself is under `result`, as a server marks it whose tool gives no object."""

    def __call__(self, value: Any) -> str | None:
        return self._schema.find_problem(value)

    def surely_accepts(self, value: Any) -> bool:
        """Whether a value is sound that is known to be plain and light; where not, nothing is said of it."""
        return self._schema.is_surely_valid(value)


def build_output_validator(output_schema: Any, *, where: str = "An MCP tool") -> OutputValidator | None:
    """The check for an output schema, compiled once; None if there is none, or none that can be used."""
    if not isinstance(output_schema, Mapping):
        return None
    schema = ServerSchema(output_schema, where=f"{where}: its output schema")
    return (
        OutputValidator(schema, wraps_result=output_schema.get(_WRAP_RESULT_KEY) is True)
        if schema.is_enforced
        else None
    )


def is_heavy(result: WireObject) -> bool:
    """Whether `done_of` may take so long that nobody else should wait for it; told in a millisecond."""
    blocks = result.get("content")
    if isinstance(blocks, list) and len(blocks) > MAX_DIRECT_BLOCKS:
        return True
    return (
        max(measure_json([result.get("structuredContent"), result.get("_meta"), blocks], HEAVY_RESULT_SIZE))
        >= HEAVY_RESULT_SIZE
    )


def done_from_result(result: CallToolResult | WireObject, validator: OutputCheck | None = None) -> Done:
    """The outcome of a call; raises `ToolError` for an error, and for what breaks the output schema.

    `data` is the structured content as it was sent, else the text, else a list with a line on each block. `content`
    is what a model is shown. What blocks say beside (annotations, titles, links) is under `blocks` in the metadata, and
    where `data` is no object, `structured` says whether it was sent as it is (`plain`) or under `result` (`wrapped`).
    """
    wire = _to_wire_object(result)
    given = wire.get("content") or ()
    if len(given) > MAX_CONTENT_BLOCKS:
        raise ToolError(
            f"The answer has {len(given):,} blocks, at most {MAX_CONTENT_BLOCKS:,}. Ask for less.", code="too_large"
        )
    sent = [_block_fields(block) for block in given]
    blocks = [_parse_block(block) for block in sent]
    if wire.get("isError"):
        raise _tool_error(wire, sent, blocks)
    if validator is not None:
        _validate_output(wire, validator)
    return _build_done(wire, sent, blocks, _result_metadata(wire, sent), validator)


def done_from_plain_result(result: dict[str, Any], validator: OutputValidator | None = None) -> Done:
    """The same of a result that is plain, and light."""
    if result.get("isError"):
        return done_from_result(result, validator)
    if validator is not None and not (
        "structuredContent" in result and validator.surely_accepts(result["structuredContent"])
    ):
        _validate_output(result, validator)
    sent = result["content"]
    meta = _result_meta(result) if "_meta" in result else None
    return _build_done(
        result,
        sent,
        [Text(strip_hidden(block["text"])) for block in sent],
        {"_meta": meta} if meta else None,
        validator,
    )


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
    if not isinstance(data, dict):  # how it was sent, for those who hand it on
        how = "plain" if data is wire["structuredContent"] else "wrapped"
        metadata = {**(metadata or {}), "structured": how}
    return Done(data, content=blocks or _blocks_for_data(data), metadata=metadata)


def _to_wire_object(result: CallToolResult | WireObject) -> WireObject:
    """As on the wire, but for the blocks; long strings are shared, not copied."""
    if isinstance(result, Mapping):
        return {key: value if key == "content" else replace_non_finite(value) for key, value in result.items()}
    given = (
        {"structuredContent": replace_non_finite(result.structured_content)}
        if "structured_content" in result.model_fields_set
        else {}
    )
    return {"content": result.content, "isError": result.is_error, "_meta": replace_non_finite(result.meta), **given}


def _block_fields(block: Any) -> dict[str, Any]:
    if hasattr(block, "model_dump"):
        return block.model_dump(mode="json", by_alias=True, exclude_none=True)  # type: ignore[no-any-return]
    return dict(block) if isinstance(block, Mapping) else {"type": "unknown", "value": block}


def _validate_output(wire: WireObject, validator: OutputCheck) -> None:
    if "structuredContent" not in wire:
        raise ToolError("The tool declares an output schema, but gave no structured content. Tell whoever runs it.")
    if problem := validator(wire["structuredContent"]):
        raise ToolError(f"The tool's result breaks its own output schema: {problem}. It may have done its work.")


def _structured_data(wire: WireObject, validator: OutputCheck | None) -> Any:
    data = wire["structuredContent"]
    if not isinstance(data, dict) or data.keys() != {"result"}:
        return data
    marked = (
        getattr(validator, "wraps_result", False) or _nested_value(wire.get("_meta"), "fastmcp", "wrap_result") is True
    )
    return data["result"] if marked else data


def _nested_value(value: Any, *path: str) -> Any:
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _blocks_for_data(data: Any) -> list[Block] | None:
    """Blocks for data that has none of its own; needed only where its text would hide something."""
    text = to_text(data)
    return None if (seen := strip_hidden(text)) == text else [Json(data, seen)]


def _done_from_blocks(sent: list[dict[str, Any]], blocks: list[Block], metadata: dict[str, Any] | None) -> Done:
    if not blocks:
        return Done(None, metadata=metadata)
    if not all(block["type"] == "text" and isinstance(block.get("text"), str) for block in sent):
        return Done(
            [_summarize_block(*pair) for pair in zip(sent, blocks, strict=True)], content=blocks, metadata=metadata
        )
    data = "\n".join(block["text"] for block in sent)
    is_all = len(blocks) == 1 and block_text(blocks[0]) == data
    return Done(data, content=None if is_all else blocks, metadata=metadata)


def _summarize_block(sent: WireObject, block: Block) -> Any:
    """A block without what it carries, which is in the content."""
    if isinstance(block, Text | Json):
        return sent.get("text", block.text) if sent.get("type") == "text" else block.text
    about = {"type": block.type, "mime_type": block.mime_type, "text": block_text(block)}
    return {**about, "uri": block.uri} if isinstance(block, Resource) else about


def _result_metadata(wire: WireObject, sent: list[dict[str, Any]]) -> dict[str, Any] | None:
    extras = {str(place): rest for place, block in enumerate(sent) if (rest := _extra_fields(block))}
    kept = {"_meta": _result_meta(wire), "blocks": extras}
    return {name: value for name, value in kept.items() if value} or None


def _result_meta(wire: WireObject) -> dict[str, Any]:
    """What the server says about the result; that it was this server is said with every one, and left out."""
    given = wire.get("_meta")
    return (
        {key: value for key, value in given.items() if key != _SERVER_INFO_META_KEY} if isinstance(given, dict) else {}
    )


def _extra_fields(block: dict[str, Any]) -> dict[str, Any]:
    """What a block says that its content does not."""
    shown = _RENDERED_FIELDS.get(str(block.get("type")), {"type"})
    if block.keys() <= shown:
        return {}
    rest: dict[str, Any] = replace_non_finite({key: value for key, value in block.items() if key not in shown})
    if isinstance(inner := rest.get("resource"), Mapping):
        rest["resource"] = {key: value for key, value in inner.items() if key not in ("text", "blob")}
    return rest if len(_to_json(rest)) <= MAX_METADATA_LENGTH else {}


def _tool_error(wire: WireObject, sent: list[dict[str, Any]], blocks: list[Block]) -> ToolError:
    beside = {"structuredContent": wire.get("structuredContent"), "_meta": _result_meta(wire)}
    said = [_sanitize_block(*pair) for pair in zip(sent, blocks, strict=True)]
    payload = {"content": said, **{name: value for name, value in beside.items() if value}}
    message = "\n".join(filter(None, map(block_text, blocks))).strip() or DEFAULT_ERROR_MESSAGE
    return ToolError(
        message, data=payload if len(_to_json(payload)) <= MAX_METADATA_LENGTH else wire.get("structuredContent")
    )


def _sanitize_block(sent: dict[str, Any], block: Block) -> dict[str, Any]:
    """A block as it was sent, but for what its text hides."""
    match sent, block:
        case {"type": "text"}, Text(text=text):
            return {**sent, "text": text}
        case {"resource": Mapping() as inner}, Resource(text=text) if "text" in inner:
            return {**sent, "resource": {**inner, "text": text}}
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
    uri, kind = _clean_uri(sent.get("uri")), _parse_mime_type(sent.get("mimeType"))
    if isinstance(text := sent.get("text"), str):
        return Resource(uri, mime_type=kind, text=strip_hidden(text))
    if isinstance(blob := sent.get("blob"), str):
        return _parse_media(kind.partition("/")[0], blob, kind, uri)
    return Resource(uri, mime_type=kind)


def _parse_media(kind: str, data: str, mime_type: Any, uri: str = "") -> Block:
    mime = _parse_mime_type(mime_type) or "application/octet-stream"
    if (sound := _normalize_base64(data)) is None:
        return Text(f"[{kind or 'file'}: {mime}, {len(data)} characters that are no base64]")
    if kind == mime.partition("/")[0] and kind in ("image", "audio"):
        return Image(sound, mime) if kind == "image" else Audio(sound, mime)
    return File(sound, mime, _filename_from_uri(uri))


def _normalize_base64(data: str) -> str | None:
    """The same in the one form that everybody reads; None if it is none, or empty."""
    packed = "".join(data.split()).rstrip("=").replace("-", "+").replace("_", "/")
    packed += "=" * (-len(packed) % 4)
    try:
        return packed if b64decode(packed, validate=True) else None
    except (Error, ValueError):
        return None


def _parse_mime_type(value: Any) -> str:
    """`type/subtype`, with none of its parameters; empty if it is no such thing."""
    found = _MIME_TYPE.match(value.strip().lower()) if isinstance(value, str) else None
    return found[0] if found else ""


def _clean_uri(uri: Any) -> str:
    return clean_line(uri, 2_000)


def _filename_from_uri(uri: str) -> str:
    name = unquote(uri.partition("?")[0].rpartition("/")[2])
    return re.sub(r"[^\w.() -]", "_", clean_line(name, 100)).lstrip(".")
