"""Reading a model's answer: fields of dictionaries and of SDK objects alike, and calls with ids of their own.

Used by the modules of the model APIs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from surehand.core.call import Arguments, Call
from surehand.core.ids import derive_call_id
from surehand.core.outcome import Outcome


class RequestedCall(NamedTuple):
    """A call as the model wrote it."""

    tool: str
    arguments: Arguments
    model_id: str | None


def read_field(value: Any, *names: str) -> Any:
    """The first of these fields that a dictionary or an object has; None if it has none."""
    for name in names:
        found = value.get(name) if isinstance(value, Mapping) else getattr(value, name, None)
        if found is not None:
            return found
    return None


def has_field(value: Any, name: str) -> bool:
    """Whether a dictionary or an object has this field, even without a value."""
    return name in value if isinstance(value, Mapping) else hasattr(value, name)


def is_list(value: Any) -> bool:
    """Whether a value is a list of items, not a text."""
    return isinstance(value, Sequence) and not isinstance(value, (str, bytes))


def build_calls(requested: Iterable[RequestedCall], run: str | None, step: int) -> list[Call]:
    """The calls of one answer; with a run, each gets an id derived from the run, the step and its position."""
    return [
        Call(
            each.tool,
            each.arguments,
            id=None if run is None else derive_call_id(run, step, position),
            model_id=each.model_id,
            turn=run,
        )
        for position, each in enumerate(requested)
    ]


def refuse_cut_answer(requested: Sequence[RequestedCall], stop_reason: Any, cut_reason: str) -> None:
    """Raise if the answer ended at its token limit: the arguments of its calls may be incomplete."""
    if requested and str(getattr(stop_reason, "value", stop_reason)) == cut_reason:
        raise ValueError(
            f"The model's answer was cut at its token limit ({cut_reason}), so the arguments of its {len(requested)} "
            "tool calls may be incomplete. Raise the limit and ask the model again."
        )


def pair_results(calls: Sequence[Call], outcomes: Sequence[Outcome]) -> Iterator[tuple[Call, Outcome]]:
    """Each call with its outcome; raises unless there is exactly one outcome for each call."""
    if len(calls) != len(outcomes):
        raise ValueError(f"There must be one outcome for each call, got {len(outcomes)} for {len(calls)} calls.")
    return zip(calls, outcomes, strict=True)


def require_model_id(call: Call) -> str:
    """The id under which the model expects the result; raises if the call has none."""
    model_id = call.model_id or call.id
    if model_id is None:
        raise ValueError(f"The call of {call.tool} has no `model_id`, so its result cannot be sent back.")
    return model_id
