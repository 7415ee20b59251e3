"""One request to a model: its chunks become events, and its last item the answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
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
from surehand.core.clock import Clock

PartialChunk: TypeAlias = TextChunk | ToolInputChunk | AnswerRestarted
OnChunk: TypeAlias = Callable[[PartialChunk], None]


class TimeIsUp(Exception):
    """The time limit of the run ended the request."""


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


@asynccontextmanager
async def time_limit(clock: Clock, seconds: float | None) -> AsyncIterator[None]:
    """Raise `TimeIsUp` in the block when the time is over."""
    if seconds is None:
        yield
        return
    task = asyncio.current_task()
    assert task is not None
    cancelling_before = task.cancelling()  # a caller that was cancelled before may still run an agent
    is_over = False

    def end() -> None:
        nonlocal is_over
        is_over = True
        task.cancel()

    timer = clock.call_later(max(seconds, 0.0), end)
    try:
        yield
    except asyncio.CancelledError:
        if is_over and task.uncancel() <= cancelling_before:
            raise TimeIsUp from None
        raise
    finally:
        timer.cancel()
