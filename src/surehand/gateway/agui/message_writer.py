"""MessageWriter: the texts and tool calls of one agent as AG-UI events, which start and end each of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ag_ui.core import (
    BaseEvent,
    TextMessageContentEvent,
    TextMessageEndEvent,
    TextMessageStartEvent,
    ToolCallArgsEvent,
    ToolCallEndEvent,
    ToolCallResultEvent,
    ToolCallStartEvent,
)

from surehand.store.serialization import dump_json


@dataclass(frozen=True, slots=True)
class KnownCalls:
    """What the client has of calls, before the stream and by it: it would read them twice."""

    calls: set[str]
    results: set[str]


class MessageWriter:
    """Knows the text and the tool call that are open, and which message the calls of a model's response belong to.

    A client keeps the calls of one response in one message, as models expect to read them in the next run.
    """

    def __init__(self, new_message_id: Callable[[], str], known: KnownCalls, subagent: str | None = None) -> None:
        """`subagent` is the run of a sub-agent."""
        self._new_message_id = new_message_id
        self._known_calls = known.calls
        self._known_results = known.results
        self._attribution: dict[str, Any] = {} if subagent is None else {"subagent_run_id": subagent}
        self._message_id: str | None = None
        self._has_open_text = False
        self._open_call: str | None = None

    def close(self) -> Iterator[BaseEvent]:
        """End the text and the tool call that are open."""
        if self._has_open_text:
            self._has_open_text = False
            yield TextMessageEndEvent(message_id=self._current_message(), **self._attribution)
        if self._open_call is not None:
            yield ToolCallEndEvent(tool_call_id=self._open_call, **self._attribution)
            self._open_call = None

    def end_response(self) -> Iterator[BaseEvent]:
        """End what is open; the next text or call belongs to another response of the model."""
        yield from self.close()
        self._message_id = None

    def write_text(self, text: str) -> Iterator[BaseEvent]:
        """A piece of text."""
        if not self._has_open_text:
            yield from self.close()
            self._has_open_text = True
            yield TextMessageStartEvent(message_id=self._current_message(), role="assistant", **self._attribution)
        if text:  # AG-UI allows no empty piece
            yield TextMessageContentEvent(message_id=self._current_message(), delta=text, **self._attribution)

    def write_arguments(self, call_id: str, tool: str, text: str) -> Iterator[BaseEvent]:
        """A piece of the arguments of a call."""
        if self._open_call != call_id:
            yield from self.close()
            if call_id in self._known_calls:  # the model was asked again, and the call has another try
                return
            self._open_call = call_id
            self._known_calls.add(call_id)
            yield ToolCallStartEvent(
                tool_call_id=call_id,
                tool_call_name=tool,
                parent_message_id=self._current_message(),
                **self._attribution,
            )
        if text:
            yield ToolCallArgsEvent(tool_call_id=call_id, delta=text, **self._attribution)

    def start_call(self, fields: Mapping[str, Any]) -> Iterator[BaseEvent]:
        """End the arguments of a call; without a store, its id is known only now, and all of it follows at once."""
        yield from self.close()
        call_id = fields["call_id"]
        if call_id not in self._known_calls and call_id not in self._known_results:
            arguments = fields["arguments"]
            text = arguments if isinstance(arguments, str) else dump_json({} if arguments is None else arguments)
            yield from self.write_arguments(call_id, fields["tool"], text)
            yield from self.close()

    def end_call(self, fields: Mapping[str, Any]) -> Iterator[BaseEvent]:
        """The result of a call, once: a run that goes on takes up the outcomes of calls that have ended."""
        yield from self.end_response()
        call_id = fields["call_id"]
        if call_id in self._known_results:
            return
        self._known_results.add(call_id)
        content = fields["outcome"]["text"]
        yield ToolCallResultEvent(
            message_id=f"{call_id}-result", tool_call_id=call_id, content=content, **self._attribution
        )

    def _current_message(self) -> str:
        if self._message_id is None:
            self._message_id = self._new_message_id()
        return self._message_id
