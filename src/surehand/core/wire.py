"""Wire: our events in the words of the event streams that other programs read.

| our event        | spaces (000)       | agent (001)   | bus (002)               | session (003)              |
|------------------|--------------------|---------------|-------------------------|----------------------------|
| started          | tool-call.start    | tool_started  | TOOL_CALL_REQUESTED 400 | tool_call                  |
| progress, input  | tool-input-delta   |               |                         | tool_call_delta            |
| progress, other  | tool-result        |               |                         |                            |
| pending approval |                    |               |                         | tool_confirmation_required |
| settled approval |                    |               |                         | tool_confirmation_result   |
| resumed          |                    |               |                         | tool_result_start          |
| ended, Done      | tool-call.complete | tool_finished | TOOL_CALL_COMPLETED 410 | tool_result                |
| ended, Failed    | tool-call.error    | tool_finished | TOOL_CALL_FAILED 420    | tool_result                |
| ended, Pending   |                    |               |                         |                            |

Progress is of the input, as a model writes it, where its data has `input_delta`. Times are milliseconds since the
epoch. Where a field is empty, and for all other events, `wire` gives None.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from surehand.core.events import CallEnded, CallPending, CallProgress, CallResumed, CallSettled, CallStarted, Event
from surehand.core.names import SEPARATOR, nearest
from surehand.core.outcome import Done, Failed, Outcome, Pending

Wired: TypeAlias = dict[str, Any]

SPACES, AGENT, BUS, SESSION = "spaces", "agent", "bus", "session"
NUMBERS: Mapping[str, str] = {"000": SPACES, "001": AGENT, "002": BUS, "003": SESSION}


def wire(event: Event, family: str, *, task: str | None = None) -> Wired | None:
    """The event as a family of readers knows it, or None; `task` is what the bus shows as its `taskId`."""
    known = NUMBERS.get(family, family)
    if known not in _FAMILIES:
        names = [*_FAMILIES, *NUMBERS]
        meant = f" Did you mean {near[0]!r}?" if (near := nearest(family, names, 1)) else ""
        raise ValueError(f"There is no event family {family!r}.{meant} Known are: {', '.join(names)}.")
    if isinstance(event, CallEnded) and isinstance(event.outcome, Pending):
        return None
    wired = _FAMILIES[known](event)
    return wired if wired is None or task is None or known != BUS else {**wired, "taskId": task}


def _spaces(event: Event) -> Wired | None:
    match event:
        case CallStarted():
            display = {"display": _plain(event.display)} if event.display else {}
            return _in_space("tool-call.start", event, input=_plain(event.arguments), **display)
        case CallProgress(data={"input_delta": delta}):
            return _in_space("tool-input-delta", event, delta=_plain(delta))
        case CallProgress():
            return _in_space("tool-result", event, preliminary=True, output=_progress(event))
        case CallEnded(outcome=Done() as done):
            return _in_space("tool-call.complete", event, output=_plain(done.data))
        case CallEnded(outcome=Failed() as failed):
            return _in_space("tool-call.error", event, error=failed.message, code=failed.code)
    return None


def _in_space(type: str, event: CallStarted | CallProgress | CallEnded, **more: Any) -> Wired:
    # The stream's id is how a reader tells that a stored message is the one it saw streaming.
    ids = {"streamId": event.call_id, "toolCallId": event.call_id, "toolName": event.tool}
    return {"type": type, **ids, "timestamp": _ms(event.at), **more}


def _agent(event: Event) -> Wired | None:
    match event:
        case CallStarted():
            return _of_agent("tool_started", event, _namespace(event.tool), parameters=_plain(event.arguments))
        case CallEnded(outcome=outcome):
            meta = outcome.meta
            error = {} if outcome.ok else {"error": outcome.text}
            return _of_agent(
                "tool_finished",
                event,
                meta.namespace or _namespace(event.tool),
                status="ok" if outcome.ok else "failed",
                latencyMs=round(meta.latency_ms),
                charactersIn=meta.characters_in,
                charactersOut=meta.characters_out,
                **error,
            )
    return None


def _of_agent(type: str, event: CallStarted | CallEnded, namespace: str, **more: Any) -> Wired:
    ids = {"callId": event.call_id, "tool": event.tool, "namespace": namespace}
    return {"type": type, **ids, "timestamp": _ms(event.at), **more}


def _namespace(tool: str) -> str:
    return tool.partition(SEPARATOR)[0] if SEPARATOR in tool else ""


def _bus(event: Event) -> Wired | None:
    match event:
        case CallStarted():
            return _on_bus("TOOL_CALL_REQUESTED", 400, event, params=_plain(event.arguments))
        case CallEnded(outcome=Done() as done):
            took = round(done.meta.latency_ms)
            return _on_bus("TOOL_CALL_COMPLETED", 410, event, result=_plain(done.data), durationMs=took)
        case CallEnded(outcome=Failed() as failed):
            return _on_bus("TOOL_CALL_FAILED", 420, event, error=failed.message)
    return None


def _on_bus(type: str, code: int, event: CallStarted | CallEnded, **payload: Any) -> Wired:
    told = {"toolName": event.tool, **payload}
    return {"type": type, "code": code, "payload": told, "timestamp": _ms(event.at), "callId": event.call_id}


def _session(event: Event) -> Wired | None:
    match event:
        case CallStarted(at=at):
            times = {"startedAt": _ms(at), "completedAt": _ms(at)}
            return _in_session("tool_call", event, input=_plain(event.arguments), **times)
        case CallProgress(data={"input_delta": delta}):
            return _in_session("tool_call_delta", event, delta=_plain(delta))
        case CallPending(waiting_for="approval"):
            metadata = {} if event.request is None else {"metadata": _plain(event.request)}
            told = {"input": _plain(event.arguments), "message": event.message}
            return _in_session("tool_confirmation_required", event, **told, **metadata)
        case CallSettled(waiting_for="approval", verdict=verdict):
            reason = {"reason": event.reason} if event.reason else {}
            told = {"confirmed": verdict in ("approve", "approved"), "always": event.always}
            return {"type": "tool_confirmation_result", "callId": event.call_id, **told, **reason}
        case CallResumed():
            return _in_session("tool_result_start", event)
        case CallEnded(outcome=outcome):
            return _in_session("tool_result", event, **_session_result(outcome, event.at))
    return None


def _session_result(outcome: Outcome, at: float) -> Wired:
    meta = outcome.meta
    by = {"client": "client", "external": "client", "hosted": "provider"}.get(meta.kind, "engine")
    times = {"startedAt": _ms(meta.started_at or at), "completedAt": _ms(at)}
    result = _plain(outcome.data) if isinstance(outcome, Done) else outcome.text
    return {"result": result, "isError": not outcome.ok, "executedBy": by, **times}


def _in_session(
    type: str, event: CallStarted | CallProgress | CallPending | CallResumed | CallEnded, **more: Any
) -> Wired:
    return {"type": type, "callId": event.call_id, "name": event.tool, **more}


_FAMILIES: Mapping[str, Callable[[Event], Wired | None]] = {
    SPACES: _spaces,
    AGENT: _agent,
    BUS: _bus,
    SESSION: _session,
}


def _progress(event: CallProgress) -> Wired:
    named = {"text": event.message, "fraction": event.fraction, "title": event.title}
    told = {name: value for name, value in named.items() if value is not None}
    return told | {name: _plain(value) for name, value in event.data.items()}


def _plain(value: Any) -> Any:
    """A value as JSON can hold it; what it cannot is written out as text."""
    from pydantic_core import from_json, to_json

    try:
        return from_json(to_json(value, bytes_mode="base64", inf_nan_mode="strings", fallback=str))
    except ValueError:  # a lone surrogate, or a value that holds itself
        return str(value).encode(errors="replace").decode()


def _ms(seconds: float) -> int:
    return round(seconds * 1000)
