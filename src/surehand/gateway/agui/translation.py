"""AguiTranslation: turns the events of one run, as the event log has them, into AG-UI events."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from copy import deepcopy
from typing import Any

from ag_ui.core import (
    BaseEvent,
    CustomEvent,
    StateDeltaEvent,
    StateSnapshotEvent,
    TextMessageContentEvent,
    TextMessageEndEvent,
    TextMessageStartEvent,
    ToolCallArgsEvent,
    ToolCallEndEvent,
    ToolCallResultEvent,
    ToolCallStartEvent,
)
from pydantic_core import from_json, to_json

from surehand.store.serialization import dump_json


class AguiTranslation:
    """Keeps track of the message and the tool call that are open, because AG-UI events start and end them."""

    def __init__(self, run_id: str, state: Mapping[str, Any], known_results: Iterable[str] = ()) -> None:
        """`known_results` are the calls whose results the client has itself."""
        self._run_id = run_id
        self._state = state
        self._sent_state: dict[str, Any] = {}
        self._message_count = 0
        self._open_message: str | None = None
        self._open_call: str | None = None
        self._announced_calls: set[str] = set()
        self._sent_results = set(known_results)

    def snapshot_state(self) -> Iterator[BaseEvent]:
        """The whole state, if there is any."""
        self._sent_state = _copy_json(self._state)
        if self._sent_state:
            yield StateSnapshotEvent(snapshot=self._sent_state)

    def translate(self, fields: Mapping[str, Any]) -> Iterator[BaseEvent]:
        """The AG-UI events of one event."""
        match fields["type"]:
            case "TextDelta":
                yield from self._write_text(fields["text"])
            case "ToolInputDelta" if fields["call_id"] is not None:
                yield from self._write_arguments(fields["call_id"], fields["tool"], fields["text"])
            case "CallStarted" if fields["parent"] is None:
                yield from self._start_call(fields)
            case "CallProgress":
                yield CustomEvent(name="progress", value={name: fields[name] for name in _PROGRESS_FIELDS})
            case "CallEnded" if fields["outcome"]["status"] != "pending":
                yield from self._end_call(fields)
            case "ModelRetried":
                yield from self.close()
                yield CustomEvent(name="model_retried", value={"reason": fields["reason"]})
            case "RunEnded":
                yield from self.close()
                yield from self._update_state()

    def close(self) -> Iterator[BaseEvent]:
        """End the message and the tool call that are open."""
        if self._open_message is not None:
            yield TextMessageEndEvent(message_id=self._open_message)
            self._open_message = None
        if self._open_call is not None:
            yield ToolCallEndEvent(tool_call_id=self._open_call)
            self._open_call = None

    def _write_text(self, text: str) -> Iterator[BaseEvent]:
        if self._open_message is None:
            yield from self.close()
            self._message_count += 1
            self._open_message = f"{self._run_id}-{self._message_count}"
            yield TextMessageStartEvent(message_id=self._open_message, role="assistant")
        if text:  # AG-UI allows no empty piece
            yield TextMessageContentEvent(message_id=self._open_message, delta=text)

    def _write_arguments(self, call_id: str, tool: str, text: str) -> Iterator[BaseEvent]:
        if self._open_call != call_id:
            yield from self.close()
            if call_id in self._announced_calls:  # the model was asked again, and the call has another try
                return
            self._open_call = call_id
            self._announced_calls.add(call_id)
            yield ToolCallStartEvent(tool_call_id=call_id, tool_call_name=tool)
        if text:
            yield ToolCallArgsEvent(tool_call_id=call_id, delta=text)

    def _start_call(self, fields: Mapping[str, Any]) -> Iterator[BaseEvent]:
        """End the arguments of a call; without a store, its id is known only now, and all of it follows at once."""
        yield from self.close()
        call_id = fields["call_id"]
        if call_id not in self._announced_calls and call_id not in self._sent_results:
            arguments = fields["arguments"]
            text = arguments if isinstance(arguments, str) else dump_json({} if arguments is None else arguments)
            yield from self._write_arguments(call_id, fields["tool"], text)
            yield from self.close()

    def _end_call(self, fields: Mapping[str, Any]) -> Iterator[BaseEvent]:
        if fields["parent"] is not None:
            return
        yield from self.close()
        call_id = fields["call_id"]
        if call_id not in self._sent_results:  # a run that goes on takes up the outcomes of calls that have ended
            self._sent_results.add(call_id)
            yield ToolCallResultEvent(
                message_id=f"{call_id}-result", tool_call_id=call_id, content=fields["outcome"]["text"]
            )
        yield from self._update_state()

    def _update_state(self) -> Iterator[BaseEvent]:
        """What has changed in the state that the calls of the session share."""
        state = _copy_json(self._state)
        removed = [{"op": "remove", "path": _pointer(name)} for name in self._sent_state if name not in state]
        # To add a member that exists replaces it.
        changed = [
            {"op": "add", "path": _pointer(name), "value": value}
            for name, value in state.items()
            if name not in self._sent_state or self._sent_state[name] != value
        ]
        if removed or changed:
            self._sent_state = deepcopy(state)
            yield StateDeltaEvent.model_validate({"delta": [*removed, *changed]})


_PROGRESS_FIELDS = ("call_id", "tool", "message", "fraction", "title")


def _copy_json(state: Mapping[str, Any]) -> dict[str, Any]:
    return dict(from_json(to_json(state, fallback=str)))


def _pointer(name: str) -> str:
    """A member as a JSON Pointer (RFC 6901)."""
    return "/" + str(name).replace("~", "~0").replace("/", "~1")
