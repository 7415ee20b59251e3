"""Retries of model requests, in one place for all models: the SDKs' own are switched off."""

from __future__ import annotations

import logging
import random
from collections.abc import AsyncIterator

from surehand.agent.models.base import (
    AnswerRestarted,
    Model,
    ModelAnswer,
    ModelChunk,
    ModelError,
    ModelRequest,
    find_max_tokens,
    open_stream,
)
from surehand.core.clock import Clock

log = logging.getLogger("surehand")

MAX_ATTEMPTS = 4
MAX_RETRY_SECONDS = 120.0
"""After this time, counted from the first attempt, a request is not made again."""
MAX_RETRY_AFTER_SECONDS = 60.0
"""A server that asks to wait longer has refused the request."""
_FIRST_DELAY_SECONDS = 0.5
_JITTER = 0.2


class RetryingModel:
    """A model whose failed requests are made again, after a growing delay or the one that the server asks for."""

    def __init__(self, model: Model, *, clock: Clock | None = None) -> None:
        self.name = model.name
        self._model = model
        self._clock = clock or Clock()

    def __repr__(self) -> str:
        return repr(self._model)

    @property
    def max_tokens(self) -> int | None:
        """The most tokens of one answer of the model; None if it does not say."""
        return find_max_tokens(self._model)

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelChunk]:
        """Answer a request; `AnswerRestarted` says that the chunks before it are void."""
        started_at = self._clock.now()
        attempt = 1
        while True:
            try:
                async with open_stream(self._model, request) as chunks:
                    async for chunk in chunks:
                        yield chunk
                        if isinstance(chunk, ModelAnswer):
                            return
                raise ModelError(f"The stream of {self.name} ended without an answer.", retryable=True)
            except ModelError as error:
                delay = self._retry_delay(error, attempt, self._clock.now() - started_at)
                if delay is None:
                    raise
                log.warning("Attempt %d of %d failed, next in %.1f s. %s", attempt, MAX_ATTEMPTS, delay, error)
                yield AnswerRestarted(str(error), attempt, delay)
            attempt += 1
            await self._clock.sleep(delay)

    def _retry_delay(self, error: ModelError, attempt: int, elapsed: float) -> float | None:
        """Seconds until the next attempt; None if there is none."""
        if not error.retryable or attempt >= MAX_ATTEMPTS:
            return None
        delay = error.retry_after
        if delay is None:
            # Random, so that many agents that failed together do not come back together.
            delay = _FIRST_DELAY_SECONDS * 2 ** (attempt - 1) * random.uniform(1 - _JITTER, 1 + _JITTER)
        elif delay > MAX_RETRY_AFTER_SECONDS:
            return None
        return delay if elapsed + delay <= MAX_RETRY_SECONDS else None
