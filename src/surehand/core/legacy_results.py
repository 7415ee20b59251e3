"""The result shapes of the source documents 000, 001, 002 and 004, for programs that were written against one of them.

`Outcome.as_legacy` uses it. Keys that a document marks as optional are left out where they do not apply.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal, TypeAlias

from surehand.core.call import Call
from surehand.core.content import Audio, Block, File, Image, Resource, block_text

LegacyDocument: TypeAlias = Literal["000", "001", "002", "004"]
"""The number of the document whose result shape is wanted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LegacySource:
    """The parts of an outcome that results of the documents are made of."""

    status: Literal["done", "failed", "pending"]
    text: str
    tool: str
    call_id: str
    kind: str
    namespace: str
    started_at: float
    latency_ms: float
    call: Call | None = None
    data_json: bytes = b"null"
    """The data of a result, as JSON."""
    title: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    """That of a result; of a failure its data, if that is a mapping."""
    attachments: Sequence[Block] = ()
    error: str = ""
    """Why there is no result, or not yet."""
    code: str = ""
    executed: bool = False
    waiting_for: str = ""
    expires_at: float | None = None


def legacy_result(source: LegacySource, document: LegacyDocument) -> dict[str, Any]:
    """Return an outcome in the shape of a document."""
    try:
        build = _BUILDERS[document]
    except KeyError:
        raise ValueError(f"{document!r} is not a document with results. Use one of: {', '.join(_BUILDERS)}.") from None
    return build(source)


def _build_000(source: LegacySource) -> dict[str, Any]:
    """A failure is `{error}`; everything else is a row of `PendingToolCall`: pending, resolved or expired."""
    has_expired = source.code == "expired"
    if source.status == "failed" and not has_expired:
        return {"error": source.error}
    status = "expired" if has_expired else "pending"
    if source.status == "done":
        status = "resolved"
    call = source.call
    has_ended = source.status != "pending" and source.started_at
    ended_at = source.started_at + source.latency_ms / 1000 if has_ended else None
    return {
        "toolCallId": source.call_id,
        "agentEntityId": call.agent if call else None,
        "runId": call.turn if call else None,
        "toolName": source.tool,
        "args": _arguments_of(call),
        "status": status,
        "result": json.loads(source.data_json),
        "expiresAt": _iso_time(source.expires_at),
        "createdAt": _iso_time(source.started_at or None),
        "resolvedAt": _iso_time(ended_at),
    }


def _build_001(source: LegacySource) -> dict[str, Any]:
    is_done = source.status == "done"
    result = {
        "ok": is_done,
        **({"result": source.text} if is_done else {"error": source.error}),
        "latencyMs": round(source.latency_ms, 3),
        "kind": source.kind,
        "namespace": source.namespace,
    }
    extras = _details(source)
    return {**result, "extras": extras} if extras else result


def _build_002(source: LegacySource) -> dict[str, Any]:
    is_done = source.status == "done"
    started_ms = round(source.started_at * 1000)
    result = {
        "success": is_done,
        **({"result": json.loads(source.data_json)} if is_done else {"error": source.error}),
        "startedAt": started_ms,
    }
    if source.status == "pending":
        return result
    duration_ms = round(source.latency_ms)
    return {**result, "completedAt": started_ms + duration_ms, "durationMs": duration_ms}


def _build_004(source: LegacySource) -> dict[str, Any]:
    metadata = _details(source)
    if source.status == "failed":
        # In this document a result is a failure if its metadata has an `error`; the other keys are the tool's own.
        metadata = {**source.metadata, **metadata, "error": source.metadata.get("error") or source.error}
    result = {"title": source.title or source.tool, "metadata": metadata, "output": source.text}
    attachments = [*map(_attachment, source.attachments)]
    return {**result, "attachments": attachments} if attachments else result


_BUILDERS: Mapping[str, Callable[[LegacySource], dict[str, Any]]] = {
    "000": _build_000,
    "001": _build_001,
    "002": _build_002,
    "004": _build_004,
}


def _details(source: LegacySource) -> dict[str, Any]:
    """What a document has no key of its own for."""
    if source.status == "failed":
        return {"code": source.code, "executed": source.executed}
    if source.status == "pending":
        return {"status": "pending", "pendingToolCallId": source.call_id, "waitingFor": source.waiting_for}
    return dict(source.metadata)


def _arguments_of(call: Call | None) -> Any:
    if call is None:
        return None
    arguments = call.arguments
    if isinstance(arguments, bytes):  # text that was refused before it was parsed
        return arguments.decode(errors="replace")
    return arguments if isinstance(arguments, str) else dict(arguments or {})


def _attachment(block: Block) -> dict[str, Any]:
    if isinstance(block, (Image, Audio, File)):
        attachment = {"type": block.mime_type, "data": block.data or block.url}
        filename = block.filename if isinstance(block, File) else ""
    elif isinstance(block, Resource):
        attachment = {"type": block.mime_type or "application/octet-stream", "data": block.uri}
        filename = block.name
    else:
        attachment = {"type": "text/plain", "data": b64encode(block_text(block).encode()).decode()}
        filename = ""
    return {**attachment, "filename": filename} if filename else attachment


def _iso_time(seconds: float | None) -> str | None:
    if seconds is None:
        return None
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
