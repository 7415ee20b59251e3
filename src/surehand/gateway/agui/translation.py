"""AguiTranslation: turns the events of one run, as the event log has them, into AG-UI events."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from copy import deepcopy
from itertools import count
from typing import Any

from ag_ui.core import (
    BaseEvent,
    CustomEvent,
    StateDeltaEvent,
    StateSnapshotEvent,
    SubagentErrorEvent,
    SubagentFinishedEvent,
    SubagentFinishedSuccessOutcome,
    SubagentFinishedSuspendedOutcome,
    SubagentStartedEvent,
)
from pydantic_core import from_json, to_json

from surehand.core.ids import find_starting_call, new_id
from surehand.gateway.agui.message_writer import KnownCalls, MessageWriter
from surehand.gateway.agui.run_tree import RunTree, run_of_event

LIMIT_REASONS = ("The limit of ", "The budget of ")
"""What the reason of a run begins with that a limit has stopped. Whoever cancels a run writes a reason of their own."""


class AguiTranslation:
    """Translates the events of a run and of the sub-agents below it, each of which writes messages of its own."""

    def __init__(self, runs: RunTree, state: Mapping[str, Any], known_calls: KnownCalls) -> None:
        self._runs = runs
        self._state = state
        self._sent_state: dict[str, Any] = {}
        self._known_calls = known_calls
        # Another prefix for each response: the ids of messages are unique in a thread, and a run may have several.
        prefix = new_id()
        numbers = count(1)
        self._new_message_id = lambda: f"{prefix}-{next(numbers)}"
        self._writers = {runs.top: MessageWriter(self._new_message_id, self._known_calls)}
        self._active_subagents: list[str] = []

    def snapshot_state(self) -> Iterator[BaseEvent]:
        """The whole state, if there is any."""
        self._sent_state = _copy_json(self._state)
        if self._sent_state:
            yield StateSnapshotEvent(snapshot=self._sent_state)

    def translate(self, fields: Mapping[str, Any]) -> Iterator[BaseEvent]:
        """The AG-UI events of one event."""
        run_id = run_of_event(fields) or self._runs.top
        yield from self._start_subagent(run_id)
        writer = self._writers[run_id]
        match fields["type"]:
            case "TextDelta":
                yield from writer.write_text(fields["text"])
            case "ToolInputDelta" if fields["call_id"] is not None:
                yield from writer.write_arguments(fields["call_id"], fields["tool"], fields["text"])
            case "CallStarted" if fields["parent"] is None:
                yield from writer.start_call(fields)
            case "CallProgress":
                progress = {name: fields[name] for name in _PROGRESS_FIELDS}
                yield CustomEvent(name="progress", value=progress, **self._attribution(run_id))
            case "CallEnded" if fields["outcome"]["status"] != "pending" and fields["parent"] is None:
                yield from writer.end_call(fields)
                yield from self._update_state()
            case "ModelRetried":
                yield from writer.end_response()
                retried = {"reason": fields["reason"]}
                yield CustomEvent(name="model_retried", value=retried, **self._attribution(run_id))
            case "RunEnded":
                yield from writer.end_response()
                yield from self._update_state()
                if run_id in self._active_subagents and fields["status"] != "waiting":
                    yield from self._end_subagent(run_id, fields)

    def close(self, interrupts: Mapping[str, str] | None = None) -> Iterator[BaseEvent]:
        """End what is open. A sub-agent that has not ended is suspended.

        Args:
            interrupts: the interrupts of the run, each with the run of the agent that waits for it.
        """
        for writer in self._writers.values():
            yield from writer.end_response()
        while self._active_subagents:
            run_id = self._active_subagents.pop()
            own = [interrupt for interrupt, waiting_run in (interrupts or {}).items() if waiting_run == run_id]
            outcome = SubagentFinishedSuspendedOutcome(interrupt_ids=own or None)
            yield SubagentFinishedEvent(subagent_run_id=run_id, outcome=outcome)

    def _attribution(self, run_id: str) -> dict[str, Any]:
        return {} if run_id == self._runs.top else {"subagent_run_id": run_id}

    def _start_subagent(self, run_id: str) -> Iterator[BaseEvent]:
        """Announce a sub-agent before its first event, and before it those that have called it."""
        if run_id in self._writers:
            return
        parent = self._runs.parents[run_id]
        yield from self._start_subagent(parent)
        self._writers[run_id] = MessageWriter(self._new_message_id, self._known_calls, run_id)
        self._active_subagents.append(run_id)
        yield SubagentStartedEvent(
            subagent_run_id=run_id,
            name=self._runs.agents[run_id],
            parent_subagent_run_id=None if parent == self._runs.top else parent,
            parent_tool_call_id=find_starting_call(run_id),
        )

    def _end_subagent(self, run_id: str, fields: Mapping[str, Any]) -> Iterator[BaseEvent]:
        self._active_subagents.remove(run_id)
        if fields["status"] == "failed":
            yield SubagentErrorEvent(
                subagent_run_id=run_id, message=fields["reason"] or "The run failed.", code="failed"
            )
        elif is_cancelled(fields):
            yield SubagentErrorEvent(subagent_run_id=run_id, message=fields["reason"], code="cancelled")
        else:
            outcome = SubagentFinishedSuccessOutcome()
            yield SubagentFinishedEvent(subagent_run_id=run_id, result=fields["output"], outcome=outcome)

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


def is_cancelled(run_ended: Mapping[str, Any]) -> bool:
    """Whether a run was stopped by a person or a program, and not by one of its limits."""
    return run_ended["status"] == "stopped" and not run_ended["reason"].startswith(LIMIT_REASONS)


def _copy_json(state: Mapping[str, Any]) -> dict[str, Any]:
    return dict(from_json(to_json(state, fallback=str)))


def _pointer(name: str) -> str:
    """A member as a JSON Pointer (RFC 6901)."""
    return "/" + str(name).replace("~", "~0").replace("/", "~1")
