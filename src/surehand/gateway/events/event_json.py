"""Events and outcomes as JSON objects, and back: what event streams send and the store keeps of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from pydantic_core import from_json

from surehand.core.call import Call
from surehand.core.content import Audio, File, Image, block_fields
from surehand.core.errors import FAILURE_CODES
from surehand.core.events import (
    AgentActive,
    AgentInactive,
    CallEnded,
    CallEvent,
    CallPending,
    CallProgress,
    CallQueued,
    CallResumed,
    CallSettled,
    CallStarted,
    CatalogueChanged,
    Event,
    ModelRetried,
    RunEnded,
    RunEvent,
    RunStarted,
    SpaceMessageDelta,
    SpaceMessageFailed,
    SpaceMessagePosted,
    TextDelta,
    ToolInputDelta,
)
from surehand.core.outcome import CallMeta, Done, Failed, Outcome, Pending, attach_origin
from surehand.store.database import UnstorableValue
from surehand.store.serialization import dump_json

JSON: TypeAlias = Any
MAX_EVENT_CHARACTERS = 65_536
"""Characters of the JSON of one event; of a longer one, large fields are left out."""
MAX_SHORTENED_TEXT = 1_000
LOGGED_EVENTS = (
    CallStarted, CallQueued, CallProgress, CallPending, CallSettled, CallResumed, CallEnded, CatalogueChanged,
)  # fmt: skip
"""The events that streams send: those of calls and of the catalogue."""
EVENTS_IN_SPACES = (
    AgentActive, ToolInputDelta, SpaceMessageDelta, SpaceMessagePosted, SpaceMessageFailed, AgentInactive,
)  # fmt: skip
"""The events of runs that the stream of their `space` has too."""
RUN_EVENTS = (RunStarted, TextDelta, ModelRetried, RunEnded, *EVENTS_IN_SPACES)
"""The events of runs of agents that streams send."""
USAGE_FIELDS = ("requests", "tokens_in", "tokens_out", "cost", "calls")
_EVENT_TYPES: Mapping[str, type[CallEvent | CatalogueChanged | RunEvent]] = {
    each.__name__: each for each in (*LOGGED_EVENTS, *EVENTS_IN_SPACES)
}
_LARGE_FIELDS = ("arguments", "request", "data", "display", "output")
_META_FIELDS = ("kind", "namespace", "started_at", "latency_ms", "characters_in", "characters_out")


def event_to_json(event: CallEvent | CatalogueChanged) -> dict[str, JSON]:
    """The event as a JSON object: its `type` and its fields. Values that JSON cannot hold become strings.

    An event of more than 65,536 characters is shortened: it has `truncated`, and its large fields are null.
    """
    fields = {"type": type(event).__name__, **event._asdict()}
    if isinstance(event, CallEnded):
        meta = event.outcome.meta
        fields["outcome"] = outcome_to_json(event.outcome, event.call_id)
        fields["meta"] = {name: getattr(meta, name) for name in _META_FIELDS}
    try:
        text = dump_json(fields)
        if len(text) <= MAX_EVENT_CHARACTERS:
            return dict(from_json(text))
    except (UnstorableValue, ValueError):  # arguments that were refused may hold anything, as a lone surrogate
        pass
    return _shortened(fields)


def run_event_to_json(event: RunEvent) -> dict[str, JSON]:
    """The event of a run as a JSON object; `RunEnded` has the end of the run, and the ids of the calls it waits for."""
    if not isinstance(event, RunEnded):
        return {"type": type(event).__name__, **event._asdict()}
    run = event.run
    fields = {
        "type": "RunEnded",
        **{name: getattr(run, name) for name in ("agent", "status", "text", "output", "reason")},
        "run_id": run.id,
        "usage": {name: getattr(run.usage, name) for name in USAGE_FIELDS},
        "waiting": [each.call_id for each in run.waiting],
        "user": event.user,
        "session": event.session,
        "at": event.at,
    }
    text = dump_json(fields)
    return _shortened(fields) if len(text) > MAX_EVENT_CHARACTERS else dict(from_json(text))


def _shortened(fields: Mapping[str, Any]) -> dict[str, JSON]:
    short = {name: None if name in _LARGE_FIELDS else value for name, value in fields.items()}
    for name in ("message", "text"):
        if isinstance(text := short.get(name), str):
            short[name] = text[:MAX_SHORTENED_TEXT]
    if isinstance(outcome := short.get("outcome"), Mapping):
        texts = {name: value[:MAX_SHORTENED_TEXT] for name, value in outcome.items() if isinstance(value, str)}
        short["outcome"] = {**outcome, "data": None, "request": None, "content": None, **texts}
    return {**dict(from_json(dump_json(short))), "truncated": True}


def event_from_json(fields: Mapping[str, JSON]) -> Event | None:
    """The event of a JSON object; None if its type is unknown."""
    event_type = _EVENT_TYPES.get(fields.get("type", ""))
    if event_type is None:
        return None
    known = {name: fields[name] for name in event_type._fields if name in fields}
    if event_type is CatalogueChanged:
        return CatalogueChanged(**{name: tuple(names) for name, names in known.items()})
    if event_type in EVENTS_IN_SPACES:
        return event_type(**known)
    known["display"] = known.get("display") or {}
    if event_type is CallProgress:
        known["data"] = known.get("data") or {}
    if event_type is CallEnded:
        outcome = _outcome_from_json(fields["outcome"])
        attach_origin(outcome, _StoredOrigin(Call(fields["tool"], id=fields["call_id"]), fields.get("meta") or {}))
        known["outcome"] = outcome
    return event_type(**known)


def outcome_to_json(outcome: Outcome, call_id: str | None = None) -> dict[str, Any]:
    """The outcome of a call: status, call id, data and text; the code and message of a failure; what it waits for."""
    if call_id is None:  # not of `meta`, which measures the outcome
        call_id = "" if outcome.origin is None else outcome.origin.call.id or ""
    fields: dict[str, Any] = {"status": "done", "call_id": call_id, "data": outcome.data, "text": outcome.text}
    if isinstance(outcome, Done) and (media := _media_blocks(outcome)):
        fields["content"] = media
    if isinstance(outcome, Failed):
        fields |= {"status": "failed", "code": outcome.code, "message": outcome.message, "executed": outcome.executed}
    elif isinstance(outcome, Pending):
        fields |= {
            "status": "pending",
            "call_id": call_id or outcome.call_id,
            "waiting_for": outcome.waiting_for,
            "message": outcome.message,
            "request": outcome.request,
            "expires_at": outcome.expires_at,
        }
    return fields


def _media_blocks(outcome: Done) -> list[dict[str, Any]]:
    """The images, recordings and files of an outcome, of which `data` and `text` only say that they are there."""
    if not outcome.has_own_content and not outcome.attachments:
        return []
    return [block_fields(each) for each in outcome.content if isinstance(each, (Image, Audio, File))]


def _outcome_from_json(fields: Mapping[str, JSON]) -> Outcome:
    status = fields.get("status")
    if status == "pending":
        return Pending(
            fields.get("waiting_for", "result"), fields.get("call_id") or "", fields.get("message") or "",
            fields.get("request"), fields.get("expires_at"),
        )  # fmt: skip
    if status == "failed":
        code = fields.get("code")
        known_code: Any = code if code in FAILURE_CODES else "failed"
        return Failed(
            known_code, fields.get("message") or "", executed=bool(fields.get("executed")), data=fields["data"]
        )
    return Done(fields.get("data"))


@dataclass(frozen=True, slots=True)
class _StoredOrigin:
    """The call of an outcome that was read back, with what was measured of it."""

    call: Call
    meta: Mapping[str, JSON]

    @property
    def tool_name(self) -> str:
        return self.call.tool

    def build_meta(self, outcome: Outcome) -> CallMeta:
        measured = {name: self.meta[name] for name in _META_FIELDS if self.meta.get(name) is not None}
        return CallMeta(call_id=self.call.id or "", tool=self.call.tool, **measured)
