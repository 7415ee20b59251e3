"""Exchanges: a conversation by the answers of the model, each with what came before it and the results of its calls.

The earlier conversation that a prompt continues is split in the same way as the steps of the run, so that compaction
shortens both alike.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from surehand.agent.conversation import LATE_RESULT_PATTERN, answer_message, result_message
from surehand.agent.models.base import Message
from surehand.agent.models.conversation import content_text
from surehand.agent.steps import Step, waiting_calls
from surehand.core.outcome import PENDING_CALL_ID_FIELD, PENDING_TEXT_START, Pending

MAX_PENDING_CHARS = 2_000
"""A longer result in a prompt is not taken for the notice that a call waits, whatever it says."""


@dataclass(frozen=True, slots=True)
class ModelInput:
    """A message to the model."""

    message: Message
    can_be_shortened: bool = False
    """Whether it is the result of a call that has ended: messages of people, and of calls that wait, stay whole."""


@dataclass(slots=True)
class Exchange:
    """An answer of the model with the messages before it and the results after it."""

    answer: Message | None
    """None if results come without an answer that asked for them."""
    inputs: list[ModelInput] = field(default_factory=list)
    """What the model was given before its answer, beside the results of the calls of its last one."""
    results: list[ModelInput] = field(default_factory=list)
    has_open_call: bool = False
    """Whether the model has not been given the result of a call that waits."""


@dataclass(frozen=True, slots=True)
class Conversation:
    """All exchanges, and what the model has not answered yet."""

    exchanges: tuple[Exchange, ...]
    last_inputs: tuple[ModelInput, ...] = ()


def split_conversation(
    prompt: Sequence[Message], steps: Sequence[Step], new_messages: Sequence[Message], late_results: int
) -> Conversation:
    """The exchanges of a prompt and of the steps after it.

    Args:
        new_messages: what the conversation gains with the next request, of which the first are `late_results`.
    """
    earlier = _split_prompt(prompt)
    exchanges = list(earlier.exchanges)
    inputs = list(earlier.last_inputs)
    open_calls = {id(call) for call in waiting_calls(steps)}
    for step in steps:
        inputs += _mark_late_results(step.before, len(step.delivered))
        exchanges.append(_exchange_of(step, inputs, open_calls))
        inputs = []
    return Conversation(tuple(exchanges), (*inputs, *_mark_late_results(new_messages, late_results)))


def message_text(message: Message) -> str:
    """The text of a message, without its images, recordings and files if it has a text beside them."""
    content = message.get("content")
    if isinstance(content, str):
        return content
    texts = [str(block.get("text") or "") for block in content or () if block.get("type") == "text"]
    return "\n".join(filter(None, texts)) or content_text(content)


def _exchange_of(step: Step, inputs: list[ModelInput], open_calls: set[int]) -> Exchange:
    results = [ModelInput(result_message(call), not isinstance(call.shown_outcome, Pending)) for call in step.calls]
    has_open_call = any(id(call) in open_calls for call in step.calls)
    return Exchange(answer_message(step), inputs, results, has_open_call)


def _mark_late_results(messages: Sequence[Message], late_results: int) -> list[ModelInput]:
    return [ModelInput(message, position < late_results) for position, message in enumerate(messages)]


def _split_prompt(prompt: Sequence[Message]) -> Conversation:
    """Split the messages of an earlier conversation, of which there is nothing but their text."""
    exchanges: list[Exchange] = []
    inputs: list[ModelInput] = []
    waiting: set[str] = set()
    delivered: set[str] = set()
    for message in prompt:
        match message["role"]:
            case "assistant":
                exchanges.append(Exchange(message, inputs))
                inputs = []
            case "tool":
                if inputs or not exchanges:
                    exchanges.append(Exchange(None, inputs))
                    inputs = []
                pending_id = _pending_call_id(message)
                exchanges[-1].results.append(ModelInput(message, pending_id is None))
                waiting.update(() if pending_id is None else (pending_id,))
            case _:
                late_result = LATE_RESULT_PATTERN.match(message_text(message))
                # A person may write such a text, too: it is a result only if its call waits.
                is_late_result = late_result is not None and late_result["call_id"] in waiting - delivered
                inputs.append(ModelInput(message, is_late_result))
                delivered.update(late_result.groups() if late_result and is_late_result else ())
    for exchange in exchanges:
        pending = _pending_call_ids(exchange.results)
        exchange.has_open_call = not pending <= delivered
    return Conversation(tuple(exchanges), tuple(inputs))


def _pending_call_ids(results: Iterable[ModelInput]) -> set[str]:
    return {call_id for result in results if (call_id := _pending_call_id(result.message)) is not None}


def _pending_call_id(message: Message) -> str | None:
    """The id of the call that a result says is waiting; None for another result."""
    text = message.get("content")
    if not isinstance(text, str) or len(text) > MAX_PENDING_CHARS or not text.startswith(PENDING_TEXT_START):
        return None
    try:
        notice = json.loads(text)
    except (ValueError, RecursionError):  # the second for very many brackets
        return None
    call_id = notice.get(PENDING_CALL_ID_FIELD)
    return call_id if isinstance(call_id, str) else None
