"""One request to a model: its chunks become events, and its last item the answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from surehand.agent.models.base import (
    AnswerRestarted,
    Model,
    ModelAnswer,
    ModelError,
    ModelRequest,
    TextChunk,
    ToolInputChunk,
    open_stream,
)

PartialChunk: TypeAlias = TextChunk | ToolInputChunk | AnswerRestarted
OnChunk: TypeAlias = Callable[[PartialChunk], None]


async def ask_model(model: Model, request: ModelRequest, on_chunk: OnChunk | None) -> ModelAnswer:
    """The answer of the model; raises `ModelError` if the request fails, or has no answer as its last item."""
    try:
        return await _read_answer(model, request, on_chunk)
    except ModelError:
        raise
    except Exception as error:
        raise ModelError(f"The model {model.name} failed: {type(error).__name__}: {error}") from error


async def _read_answer(model: Model, request: ModelRequest, on_chunk: OnChunk | None) -> ModelAnswer:
    answer: ModelAnswer | None = None
    async with open_stream(model, request) as stream:
        async for chunk in stream:
            if answer is not None:
                raise ModelError(f"The model {model.name} sent more after the end of its answer.")
            if isinstance(chunk, ModelAnswer):
                answer = chunk
            elif on_chunk is not None:
                on_chunk(chunk)
    if answer is None:
        raise ModelError(f"The answer of the model {model.name} has no end.")
    return answer
