"""Reading a model's answer: fields of dictionaries and of SDK objects alike, and calls with ids of their own.

Used by the modules of the model APIs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from surehand.core.call import Arguments, Call
from surehand.core.ids import derive_call_id
from surehand.core.outcome import Outcome


class RequestedCall(NamedTuple):
    """A call as the model wrote it."""

    tool: str
    arguments: Arguments
    model_id: str | None


@dataclass(frozen=True, slots=True)
class Defect:
    """Why an answer is incomplete."""

    description: str
    remedy: str


NOT_ENDED = Defect("has not ended", "Read the whole answer; if its stream broke, ask the model again.")
AT_TOKEN_LIMIT = Defect("was cut at its token limit", "Raise the limit and ask the model again.")
CONTEXT_FULL = Defect("was cut because the context of the model is full", "Shorten the conversation and ask again.")
FILTERED = Defect("was stopped by the provider's filter", "Change the prompt and ask the model again.")
REFUSED = Defect("was broken off, because the model refused to go on", "Change the prompt and ask the model again.")
BROKEN_OFF = Defect("was broken off", "Ask the model again.")


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


def is_given(value: Any, name: str) -> bool:
    """Whether a dictionary or an object was given this field, even without a value; SDKs add fields that were not."""
    given = getattr(value, "model_fields_set", None)
    return has_field(value, name) if given is None else name in given


def to_word(value: Any) -> str:
    """A text, or the value of an enumeration."""
    return str(getattr(value, "value", value))


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


def refuse_incomplete_answer(
    requested: Sequence[RequestedCall], answer: Any, names: Sequence[str], defects: Mapping[str, Defect]
) -> None:
    """Raise if the answer says that it is incomplete: the arguments of its calls may be so, too.

    An answer without a stop reason passes, such as a message alone; one whose stop reason is None has not ended.

    Args:
        names: the names of the field with the stop reason.
        defects: what the stop reasons of incomplete answers mean.
    """
    for name in names:
        if is_given(answer, name):
            reason = read_field(answer, name)
            defect = NOT_ENDED if reason is None else defects.get(to_word(reason))
            refuse_defect(requested, defect, f"`{name}` is {None if reason is None else to_word(reason)!r}")


def refuse_defect(requested: Sequence[RequestedCall], defect: Defect | None, detail: str) -> None:
    """Raise if an answer with calls has a defect."""
    if requested and defect is not None:
        raise ValueError(
            f"The model's answer {defect.description} ({detail}), so the arguments of its {len(requested)} tool calls "
            f"may be incomplete. {defect.remedy}"
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
