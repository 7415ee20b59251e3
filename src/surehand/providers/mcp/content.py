"""Content: what a tool of a server gave back, as an outcome; it is data, whatever it says."""

from __future__ import annotations

import json
import re
from base64 import b64decode
from binascii import Error
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import unquote

from surehand.core.content import Audio, Block, File, Image, Json, Resource, Text, block_text, to_text
from surehand.core.errors import ToolError
from surehand.core.explain import preview
from surehand.core.outcome import Done
from surehand.core.sanitize import clean_line, strip_hidden
from surehand.providers.mcp.plain_result import MAX_DIRECT_BLOCKS
from surehand.providers.mcp.schema import Schema
from surehand.providers.mcp.walk import finite, size

if TYPE_CHECKING:
    from mcp_types import CallToolResult  # costs most of a second to import

Check: TypeAlias = Callable[[Any], str | None]
"""Says what is wrong with structured content; None if nothing is."""
Wire: TypeAlias = Mapping[str, Any]

NO_REASON = "The MCP tool returned an error"
MOST_BLOCKS = 10_000
"""Blocks of one result."""
HEAVY = 20_000
"""Values, or characters, of a result that is made ready beside the loop."""
MOST_KEPT = 10_000
"""Characters of an unknown block, or of an error's payload, that are kept beside the text."""
_SERVER = "io.modelcontextprotocol/serverInfo"
_WRAPS = "x-fastmcp-wrap-result"
_MIME = re.compile(r"[a-z0-9][a-z0-9!#$&^_.+-]{0,126}/[a-z0-9][a-z0-9!#$&^_.+-]{0,126}")
_SHOWN = {"text": {"type", "text"}, "image": {"type", "data", "mimeType"}, "audio": {"type", "data", "mimeType"}}
"""Fields whose content is in the block already."""


class Checker:
    """Checks structured content against the schema that the server declared for it."""

    def __init__(self, schema: Schema, *, wraps: bool) -> None:
        self._schema = schema
        self.wraps = wraps
        """Whether the value itself is under `result`, as a server marks it whose tool gives no object."""

    def __call__(self, value: Any) -> str | None:
        return self._schema.complaint(value)

    def takes(self, value: Any) -> bool:
        """Whether a value is sound that is known to be plain and light; where not, nothing is said of it."""
        return self._schema.surely_takes(value)


def checker_of(output_schema: Any, *, where: str = "An MCP tool") -> Checker | None:
    """The check for an output schema, compiled once; None if there is none, or none that can be used."""
    if not isinstance(output_schema, Mapping):
        return None
    schema = Schema(output_schema, where=f"{where}: its output schema")
    return Checker(schema, wraps=output_schema.get(_WRAPS) is True) if schema.checks else None


def is_heavy(wire: Wire) -> bool:
    """Whether `done_of` may take so long that nobody else should wait for it; told in a millisecond."""
    blocks = wire.get("content")
    if isinstance(blocks, list) and len(blocks) > MAX_DIRECT_BLOCKS:
        return True
    return max(size([wire.get("structuredContent"), wire.get("_meta"), blocks], HEAVY)) >= HEAVY


def done_of(result: CallToolResult | Wire, check: Check | None = None) -> Done:
    """The outcome of a call; raises `ToolError` for an error, and for what breaks the output schema.

    `data` is the structured content as it was sent, else the text, else a list with a line on each block. `content`
    is what a model is shown. What blocks say beside (annotations, titles, links) is under `blocks` in the metadata, and
    where `data` is no object, `structured` says whether it was sent as it is (`plain`) or under `result` (`wrapped`).
    """
    wire = _wire(result)
    given = wire.get("content") or ()
    if len(given) > MOST_BLOCKS:
        raise ToolError(
            f"The answer has {len(given):,} blocks, at most {MOST_BLOCKS:,}. Ask for less.", code="too_large"
        )
    sent = [_fields(block) for block in given]
    blocks = [_block(block) for block in sent]
    if wire.get("isError"):
        raise _error(wire, sent, blocks)
    if check is not None:
        _fits(wire, check)
    return _done(wire, sent, blocks, _metadata(wire, sent), check)


def done_of_plain(wire: dict[str, Any], check: Checker | None = None) -> Done:
    """The same of a result that is plain, and light."""
    if wire.get("isError"):
        return done_of(wire, check)
    if check is not None and not ("structuredContent" in wire and check.takes(wire["structuredContent"])):
        _fits(wire, check)
    sent = wire["content"]
    meta = _meta(wire) if "_meta" in wire else None
    return _done(
        wire, sent, [Text(strip_hidden(block["text"])) for block in sent], {"_meta": meta} if meta else None, check
    )


def _done(
    wire: Wire, sent: list[dict[str, Any]], blocks: list[Block], metadata: dict[str, Any] | None, check: Check | None
) -> Done:
    if wire.get("structuredContent") is None and (blocks or "structuredContent" not in wire):
        return _of_blocks(sent, blocks, metadata)
    data = _unwrapped(wire, check)
    if not isinstance(data, dict):  # how it was sent, for those who hand it on
        how = "plain" if data is wire["structuredContent"] else "wrapped"
        metadata = {**(metadata or {}), "structured": how}
    return Done(data, content=blocks or _shown(data), metadata=metadata)


def _wire(result: CallToolResult | Wire) -> Wire:
    """As on the wire, but for the blocks; long strings are shared, not copied."""
    if isinstance(result, Mapping):
        return {key: value if key == "content" else finite(value) for key, value in result.items()}
    given = (
        {"structuredContent": finite(result.structured_content)}
        if "structured_content" in result.model_fields_set
        else {}
    )
    return {"content": result.content, "isError": result.is_error, "_meta": finite(result.meta), **given}


def _fields(block: Any) -> dict[str, Any]:
    if hasattr(block, "model_dump"):
        return block.model_dump(mode="json", by_alias=True, exclude_none=True)  # type: ignore[no-any-return]
    return dict(block) if isinstance(block, Mapping) else {"type": "unknown", "value": block}


def _fits(wire: Wire, check: Check) -> None:
    if "structuredContent" not in wire:
        raise ToolError("The tool declares an output schema, but gave no structured content. Tell whoever runs it.")
    if problem := check(wire["structuredContent"]):
        raise ToolError(f"The tool's result breaks its own output schema: {problem}. It may have done its work.")


def _unwrapped(wire: Wire, check: Check | None) -> Any:
    data = wire["structuredContent"]
    if not isinstance(data, dict) or data.keys() != {"result"}:
        return data
    marked = getattr(check, "wraps", False) or _under(wire.get("_meta"), "fastmcp", "wrap_result") is True
    return data["result"] if marked else data


def _under(value: Any, *path: str) -> Any:
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _shown(data: Any) -> list[Block] | None:
    """Blocks for data that has none of its own; needed only where its text would hide something."""
    text = to_text(data)
    return None if (seen := strip_hidden(text)) == text else [Json(data, seen)]


def _of_blocks(sent: list[dict[str, Any]], blocks: list[Block], metadata: dict[str, Any] | None) -> Done:
    if not blocks:
        return Done(None, metadata=metadata)
    if not all(block["type"] == "text" and isinstance(block.get("text"), str) for block in sent):
        return Done([_summary(*pair) for pair in zip(sent, blocks, strict=True)], content=blocks, metadata=metadata)
    data = "\n".join(block["text"] for block in sent)
    is_all = len(blocks) == 1 and block_text(blocks[0]) == data
    return Done(data, content=None if is_all else blocks, metadata=metadata)


def _summary(sent: Wire, block: Block) -> Any:
    """A block without what it carries, which is in the content."""
    if isinstance(block, Text | Json):
        return sent.get("text", block.text) if sent.get("type") == "text" else block.text
    about = {"type": block.type, "mime_type": block.mime_type, "text": block_text(block)}
    return {**about, "uri": block.uri} if isinstance(block, Resource) else about


def _metadata(wire: Wire, sent: list[dict[str, Any]]) -> dict[str, Any] | None:
    extras = {str(place): rest for place, block in enumerate(sent) if (rest := _beside(block))}
    kept = {"_meta": _meta(wire), "blocks": extras}
    return {name: value for name, value in kept.items() if value} or None


def _meta(wire: Wire) -> dict[str, Any]:
    """What the server says about the result; that it was this server is said with every one, and left out."""
    given = wire.get("_meta")
    return {key: value for key, value in given.items() if key != _SERVER} if isinstance(given, dict) else {}


def _beside(block: dict[str, Any]) -> dict[str, Any]:
    """What a block says that its content does not."""
    shown = _SHOWN.get(str(block.get("type")), {"type"})
    if block.keys() <= shown:
        return {}
    rest: dict[str, Any] = finite({key: value for key, value in block.items() if key not in shown})
    if isinstance(inner := rest.get("resource"), Mapping):
        rest["resource"] = {key: value for key, value in inner.items() if key not in ("text", "blob")}
    return rest if len(_json(rest)) <= MOST_KEPT else {}


def _error(wire: Wire, sent: list[dict[str, Any]], blocks: list[Block]) -> ToolError:
    beside = {"structuredContent": wire.get("structuredContent"), "_meta": _meta(wire)}
    said = [_seen(*pair) for pair in zip(sent, blocks, strict=True)]
    payload = {"content": said, **{name: value for name, value in beside.items() if value}}
    message = "\n".join(filter(None, map(block_text, blocks))).strip() or NO_REASON
    return ToolError(message, data=payload if len(_json(payload)) <= MOST_KEPT else wire.get("structuredContent"))


def _seen(sent: dict[str, Any], block: Block) -> dict[str, Any]:
    """A block as it was sent, but for what its text hides."""
    match sent, block:
        case {"type": "text"}, Text(text=text):
            return {**sent, "text": text}
        case {"resource": Mapping() as inner}, Resource(text=text) if "text" in inner:
            return {**sent, "resource": {**inner, "text": text}}
    return sent


def _json(value: Any) -> str:
    return json.dumps(value, default=repr)


def _block(sent: dict[str, Any]) -> Block:
    match sent:
        case {"type": "text", "text": str(text)}:
            return Text(strip_hidden(text))
        case {"type": "image" | "audio" as kind, "data": str(data)}:
            return _media(str(kind), data, sent.get("mimeType"))
        case {"type": "resource", "resource": Mapping() as resource}:
            return _resource(resource)
        case {"type": "resource_link", "uri": str(uri)}:
            return Resource(_address(uri), clean_line(sent.get("name")), _mime(sent.get("mimeType")))
    sent.setdefault("type", "unknown")
    return Text(f"[{clean_line(str(sent['type']), 50)}: {clean_line(preview(sent, 300), 300)}]")


def _resource(sent: Wire) -> Block:
    uri, kind = _address(sent.get("uri")), _mime(sent.get("mimeType"))
    if isinstance(text := sent.get("text"), str):
        return Resource(uri, mime_type=kind, text=strip_hidden(text))
    if isinstance(blob := sent.get("blob"), str):
        return _media(kind.partition("/")[0], blob, kind, uri)
    return Resource(uri, mime_type=kind)


def _media(kind: str, data: str, given: Any, uri: str = "") -> Block:
    mime = _mime(given) or "application/octet-stream"
    if (sound := _base64(data)) is None:
        return Text(f"[{kind or 'file'}: {mime}, {len(data)} characters that are no base64]")
    if kind == mime.partition("/")[0] and kind in ("image", "audio"):
        return Image(sound, mime) if kind == "image" else Audio(sound, mime)
    return File(sound, mime, _filename(uri))


def _base64(data: str) -> str | None:
    """The same in the one form that everybody reads; None if it is none, or empty."""
    packed = "".join(data.split()).rstrip("=").replace("-", "+").replace("_", "/")
    packed += "=" * (-len(packed) % 4)
    try:
        return packed if b64decode(packed, validate=True) else None
    except (Error, ValueError):
        return None


def _mime(given: Any) -> str:
    """`type/subtype`, with none of its parameters; empty if it is no such thing."""
    found = _MIME.match(given.strip().lower()) if isinstance(given, str) else None
    return found[0] if found else ""


def _address(uri: Any) -> str:
    return clean_line(uri, 2_000)


def _filename(uri: str) -> str:
    name = unquote(uri.partition("?")[0].rpartition("/")[2])
    return re.sub(r"[^\w.() -]", "_", clean_line(name, 100)).lstrip(".")
