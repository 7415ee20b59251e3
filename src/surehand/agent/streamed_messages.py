"""StreamedMessages: tells listeners the text of a message to a space while the model writes the call that posts it.

Nothing may be shown that the call could not post: so only calls that run as the model wrote them, in a space that the
agent is a member of, and with no call before them that could lead to another space.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pydantic_core import from_json

from surehand.agent.models.base import ToolInputChunk
from surehand.agent.run_state import RunState
from surehand.agent.steps import Step
from surehand.core.events import SpaceMessageDelta, SpaceMessageFailed, SpaceMessagePosted
from surehand.core.outcome import Done, Failed

if TYPE_CHECKING:
    from surehand.runtime.scope import Scope

READS_PER_DOUBLING = 256
"""How often, at most, the arguments of a call are read while their length doubles."""


@dataclass(slots=True)
class _StreamedMessage:
    """A message whose call has begun."""

    space: str
    call_id: str
    argument: str
    """The name of the argument that has the text."""
    arguments: str = ""
    """The JSON of the arguments, as far as it is written."""
    text: str = ""
    """What was told of the text."""
    next_read: int = 0
    """How many characters of arguments there have to be before they are read again."""


class StreamedMessages:
    """Emits `SpaceMessageDelta` while a model writes messages, and then what has become of each."""

    def __init__(self, scope: Scope, state: RunState) -> None:
        self._scope = scope
        self._state = state
        self._space: str | None = None
        self._open: dict[int, _StreamedMessage] = {}
        """The messages of the answer, by the positions of their calls."""

    async def begin_answer(self, *, runs_calls: bool) -> None:
        """Find the space to which the next answer of the model posts; messages of an earlier one have failed.

        Args:
            runs_calls: whether the calls of the answer will be made.
        """
        self.fail_open("The model was asked again.")
        self._space = None
        space = self._scope.active_space
        store = self._scope.store
        if not runs_calls or space is None or store is None or not self._scope.has_listeners:
            return
        if await store.spaces.is_member(space, self._state.agent):
            self._space = space

    def write(self, chunk: ToolInputChunk, call_id: str | None) -> None:
        """Emit what a piece of the arguments of a call adds to a message."""
        message = self._open.get(chunk.position) or self._begin(chunk, call_id)
        if message is None:
            return
        message.arguments += chunk.text
        length = len(message.arguments)
        if length >= message.next_read:
            # Each time, all that is written so far is read: so rarely that a long text takes little time.
            message.next_read = length + length // READS_PER_DOUBLING
            self._tell_new_text(message)

    def _begin(self, chunk: ToolInputChunk, call_id: str | None) -> _StreamedMessage | None:
        # A call before this one may be one that enters another space.
        has_other_calls_before = chunk.position != len(self._open)
        if self._space is None or call_id is None or has_other_calls_before:
            return None
        listing = self._scope.find(chunk.name)
        if listing is None or not listing.tool.presentation.posted_argument:
            return None
        if not self._scope.runs_as_written(listing):
            return None
        message = _StreamedMessage(self._space, call_id, listing.tool.presentation.posted_argument)
        self._open[chunk.position] = message
        self._emit_delta(message, "")
        return message

    def end_calls(self, step: Step) -> None:
        """Tell what has become of the messages whose calls have an outcome."""
        for position, message in [*self._open.items()]:
            outcome = step.calls[position].shown_outcome if position < len(step.calls) else None
            if isinstance(outcome, Done) and _find_space(outcome.data) == message.space:
                self._tell_new_text(message)
                del self._open[position]
                self._scope.emit(SpaceMessagePosted(message.space, message.call_id, *self._owner()))
            elif isinstance(outcome, (Done, Failed)):
                reason = outcome.message if isinstance(outcome, Failed) else "It was posted to another space."
                self._fail(position, reason)

    def fail_open(self, reason: str) -> None:
        """Tell that the messages have failed which were not posted."""
        for position in [*self._open]:
            self._fail(position, reason)

    def _fail(self, position: int, reason: str) -> None:
        message = self._open.pop(position)
        self._scope.emit(SpaceMessageFailed(reason, message.space, message.call_id, *self._owner()))

    def _tell_new_text(self, message: _StreamedMessage) -> None:
        text = _read_text(message)
        if len(text) > len(message.text):
            self._emit_delta(message, text[len(message.text) :])
            message.text = text

    def _emit_delta(self, message: _StreamedMessage, text: str) -> None:
        self._scope.emit(SpaceMessageDelta(text, message.space, message.call_id, *self._owner()))

    def _owner(self) -> tuple[str, str, str | None, str | None, float]:
        state = self._state
        return state.run_id, state.agent, state.user, state.session, self._scope.clock.time()


def _read_text(message: _StreamedMessage) -> str:
    """The text in the arguments, as far as it is written."""
    try:
        arguments = from_json(message.arguments, allow_partial="trailing-strings")
    except ValueError:  # no JSON yet, or none at all: then the call fails
        return message.text
    text = arguments.get(message.argument) if isinstance(arguments, dict) else None
    return text if isinstance(text, str) and text.startswith(message.text) else message.text


def _find_space(data: Any) -> Any:
    return data.get("spaceId") if isinstance(data, Mapping) else None
