"""Steps: the answers of a model in a run, each with what the conversation gained before it, and with its calls."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, TypeAlias

from surehand.agent.models.base import Message, ModelAnswer, ModelCall, Usage
from surehand.core.outcome import Outcome, Pending
from surehand.store.serialization import JSON, deserialize_outcome, serialize_outcome

Purpose: TypeAlias = Literal["continue", "correct_output", "wrap_up"]
"""Why the model was asked: to go on, to correct an answer that is not of the output type, or to end at a limit."""


@dataclass(frozen=True, slots=True)
class Compaction:
    """How much of the conversation is shortened. It only grows, so that no text is shortened twice.

    It counts exchanges: the answers of an earlier conversation in the prompt, and then the steps of the run.
    """

    shortened_exchanges: int = 0
    """The results of the first exchanges are shown with their head and tail alone."""
    summarized_exchanges: int = 0
    """The first exchanges are shown as one line for each call."""
    omitted_exchanges: int = 0
    """The first exchanges are not shown, except for the messages of people before them."""
    result_chars: int | None = None
    """The length to which results are cut, if recent ones alone were too long."""
    cut_exchanges: int = 0
    """The results of the first exchanges are cut to `result_chars`."""
    max_chars: int | None = None
    """The most characters of a request, if the server has refused a longer one that should have fitted."""

    @classmethod
    def from_json(cls, stored: JSON) -> Compaction:
        """Read a stored compaction; earlier versions named its counts after steps."""
        return cls(**{name.replace("_steps", "_exchanges"): value for name, value in stored.items()})


NO_COMPACTION = Compaction()


@dataclass(slots=True)
class StepCall:
    """A call that an answer asks for."""

    call_id: str | None
    """The id of the call in the runtime; without a store, None until the call has been made."""
    name: str
    arguments: str
    message_id: str
    """The id that pairs the call with its result in the conversation."""
    shown_outcome: Outcome | None = None
    """The outcome that the conversation shows the model; None until it is decided. It may be a `Pending`."""
    pending: Pending | None = None
    """What the call waits for, while it may still end before the model is asked again."""

    @property
    def follows(self) -> str | None:
        """The id of the earlier call that this one repeats: it is not made, and ends with the same outcome."""
        match self.shown_outcome or self.pending:
            case Pending(request={"follows": str(call_id)}):
                return call_id
        return None


@dataclass(slots=True)
class Step:
    """One answer of the model."""

    index: int
    answer: ModelAnswer
    calls: list[StepCall]
    before: list[Message] = field(default_factory=list)
    """What was added to the conversation before this answer: late results and messages of people."""
    delivered: tuple[str, ...] = ()
    """The ids of the calls whose late results are in `before`."""
    purpose: Purpose = "continue"
    reason: str = ""
    """The limit that was reached, if the model was asked to wrap up."""
    compaction: Compaction = NO_COMPACTION
    """How the conversation before this answer was shortened."""

    @property
    def runs_calls(self) -> bool:
        """Whether the calls of the answer are made: those of the last turn at a limit are not."""
        return self.purpose != "wrap_up"

    def to_json(self) -> JSON:
        """Write the step for the store, without the outcomes of its calls."""
        answer = self.answer
        stored: dict[str, Any] = {
            "text": answer.text,
            "calls": [
                {"name": call.name, "arguments": call.arguments, "model_id": model_call.model_id, "as": call.message_id}
                for call, model_call in zip(self.calls, answer.calls, strict=True)
            ],
            "usage": {name: getattr(answer.usage, name) for name in ("tokens_in", "tokens_out", "cost")},
            "stop_reason": answer.stop_reason,
        }
        optional = {
            "provider_items": answer.provider_items,
            "before": self.before,
            "delivered": self.delivered,
            "compaction": None if self.compaction == NO_COMPACTION else asdict(self.compaction),
            "purpose": None if self.purpose == "continue" else self.purpose,
            "reason": self.reason,
        }
        return stored | {name: value for name, value in optional.items() if value}

    @classmethod
    def from_json(cls, index: int, stored: JSON, outcomes: Sequence[tuple[str | None, JSON]]) -> Step:
        """Read a stored step.

        Args:
            outcomes: the id of each call with its stored outcome, or None if it has none yet; empty if no call is made.
        """
        outcomes = outcomes or [(None, None)] * len(stored["calls"])
        model_calls = tuple(ModelCall(call["name"], call["arguments"], call["model_id"]) for call in stored["calls"])
        answer = ModelAnswer(
            stored["text"],
            model_calls,
            Usage(**stored["usage"]),
            stored["stop_reason"],
            stored.get("provider_items"),
        )
        calls = [
            StepCall(call_id, call["name"], call["arguments"], call["as"], load_outcome(outcome))
            for call, (call_id, outcome) in zip(stored["calls"], outcomes, strict=True)
        ]
        return cls(
            index,
            answer,
            calls,
            stored.get("before", []),
            tuple(stored.get("delivered", ())),
            stored.get("purpose", "continue"),
            stored.get("reason", ""),
            Compaction.from_json(stored["compaction"]) if "compaction" in stored else NO_COMPACTION,
        )


def dump_outcome(outcome: Outcome) -> JSON:
    """Write what the model is told of a call."""
    if isinstance(outcome, Pending):
        fields = ("waiting_for", "call_id", "message", "request", "expires_at")
        return {"pending": {name: getattr(outcome, name) for name in fields}}
    return serialize_outcome(outcome)


def load_outcome(stored: JSON) -> Outcome | None:
    """Read what `dump_outcome` wrote; None for None."""
    if stored is None:
        return None
    return Pending(**stored["pending"]) if isinstance(stored, dict) else deserialize_outcome(stored)


def has_ended(call: StepCall) -> bool:
    """Whether the conversation shows how a call ended, and not that it waits."""
    return call.shown_outcome is not None and not isinstance(call.shown_outcome, Pending)


def waiting_calls(steps: Sequence[Step]) -> Iterator[StepCall]:
    """The calls of which the model knows that they wait, and whose results it has not been given."""
    delivered = {call_id for step in steps for call_id in step.delivered}
    for step in steps:
        for call in step.calls:
            if isinstance(call.shown_outcome, Pending) and call.call_id not in delivered:
                yield call


def choose_message_ids(calls: Sequence[ModelCall], earlier: Sequence[Step]) -> list[str]:
    """An id for each call of an answer, by which the conversation pairs it with its result.

    It is the model's own id unless the conversation has it already: some servers write `call_1` every time.
    """
    used = {call.message_id for step in earlier for call in step.calls}
    message_ids = []
    for position, call in enumerate(calls):
        message_id = call.model_id
        if not message_id or message_id in used:
            message_id = f"call_{len(earlier)}_{position}"
            while message_id in used:
                message_id += "_"
        used.add(message_id)
        message_ids.append(message_id)
    return message_ids
