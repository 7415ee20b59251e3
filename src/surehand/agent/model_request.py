"""One request to a model: its chunks become events, and its last item the answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager, nullcontext

from surehand.agent.models.base import Model, ModelAnswer, ModelError, ModelRequest, TextChunk, ToolInputChunk
from surehand.core.clock import Clock

OnChunk = Callable[[TextChunk | ToolInputChunk], None]


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
    stream = model.stream(request)
    # A generator that is left in the middle has to be closed here: its request ends now, not when it is collected.
    async with aclosing(stream) if isinstance(stream, AsyncGenerator) else nullcontext():
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
    is_over = False

    def end() -> None:
        nonlocal is_over
        is_over = True
        task.cancel()

    timer = clock.call_later(max(seconds, 0.0), end)
    try:
        yield
    except asyncio.CancelledError:
        if is_over and task.uncancel() == 0:
            raise TimeIsUp from None
        raise
    finally:
        timer.cancel()
