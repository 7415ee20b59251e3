"""Events in the formats of other programs' event streams, called families. Programs that bridge event streams use it.

| our event        | spaces (000)            | agent (001)   | bus (002)               | session (003)              |
|------------------|-------------------------|---------------|-------------------------|----------------------------|
| input begins     | tool-call.start         |               |                         | tool_call_start            |
| input            | tool-input-delta        |               |                         | tool_call_delta            |
| started          | tool-call.start         | tool_started  | TOOL_CALL_REQUESTED 400 | tool_call                  |
| progress, other  | tool-result             |               |                         |                            |
| pending approval |                         |               |                         | tool_confirmation_required |
| settled approval |                         |               |                         | tool_confirmation_result   |
| resumed          |                         |               |                         | tool_result_start          |
| ended, Done      | tool-call.complete      | tool_finished | TOOL_CALL_COMPLETED 410 | tool_result                |
| ended, Failed    | tool-call.error         | tool_finished | TOOL_CALL_FAILED 420    | tool_result                |
| ended, Pending   |                         |               |                         |                            |
| agent active     | agent.active            |               |                         |                            |
| agent inactive   | agent.inactive          |               |                         |                            |
| message delta    | space.message.streaming |               |                         |                            |
| message posted   | space.message.streaming |               |                         |                            |
| message failed   | space.message.failed    |               |                         |                            |

"input" is a `ToolInputDelta`, or a `CallProgress` whose data has `input_delta`: arguments that the model is still
writing. They begin with an empty `ToolInputDelta`; when they are complete, the call starts, with its whole input and
under the same id. Without a store, a call has no id while its arguments are written, and no family shows them.
Times are milliseconds since the epoch. `format_event` returns None where the table is empty, and for all other events.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from surehand.core.events import (
    AgentActive,
    AgentInactive,
    CallEnded,
    CallPending,
    CallProgress,
    CallResumed,
    CallSettled,
    CallStarted,
    Event,
    SpaceMessageDelta,
    SpaceMessageEvent,
    SpaceMessageFailed,
    SpaceMessagePosted,
    ToolInputDelta,
)
from surehand.core.names import NAMESPACE_SEPARATOR, nearest_names
from surehand.core.outcome import Done, Failed, Outcome, Pending

FormattedEvent: TypeAlias = dict[str, Any]

SPACES_FAMILY = "spaces"
AGENT_FAMILY = "agent"
BUS_FAMILY = "bus"
SESSION_FAMILY = "session"
FAMILY_BY_NUMBER: Mapping[str, str] = {
    "000": SPACES_FAMILY,
    "001": AGENT_FAMILY,
    "002": BUS_FAMILY,
    "003": SESSION_FAMILY,
}


def format_event(event: Event, family: str, *, task: str | None = None) -> FormattedEvent | None:
    """The event in the format of a family, or None if the family has no such event.

    Args:
        family: the name or the number of a family.
        task: the `taskId` of an event of the bus.
    """
    family_name = FAMILY_BY_NUMBER.get(family, family)
    if family_name not in _FORMATTERS:
        names = [*_FORMATTERS, *FAMILY_BY_NUMBER]
        near = nearest_names(family, names, 1)
        suggestion = f" Did you mean {near[0]!r}?" if near else ""
        raise ValueError(f"Unknown event family {family!r}.{suggestion} Known families: {', '.join(names)}.")
    if isinstance(event, CallEnded) and isinstance(event.outcome, Pending):
        return None
    formatted = _FORMATTERS[family_name](event)
    if formatted is not None and task is not None and family_name == BUS_FAMILY:
        return {**formatted, "taskId": task}
    return formatted


def _format_for_spaces(event: Event) -> FormattedEvent | None:
    match event:
        case ToolInputDelta(call_id=str(), text=""):
            return _spaces_event("tool-call.start", event)
        case ToolInputDelta(call_id=str(), text=text):
            return _spaces_event("tool-input-delta", event, delta=text)
        case CallStarted():
            display = {"display": _to_json_value(event.display)} if event.display else {}
            return _spaces_event("tool-call.start", event, input=_to_json_value(event.arguments), **display)
        case CallProgress(data={"input_delta": delta}):
            return _spaces_event("tool-input-delta", event, delta=_to_json_value(delta))
        case CallProgress():
            return _spaces_event("tool-result", event, preliminary=True, output=_progress_output(event))
        case CallEnded(outcome=Done() as done):
            return _spaces_event("tool-call.complete", event, output=_to_json_value(done.data))
        case CallEnded(outcome=Failed() as failed):
            return _spaces_event("tool-call.error", event, error=failed.message, code=failed.code)
        case SpaceMessageDelta(text=""):
            return _streamed_message("space.message.streaming", event, phase="start")
        case SpaceMessageDelta(text=text):
            return _streamed_message("space.message.streaming", event, phase="delta", delta=text)
        case SpaceMessagePosted():
            return _streamed_message("space.message.streaming", event, phase="done")
        case SpaceMessageFailed(reason=reason):
            return _streamed_message("space.message.failed", event, error=reason)
        case AgentActive():
            return _agent_in_space("agent.active", event)
        case AgentInactive():
            return _agent_in_space("agent.inactive", event)
    return None


def _spaces_event(
    type: str, event: CallStarted | CallProgress | CallEnded | ToolInputDelta, **fields: Any
) -> FormattedEvent:
    # By the stream's id a reader recognises a stored message as the one that it has already shown while it streamed.
    ids = {"streamId": event.call_id, "toolCallId": event.call_id, "toolName": event.tool}
    return {"type": type, **ids, "timestamp": _milliseconds(event.at), **fields}


def _streamed_message(type: str, event: SpaceMessageEvent, **fields: Any) -> FormattedEvent:
    return {**_agent_in_space(type, event), "streamId": event.call_id, **fields}


def _agent_in_space(type: str, event: AgentActive | AgentInactive | SpaceMessageEvent) -> FormattedEvent:
    ids = {"spaceId": event.space, "agentId": event.agent, "runId": event.run_id}
    return {"type": type, **ids, "timestamp": _milliseconds(event.at)}


def _format_for_agent(event: Event) -> FormattedEvent | None:
    match event:
        case CallStarted():
            return _agent_event(
                "tool_started", event, _namespace_of(event.tool), parameters=_to_json_value(event.arguments)
            )
        case CallEnded(outcome=outcome):
            meta = outcome.meta
            error = {} if outcome.ok else {"error": outcome.text}
            return _agent_event(
                "tool_finished",
                event,
                meta.namespace or _namespace_of(event.tool),
                status="ok" if outcome.ok else "failed",
                latencyMs=round(meta.latency_ms),
                charactersIn=meta.characters_in,
                charactersOut=meta.characters_out,
                **error,
            )
    return None


def _agent_event(type: str, event: CallStarted | CallEnded, namespace: str, **fields: Any) -> FormattedEvent:
    ids = {"callId": event.call_id, "tool": event.tool, "namespace": namespace}
    return {"type": type, **ids, "timestamp": _milliseconds(event.at), **fields}


def _namespace_of(tool: str) -> str:
    return tool.partition(NAMESPACE_SEPARATOR)[0] if NAMESPACE_SEPARATOR in tool else ""


def _format_for_bus(event: Event) -> FormattedEvent | None:
    match event:
        case CallStarted():
            return _bus_event("TOOL_CALL_REQUESTED", 400, event, params=_to_json_value(event.arguments))
        case CallEnded(outcome=Done() as done):
            duration = round(done.meta.latency_ms)
            return _bus_event("TOOL_CALL_COMPLETED", 410, event, result=_to_json_value(done.data), durationMs=duration)
        case CallEnded(outcome=Failed() as failed):
            return _bus_event("TOOL_CALL_FAILED", 420, event, error=failed.message)
    return None


def _bus_event(type: str, code: int, event: CallStarted | CallEnded, **payload: Any) -> FormattedEvent:
    return {
        "type": type,
        "code": code,
        "payload": {"toolName": event.tool, **payload},
        "timestamp": _milliseconds(event.at),
        "callId": event.call_id,
    }


def _format_for_session(event: Event) -> FormattedEvent | None:
    match event:
        case ToolInputDelta(call_id=str(), text=""):
            return _session_event("tool_call_start", event)
        case ToolInputDelta(call_id=str(), text=text):
            return _session_event("tool_call_delta", event, delta=text)
        case CallStarted(at=at):
            times = {"startedAt": _milliseconds(at), "completedAt": _milliseconds(at)}
            return _session_event("tool_call", event, input=_to_json_value(event.arguments), **times)
        case CallProgress(data={"input_delta": delta}):
            return _session_event("tool_call_delta", event, delta=_to_json_value(delta))
        case CallPending(waiting_for="approval"):
            metadata = {} if event.request is None else {"metadata": _to_json_value(event.request)}
            question = {"input": _to_json_value(event.arguments), "message": event.message}
            return _session_event("tool_confirmation_required", event, **question, **metadata)
        case CallSettled(waiting_for="approval", verdict=verdict):
            reason = {"reason": event.reason} if event.reason else {}
            decision = {"confirmed": verdict in ("approve", "approved"), "always": event.always}
            return {"type": "tool_confirmation_result", "callId": event.call_id, **decision, **reason}
        case CallResumed():
            return _session_event("tool_result_start", event)
        case CallEnded(outcome=outcome):
            return _session_event("tool_result", event, **_session_result(outcome, event.at))
    return None


def _session_result(outcome: Outcome, at: float) -> FormattedEvent:
    meta = outcome.meta
    executed_by = {"client": "client", "external": "client", "hosted": "provider"}.get(meta.kind, "engine")
    times = {"startedAt": _milliseconds(meta.started_at or at), "completedAt": _milliseconds(at)}
    result = _to_json_value(outcome.data) if isinstance(outcome, Done) else outcome.text
    return {"result": result, "isError": not outcome.ok, "executedBy": executed_by, **times}


def _session_event(
    type: str,
    event: CallStarted | CallProgress | CallPending | CallResumed | CallEnded | ToolInputDelta,
    **fields: Any,
) -> FormattedEvent:
    return {"type": type, "callId": event.call_id, "name": event.tool, **fields}


_FORMATTERS: Mapping[str, Callable[[Event], FormattedEvent | None]] = {
    SPACES_FAMILY: _format_for_spaces,
    AGENT_FAMILY: _format_for_agent,
    BUS_FAMILY: _format_for_bus,
    SESSION_FAMILY: _format_for_session,
}


def _progress_output(event: CallProgress) -> FormattedEvent:
    fields = {"text": event.message, "fraction": event.fraction, "title": event.title}
    given_fields = {name: value for name, value in fields.items() if value is not None}
    return given_fields | {name: _to_json_value(value) for name, value in event.data.items()}


def _to_json_value(value: Any) -> Any:
    """The value as plain JSON; parts that JSON cannot hold become strings."""
    from pydantic_core import from_json, to_json  # imported on first use, as everywhere in core

    try:
        return from_json(to_json(value, bytes_mode="base64", inf_nan_mode="strings", fallback=str))
    except ValueError:  # a lone surrogate, or a value that contains itself
        return str(value).encode(errors="replace").decode()


def _milliseconds(seconds: float) -> int:
    return round(seconds * 1000)
