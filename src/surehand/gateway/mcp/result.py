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
from surehand.gateway.mcp.foreign import OURS, harmless, unmarked
from surehand.runtime.outputs import NAME, told_of

if TYPE_CHECKING:
    from surehand.gateway.mcp.served import Offered

_COMPLETE = {"resultType": "complete"}
ROOT = f"{OURS}://outputs/"
"""What the addresses of artifacts begin with."""
CODE, CALL, WAITS = f"{OURS}/code", f"{OURS}/callId", f"{OURS}/waitingFor"


def result_of(outcome: Outcome, offered: Offered | None = None, *, is_modern: bool = True) -> dict[str, Any]:
    """What a client is given; raises where the call itself came to no end that a tool could tell of."""
    match outcome:
        case Done() if offered is not None:
            return _done(outcome, is_typed=offered.is_typed, is_modern=is_modern, is_foreign=offered.is_foreign)
        case Done():
            return _done(outcome, is_typed=False, is_modern=is_modern, is_foreign=True)
        case Failed(code="interrupted"):
            raise MCPError(INTERNAL_ERROR, replace_surrogates(outcome.message))
        case Failed():
            return _failed(outcome, offered)
        case Pending():
            waits = {CALL: outcome.call_id, WAITS: outcome.waiting_for}
            told = outcome.text if offered is None else offered.later.text(offered.listing.name, outcome)
            # Of a tool that says what its results look like, anything else is taken for a broken one.
            is_typed = offered is not None and offered.is_typed
            return {**_COMPLETE, "content": [_text(told)], "isError": is_typed, "_meta": waits}


def message_of(failed: Failed, offered: Offered | None) -> str:
    """What a client is told of a failure. What a bug says of itself is for those who read our log."""
    match failed.code, failed.data:
        case "crashed", {"exception": str(kind)}:
            # The tool that tells of others' calls has not crashed itself.
            name = "The tool" if offered is None or offered.listing.kind == "internal" else offered.entry["name"]
            return f"{name} crashed with {kind}. Its details are in the server's log."
    return failed.message


def _failed(failed: Failed, offered: Offered | None) -> dict[str, Any]:
    """A failure in our words, or in those of the server that told of it."""
    is_foreign = offered is not None and offered.listing.kind == "mcp"
    match failed.data:
        case {"content": [_, *_] as blocks} if is_foreign and all(isinstance(block, Mapping) for block in blocks):
            said = {"content": [harmless(replace_surrogates_in(block), is_foreign=True) for block in blocks]}
            if isinstance(structured := failed.data.get("structuredContent"), Mapping):
                said["structuredContent"] = replace_surrogates_in(structured)
            beside = failed.data.get("_meta")
            meta = {
                **(unmarked(replace_surrogates_in(beside)) if isinstance(beside, Mapping) else {}),
                **_about(failed),
            }
            return {**_COMPLETE, **said, "isError": True, "_meta": meta}
    content = [_text(message_of(failed, offered)), *_kept(_kept_of(failed))]
    return {**_COMPLETE, "content": content, "isError": True, "_meta": _about(failed)}


def _about(failed: Failed) -> dict[str, Any]:
    again = {} if failed.retry_after is None else {f"{OURS}/retryAfter": failed.retry_after}
    return {CODE: failed.code, **again}


def _kept_of(failed: Failed) -> Any:
    """The summary of the artifact that a failure tells of, if it does."""
    if not isinstance(failed.data, Mapping):
        return told_of(failed.message)
    # What others say beside their failures tells of nothing that is kept here.
    return failed.data.get(NAME) if failed.code == "over_budget" else None


def artifact_name(handle: str) -> str:
    """What an artifact is called, in the link to it and in the list."""
    return f"output-{handle[-8:]}"


def _kept(summary: Any) -> list[dict[str, Any]]:
    """The link to an artifact, where there is one."""
    match summary:
        case {"handle": str(handle), "bytes": int(size)}:
            link = _link(f"{ROOT}{handle}", artifact_name(handle), "text/plain")
            return [{**link, "title": "The whole output", "size": size}]
    return []


def _done(done: Done, *, is_typed: bool, is_modern: bool, is_foreign: bool) -> dict[str, Any]:
    metadata = done.metadata
    result: dict[str, Any] = {**_COMPLETE, "content": _blocks(done, metadata, is_foreign), "isError": False}
    structured = _structured(done, metadata.get("structured"), is_typed)
    if isinstance(structured, dict) or (is_modern and structured is not _NOTHING):
        result["structuredContent"] = structured
    if isinstance(meta := metadata.get("_meta"), Mapping):
        result["_meta"] = unmarked(replace_surrogates_in(meta))
    return result


def _blocks(done: Done, metadata: Mapping[str, Any], is_foreign: bool) -> list[dict[str, Any]]:
    shown, beside = done.clipped_text, metadata.get("blocks")
    extras = beside if shown is None and isinstance(beside, Mapping) else {}
    blocks = [
        _block(block, extras.get(str(place)) if extras else None, is_foreign)
        for place, block in enumerate(done.content)
    ]
    if shown is not None:
        blocks += _kept(told_of(shown))
    for block in done.attachments:
        blocks.append(_block(block, None, is_foreign))
    return blocks


_NOTHING = object()


def _structured(done: Done, how: Any, is_typed: bool) -> Any:
    """The data for programs. It is left out where the text was cut, or is all there is, unless it was promised."""
    is_text = done.data is None or isinstance(done.data, str)
    if not is_typed and (done.clipped_text is not None or (is_text and how is None)):
        return _NOTHING
    try:
        plain = from_json(
            done.data_json or to_json(done.data, bytes_mode="base64", inf_nan_mode="strings", fallback=str)
        )
    except ValueError:  # a number of thousands of digits, or a text that is none; what can be shown of it is shown
        return _NOTHING
    if isinstance(plain, dict) or how == "plain":
        return plain
    return _NOTHING if done.has_own_content and how is None and not is_typed else {"result": plain}


def _block(block: Block, extras: Any, is_foreign: bool) -> dict[str, Any]:
    """A block on the wire, with what its server said beside it, as far as that may be handed on."""
    if extras is None and isinstance(block, (Text, Json)):
        return _text(block_text(block))
    more = dict(extras) if isinstance(extras, Mapping) else {}
    about = more.pop("resource", None)
    made = _of(block, about if isinstance(about, Mapping) else None)
    beside = replace_surrogates_in({key: value for key, value in more.items() if key in _BESIDE})
    return harmless({**beside, **made}, is_foreign=is_foreign)


_BESIDE = ("annotations", "_meta", "title", "description", "size", "icons")


def _of(block: Block, about: Mapping[str, Any] | None) -> dict[str, Any]:
    match block:
        case Resource(uri=uri, text=text) if text or about is not None:
            return _embedded({"uri": uri, "mimeType": block.mime_type or "text/plain", "text": text}, about)
        case Resource():
            return _link(block.uri, block.name, block.mime_type)
        case Image() | Audio() | File() if about is not None and block.data:
            return _embedded({"mimeType": block.mime_type, "blob": block.data}, about)
        case Image() | Audio() if block.data:
            return {"type": block.type, "data": block.data, "mimeType": block.mime_type}
        case File() if block.data:
            uri = f"file:///{quote(block.filename or 'output', errors='replace')}"
            return _embedded({"uri": uri, "mimeType": block.mime_type, "blob": block.data}, about)
        case Image() | Audio() | File() if block.url:
            inline = _inline(block)
            return _of(inline, None) if inline else _link(block.url, getattr(block, "filename", ""), block.mime_type)
        case _:
            return _text(block_text(block))


_INLINE = re.compile(r"data:([\w.+-]+/[\w.+-]+)?;base64,([A-Za-z0-9+/]+={0,2})")


def _inline(block: Image | Audio | File) -> Image | Audio | File | None:
    """The same with its data in it, where they are in its address."""
    found = _INLINE.fullmatch(block.url)
    return replace(block, url="", data=found[2], mime_type=found[1] or block.mime_type) if found else None


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": replace_surrogates(text)}


def _embedded(resource: dict[str, Any], about: Mapping[str, Any] | None) -> dict[str, Any]:
    return {"type": "resource", "resource": replace_surrogates_in({**resource, **(about or {})})}


def _link(uri: str, name: str, mime_type: str) -> dict[str, Any]:
    kind = {"mimeType": mime_type} if mime_type else {}
    return {
        "type": "resource_link",
        **replace_surrogates_in({"uri": uri, "name": name or uri.rpartition("/")[2] or uri, **kind}),
    }
