"""Answers that a provider pauses: Anthropic ends a long answer with hosted tools as `pause_turn`.

Sent back as it is, the answer is continued.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace

from surehand.agent.models.base import (
    Message,
    Model,
    ModelAnswer,
    ModelChunk,
    ModelRequest,
    Usage,
    find_max_tokens,
    open_stream,
)

PAUSED = "pause_turn"
MAX_CONTINUATIONS = 10
"""How often an answer is continued; then it ends as it is."""


class UnpausedModel:
    """A model whose paused answers are continued, and given as one."""

    def __init__(self, model: Model) -> None:
        self.name = model.name
        self._model = model

    def __repr__(self) -> str:
        return repr(self._model)

    @property
    def max_tokens(self) -> int | None:
        """The most tokens of one answer of the model; None if it does not say."""
        return find_max_tokens(self._model)

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelChunk]:
        """Answer a request, with as many requests of its own as the provider pauses."""
        answers: list[ModelAnswer] = []
        while True:
            async with open_stream(self._model, _continue(request, answers)) as chunks:
                async for chunk in chunks:
                    if isinstance(chunk, ModelAnswer):
                        answers.append(chunk)
                    else:
                        yield chunk
            if not answers or answers[-1].stop_reason != PAUSED or len(answers) > MAX_CONTINUATIONS:
                break
        if answers:
            yield _join(answers)


def _continue(request: ModelRequest, answers: list[ModelAnswer]) -> ModelRequest:
    """The request with the parts of the answer so far."""
    earlier_parts: list[Message] = [
        {"role": "assistant", "content": each.text, "provider_items": each.provider_items} for each in answers
    ]
    return replace(request, messages=[*request.messages, *earlier_parts]) if earlier_parts else request


def _join(answers: list[ModelAnswer]) -> ModelAnswer:
    """The parts of an answer as one."""
    last = answers[-1]
    if len(answers) == 1:
        return last
    costs = [each.usage.cost for each in answers]
    known_costs = [cost for cost in costs if cost is not None]
    items = [item for each in answers for item in each.provider_items or ()]
    return ModelAnswer(
        text="".join(each.text for each in answers),
        calls=last.calls,
        usage=Usage(
            tokens_in=sum(each.usage.tokens_in for each in answers),
            tokens_out=sum(each.usage.tokens_out for each in answers),
            cost=sum(known_costs) if len(known_costs) == len(costs) else None,
        ),
        stop_reason=last.stop_reason,
        provider_items=items or None,
    )
