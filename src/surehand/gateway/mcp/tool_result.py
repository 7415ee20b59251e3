"""The result of `tools/call`: an outcome of the runtime as MCP content blocks, structured content and metadata."""

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

OUTPUT_URI_PREFIX = f"{OWN_NAMESPACE}://outputs/"
"""The beginning of the URIs of artifacts."""
CODE_META_KEY = f"{OWN_NAMESPACE}/code"
CALL_ID_META_KEY = f"{OWN_NAMESPACE}/callId"
WAITING_FOR_META_KEY = f"{OWN_NAMESPACE}/waitingFor"
RETRY_AFTER_META_KEY = f"{OWN_NAMESPACE}/retryAfter"
BLOCK_TYPE_INTRODUCED_IN = {"audio": "2025-03-26", "resource_link": "2025-06-18"}
"""Block types that the first protocol version does not have, with the version that introduced each."""
_LATEST_BLOCK_TYPE_VERSION = max(BLOCK_TYPE_INTRODUCED_IN.values())
_COMPLETE_RESULT = {"resultType": "complete"}
_PASSED_ON_KEYS = ("annotations", "_meta", "title", "description", "size", "icons")
_DATA_URI = re.compile(r"data:([\w.+-]+/[\w.+-]+)?;base64,([A-Za-z0-9+/]+={0,2})")
_ABSENT = object()
"""The result has no structured content; None would be a value of it."""


def render_result(outcome: Outcome, served_tool: ServedTool | None = None, *, is_modern: bool = True) -> dict[str, Any]:
    """Render an outcome as a result. Raises `MCPError` if the call was interrupted, and so has no result."""
    match outcome:
        case Done():
            return _render_done(
                outcome,
                has_output_schema=served_tool is not None and served_tool.has_output_schema,
                is_modern=is_modern,
                is_external=served_tool is None or served_tool.has_external_content,
            )
        case Failed(code="interrupted"):
            raise MCPError(INTERNAL_ERROR, replace_surrogates(outcome.message))
        case Failed():
            return _render_failure(outcome, served_tool)
        case Pending():
            return _render_pending(outcome, served_tool)


def failure_message(failed: Failed, served_tool: ServedTool | None) -> str:
    """The message of a failure for the client. The text of an unexpected exception is in the log alone."""
    match failed.code, failed.data:
        case "crashed", {"exception": str(exception_type)}:
            # An internal tool such as `call_result` reports the crash of another tool.
            is_own_crash = served_tool is not None and served_tool.listing.kind != "internal"
            name = served_tool.entry["name"] if served_tool is not None and is_own_crash else "The tool"
            return f"{name} crashed with {exception_type}. Its details are in the server's log."
    return failed.message


def _render_pending(pending: Pending, served_tool: ServedTool | None) -> dict[str, Any]:
    meta = {CALL_ID_META_KEY: pending.call_id, WAITING_FOR_META_KEY: pending.waiting_for}
    if served_tool is None:
        text = pending.text
        is_error = False
    else:
        text = served_tool.deferred_results.pending_text(served_tool.listing.name, pending)
        # Clients check successful results against the output schema, and this text does not match it.
        is_error = served_tool.has_output_schema
    return {**_COMPLETE_RESULT, "content": [_text_block(text)], "isError": is_error, "_meta": meta}


def _render_failure(failed: Failed, served_tool: ServedTool | None) -> dict[str, Any]:
    """Render a failure with the content that its MCP server sent, or else with our message."""
    is_from_server = served_tool is not None and served_tool.listing.kind == "mcp"
    match failed.data:
        case {"content": [_, *_] as blocks} if is_from_server and all(isinstance(block, Mapping) for block in blocks):
            return _render_server_failure(failed, blocks)
    content = [_text_block(failure_message(failed, served_tool)), *_artifact_links(_artifact_summary(failed))]
    return {**_COMPLETE_RESULT, "content": content, "isError": True, "_meta": _failure_meta(failed)}


def _render_server_failure(failed: Failed, blocks: list[Mapping[str, Any]]) -> dict[str, Any]:
    result: dict[str, Any] = {
        **_COMPLETE_RESULT,
        "content": [sanitize_block(replace_surrogates_in(block), is_external=True) for block in blocks],
    }
    structured = failed.data.get("structuredContent")
    if isinstance(structured, Mapping):
        result["structuredContent"] = replace_surrogates_in(structured)
    server_meta = failed.data.get("_meta")
    passed_on = remove_reserved_keys(replace_surrogates_in(server_meta)) if isinstance(server_meta, Mapping) else {}
    result["isError"] = True
    result["_meta"] = {**passed_on, **_failure_meta(failed)}
    return result


def _failure_meta(failed: Failed) -> dict[str, Any]:
    if failed.retry_after is None:
        return {CODE_META_KEY: failed.code}
    return {CODE_META_KEY: failed.code, RETRY_AFTER_META_KEY: failed.retry_after}


def _artifact_summary(failed: Failed) -> Any:
    """The summary of the artifact that holds a failure's whole output, if there is one."""
    if not isinstance(failed.data, Mapping):
        return parse_placeholder(failed.message)
    # Only our own `over_budget` has a summary in its data: other servers could name any handle.
    return failed.data.get(READER_TOOL_NAME) if failed.code == "over_budget" else None


def artifact_name(handle: str) -> str:
    """The name of an artifact, in the link to it and in `resources/list`."""
    return f"output-{handle[-8:]}"


def _artifact_links(summary: Any) -> list[dict[str, Any]]:
    """The link to an artifact; empty without a summary."""
    match summary:
        case {"handle": str(handle), "bytes": int(size)}:
            link = _resource_link(f"{OUTPUT_URI_PREFIX}{handle}", artifact_name(handle), "text/plain")
            return [{**link, "title": "The whole output", "size": size}]
    return []


def _render_done(done: Done, *, has_output_schema: bool, is_modern: bool, is_external: bool) -> dict[str, Any]:
    metadata = done.metadata
    content = _render_blocks(done, metadata, is_external)
    result: dict[str, Any] = {**_COMPLETE_RESULT, "content": content, "isError": False}
    structured = _structured_content(done, metadata.get("structured"), has_output_schema)
    # The handshake protocol allows only objects.
    if isinstance(structured, dict) or (is_modern and structured is not _ABSENT):
        result["structuredContent"] = structured
    if isinstance(meta := metadata.get("_meta"), Mapping):
        result["_meta"] = remove_reserved_keys(replace_surrogates_in(meta))
    return result


def _render_blocks(done: Done, metadata: Mapping[str, Any], is_external: bool) -> list[dict[str, Any]]:
    server_fields = metadata.get("blocks")
    # A shortened text is one block of ours, so the fields of the server's blocks belong to none of them.
    has_fields = done.clipped_text is None and isinstance(server_fields, Mapping)
    fields_by_index: Mapping[str, Any] = server_fields if has_fields and server_fields else {}
    blocks = [
        _render_block(block, fields_by_index.get(str(index)) if fields_by_index else None, is_external)
        for index, block in enumerate(done.content_without_attachments)
    ]
    if done.clipped_text is not None:
        blocks += _artifact_links(parse_placeholder(done.clipped_text))
    for block in done.attachments:
        blocks.append(_render_block(block, None, is_external))
    return blocks


def _structured_content(done: Done, mode: Any, has_output_schema: bool) -> Any:
    """The data of a result as JSON.

    Without an output schema it is omitted if the text was shortened, or if the data is only that text.
    """
    is_text = done.data is None or isinstance(done.data, str)
    if not has_output_schema and (done.clipped_text is not None or (is_text and mode is None)):
        return _ABSENT
    try:
        data = from_json(
            done.data_json or to_json(done.data, bytes_mode="base64", inf_nan_mode="strings", fallback=str)
        )
    except ValueError:  # an integer of thousands of digits, or a string that is not valid Unicode
        return _ABSENT
    if isinstance(data, dict) or mode == "plain":
        return data
    if done.has_own_content and mode is None and not has_output_schema:
        return _ABSENT
    return {"result": data}


def _render_block(block: Block, server_fields: Any, is_external: bool) -> dict[str, Any]:
    """Render a block together with the safe ones of the fields that its server sent with it."""
    if server_fields is None and isinstance(block, (Text, Json)):
        return _text_block(block_text(block))
    fields = dict(server_fields) if isinstance(server_fields, Mapping) else {}
    resource_fields = fields.pop("resource", None)
    rendered = _render_block_content(block, resource_fields if isinstance(resource_fields, Mapping) else None)
    passed_on = replace_surrogates_in({key: value for key, value in fields.items() if key in _PASSED_ON_KEYS})
    return sanitize_block({**passed_on, **rendered}, is_external=is_external)


def _render_block_content(block: Block, resource_fields: Mapping[str, Any] | None) -> dict[str, Any]:
    match block:
        case Resource(uri=uri, text=text) if text or resource_fields is not None:
            resource = {"uri": uri, "mimeType": block.mime_type or "text/plain", "text": text}
            return _embedded_resource(resource, resource_fields)
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
            inline_block = _with_inline_data(block)
            if inline_block is not None:
                return _render_block_content(inline_block, None)
            return _resource_link(block.url, getattr(block, "filename", ""), block.mime_type)
        case _:
            return _text_block(block_text(block))


def _with_inline_data(block: Image | Audio | File) -> Image | Audio | File | None:
    """The block with the data of its `data:` URL; None if it has another URL."""
    data_uri = _DATA_URI.fullmatch(block.url)
    if data_uri is None:
        return None
    return replace(block, url="", data=data_uri[2], mime_type=data_uri[1] or block.mime_type)


def _text_block(text: str) -> dict[str, Any]:
    return {"type": "text", "text": replace_surrogates(text)}


def _embedded_resource(resource: dict[str, Any], resource_fields: Mapping[str, Any] | None) -> dict[str, Any]:
    return {"type": "resource", "resource": replace_surrogates_in({**resource, **(resource_fields or {})})}


def _resource_link(uri: str, name: str, mime_type: str) -> dict[str, Any]:
    link = {"uri": uri, "name": name or uri.rpartition("/")[2] or uri}
    if mime_type:
        link["mimeType"] = mime_type
    return {"type": "resource_link", **replace_surrogates_in(link)}


def downgrade_result(result: dict[str, Any], protocol_version: str) -> dict[str, Any]:
    """Replace blocks that an old protocol version does not have by text: its clients would reject the whole result."""
    if protocol_version >= _LATEST_BLOCK_TYPE_VERSION:  # versions are dates, so they compare as strings
        return result
    return {**result, "content": [_downgrade_block(block, protocol_version) for block in result.get("content", ())]}


def _downgrade_block(block: dict[str, Any], protocol_version: str) -> dict[str, Any]:
    block_type = block.get("type", "")
    if BLOCK_TYPE_INTRODUCED_IN.get(block_type, "") <= protocol_version:
        return block
    data = block.get("data", "")
    description = block.get("uri") or f"{block.get('mimeType')}, {len(data) * 3 // 4 - data.count('=')} bytes"
    return {"type": "text", "text": f"[{block_type.removesuffix('_link')}: {description}]"}
