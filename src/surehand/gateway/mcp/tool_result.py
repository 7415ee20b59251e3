"""Result: an outcome as the result of `tools/call`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from mcp.shared.exceptions import MCPError
from mcp_types import INTERNAL_ERROR
from pydantic_core import from_json, to_json

from surehand.core.content import Audio, Block, File, Image, Json, Resource, Text, block_text
from surehand.core.outcome import Done, Failed, Outcome, Pending
from surehand.core.sanitize import replace_surrogates, replace_surrogates_in
from surehand.gateway.mcp.result_safety import OWN_NAMESPACE, remove_reserved_keys, sanitize_block
from surehand.runtime.outputs import READER_TOOL_NAME, parse_placeholder

if TYPE_CHECKING:
    from surehand.gateway.mcp.served_runtime import ServedTool

BLOCK_TYPE_INTRODUCED_IN = {"audio": "2025-03-26", "resource_link": "2025-06-18"}
"""Kinds of blocks that were not always there, and the first protocol that has them."""
_LATEST_BLOCK_TYPE_VERSION = max(BLOCK_TYPE_INTRODUCED_IN.values())


def downgrade_result(result: dict[str, Any], protocol_version: str) -> dict[str, Any]:
    """The same, with blocks that this protocol does not have told in words."""
    if protocol_version >= _LATEST_BLOCK_TYPE_VERSION:  # versions are dates, so they compare as texts
        return result
    return {**result, "content": [_downgrade_block(block, protocol_version) for block in result.get("content", ())]}


def _downgrade_block(block: dict[str, Any], protocol_version: str) -> dict[str, Any]:
    kind = block.get("type", "")
    if BLOCK_TYPE_INTRODUCED_IN.get(kind, "") <= protocol_version:
        return block
    data = block.get("data", "")
    what = block.get("uri") or f"{block.get('mimeType')}, {len(data) * 3 // 4 - data.count('=')} bytes"
    return {"type": "text", "text": f"[{kind.removesuffix('_link')}: {what}]"}


_COMPLETE_RESULT = {"resultType": "complete"}
OUTPUT_URI_PREFIX = f"{OWN_NAMESPACE}://outputs/"
"""What the addresses of artifacts begin with."""
CODE_META_KEY, CALL_ID_META_KEY, WAITING_FOR_META_KEY = (
    f"{OWN_NAMESPACE}/code",
    f"{OWN_NAMESPACE}/callId",
    f"{OWN_NAMESPACE}/waitingFor",
)


def render_result(outcome: Outcome, served_tool: ServedTool | None = None, *, is_modern: bool = True) -> dict[str, Any]:
    """What a client is given; raises where the call itself came to no end that a tool could tell of."""
    match outcome:
        case Done() if served_tool is not None:
            return _render_done(
                outcome,
                has_output_schema=served_tool.has_output_schema,
                is_modern=is_modern,
                is_external=served_tool.has_external_content,
            )
        case Done():
            return _render_done(outcome, has_output_schema=False, is_modern=is_modern, is_external=True)
        case Failed(code="interrupted"):
            raise MCPError(INTERNAL_ERROR, replace_surrogates(outcome.message))
        case Failed():
            return _render_failure(outcome, served_tool)
        case Pending():
            waits = {CALL_ID_META_KEY: outcome.call_id, WAITING_FOR_META_KEY: outcome.waiting_for}
            told = (
                outcome.text
                if served_tool is None
                else served_tool.deferred_results.pending_text(served_tool.listing.name, outcome)
            )
            # Of a tool that says what its results look like, anything else is taken for a broken one.
            is_typed = served_tool is not None and served_tool.has_output_schema
            return {**_COMPLETE_RESULT, "content": [_text_block(told)], "isError": is_typed, "_meta": waits}


def failure_message(failed: Failed, served_tool: ServedTool | None) -> str:
    """What a client is told of a failure. What a bug says of itself is for those who read our log."""
    match failed.code, failed.data:
        case "crashed", {"exception": str(kind)}:
            # The tool that tells of others' calls has not crashed itself.
            name = (
                "The tool"
                if served_tool is None or served_tool.listing.kind == "internal"
                else served_tool.entry["name"]
            )
            return f"{name} crashed with {kind}. Its details are in the server's log."
    return failed.message


def _render_failure(failed: Failed, served_tool: ServedTool | None) -> dict[str, Any]:
    """A failure in our words, or in those of the server that told of it."""
    is_foreign = served_tool is not None and served_tool.listing.kind == "mcp"
    match failed.data:
        case {"content": [_, *_] as blocks} if is_foreign and all(isinstance(block, Mapping) for block in blocks):
            said = {"content": [sanitize_block(replace_surrogates_in(block), is_external=True) for block in blocks]}
            if isinstance(structured := failed.data.get("structuredContent"), Mapping):
                said["structuredContent"] = replace_surrogates_in(structured)
            beside = failed.data.get("_meta")
            meta = {
                **(remove_reserved_keys(replace_surrogates_in(beside)) if isinstance(beside, Mapping) else {}),
                **_failure_meta(failed),
            }
            return {**_COMPLETE_RESULT, **said, "isError": True, "_meta": meta}
    content = [_text_block(failure_message(failed, served_tool)), *_artifact_links(_artifact_summary(failed))]
    return {**_COMPLETE_RESULT, "content": content, "isError": True, "_meta": _failure_meta(failed)}


def _failure_meta(failed: Failed) -> dict[str, Any]:
    again = {} if failed.retry_after is None else {f"{OWN_NAMESPACE}/retryAfter": failed.retry_after}
    return {CODE_META_KEY: failed.code, **again}


def _artifact_summary(failed: Failed) -> Any:
    """The summary of the artifact that a failure tells of, if it does."""
    if not isinstance(failed.data, Mapping):
        return parse_placeholder(failed.message)
    # What others say beside their failures tells of nothing that is kept here.
    return failed.data.get(READER_TOOL_NAME) if failed.code == "over_budget" else None


def artifact_name(handle: str) -> str:
    """What an artifact is called, in the link to it and in the list."""
    return f"output-{handle[-8:]}"


def _artifact_links(summary: Any) -> list[dict[str, Any]]:
    """The link to an artifact, where there is one."""
    match summary:
        case {"handle": str(handle), "bytes": int(size)}:
            link = _resource_link(f"{OUTPUT_URI_PREFIX}{handle}", artifact_name(handle), "text/plain")
            return [{**link, "title": "The whole output", "size": size}]
    return []


def _render_done(done: Done, *, has_output_schema: bool, is_modern: bool, is_external: bool) -> dict[str, Any]:
    metadata = done.metadata
    result: dict[str, Any] = {
        **_COMPLETE_RESULT,
        "content": _render_blocks(done, metadata, is_external),
        "isError": False,
    }
    structured = _structured_content(done, metadata.get("structured"), has_output_schema)
    if isinstance(structured, dict) or (is_modern and structured is not _ABSENT):
        result["structuredContent"] = structured
    if isinstance(meta := metadata.get("_meta"), Mapping):
        result["_meta"] = remove_reserved_keys(replace_surrogates_in(meta))
    return result


def _render_blocks(done: Done, metadata: Mapping[str, Any], is_external: bool) -> list[dict[str, Any]]:
    shown, beside = done.clipped_text, metadata.get("blocks")
    extras = beside if shown is None and isinstance(beside, Mapping) else {}
    blocks = [
        _render_block(block, extras.get(str(place)) if extras else None, is_external)
        for place, block in enumerate(done.content)
    ]
    if shown is not None:
        blocks += _artifact_links(parse_placeholder(shown))
    for block in done.attachments:
        blocks.append(_render_block(block, None, is_external))
    return blocks


_ABSENT = object()


def _structured_content(done: Done, mode: Any, has_output_schema: bool) -> Any:
    """The data for programs. It is left out where the text was cut, or is all there is, unless it was promised."""
    is_text = done.data is None or isinstance(done.data, str)
    if not has_output_schema and (done.clipped_text is not None or (is_text and mode is None)):
        return _ABSENT
    try:
        plain = from_json(
            done.data_json or to_json(done.data, bytes_mode="base64", inf_nan_mode="strings", fallback=str)
        )
    except ValueError:  # a number of thousands of digits, or a text that is none; what can be shown of it is shown
        return _ABSENT
    if isinstance(plain, dict) or mode == "plain":
        return plain
    return _ABSENT if done.has_own_content and mode is None and not has_output_schema else {"result": plain}


def _render_block(block: Block, extras: Any, is_external: bool) -> dict[str, Any]:
    """A block on the wire, with what its server said beside it, as far as that may be handed on."""
    if extras is None and isinstance(block, (Text, Json)):
        return _text_block(block_text(block))
    more = dict(extras) if isinstance(extras, Mapping) else {}
    about = more.pop("resource", None)
    made = _render_block_content(block, about if isinstance(about, Mapping) else None)
    beside = replace_surrogates_in({key: value for key, value in more.items() if key in _PASSED_ON_KEYS})
    return sanitize_block({**beside, **made}, is_external=is_external)


_PASSED_ON_KEYS = ("annotations", "_meta", "title", "description", "size", "icons")


def _render_block_content(block: Block, resource_fields: Mapping[str, Any] | None) -> dict[str, Any]:
    match block:
        case Resource(uri=uri, text=text) if text or resource_fields is not None:
            return _embedded_resource(
                {"uri": uri, "mimeType": block.mime_type or "text/plain", "text": text}, resource_fields
            )
        case Resource():
            return _resource_link(block.uri, block.name, block.mime_type)
        case Image() | Audio() | File() if resource_fields is not None and block.data:
            return _embedded_resource({"mimeType": block.mime_type, "blob": block.data}, resource_fields)
        case Image() | Audio() if block.data:
            return {"type": block.type, "data": block.data, "mimeType": block.mime_type}
        case File() if block.data:
            uri = f"file:///{quote(block.filename or 'output', errors='replace')}"
            return _embedded_resource({"uri": uri, "mimeType": block.mime_type, "blob": block.data}, resource_fields)
        case Image() | Audio() | File() if block.url:
            inline = _with_inline_data(block)
            return (
                _render_block_content(inline, None)
                if inline
                else _resource_link(block.url, getattr(block, "filename", ""), block.mime_type)
            )
        case _:
            return _text_block(block_text(block))


_DATA_URI = re.compile(r"data:([\w.+-]+/[\w.+-]+)?;base64,([A-Za-z0-9+/]+={0,2})")


def _with_inline_data(block: Image | Audio | File) -> Image | Audio | File | None:
    """The same with its data in it, where they are in its address."""
    found = _DATA_URI.fullmatch(block.url)
    return replace(block, url="", data=found[2], mime_type=found[1] or block.mime_type) if found else None


def _text_block(text: str) -> dict[str, Any]:
    return {"type": "text", "text": replace_surrogates(text)}


def _embedded_resource(resource: dict[str, Any], resource_fields: Mapping[str, Any] | None) -> dict[str, Any]:
    return {"type": "resource", "resource": replace_surrogates_in({**resource, **(resource_fields or {})})}


def _resource_link(uri: str, name: str, mime_type: str) -> dict[str, Any]:
    kind = {"mimeType": mime_type} if mime_type else {}
    return {
        "type": "resource_link",
        **replace_surrogates_in({"uri": uri, "name": name or uri.rpartition("/")[2] or uri, **kind}),
    }
