"""What a model is to an agent: one streaming method, and the values that go in and come out of it.

Messages and tools are plain dictionaries in the form of OpenAI's Chat Completions API. Each model translates them to
its own wire.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias, runtime_checkable

from surehand.core.tool import Tool

Message: TypeAlias = dict[str, Any]
"""`role` and `content`; an assistant's `tool_calls` and `provider_items`; a tool's `tool_call_id name is_error`."""


@dataclass(frozen=True, slots=True)
class Usage:
    """What one request to a model cost."""

    tokens_in: int = 0
    tokens_out: int = 0
    cost: float | None = None
    """In US dollars; None if the price of the model is unknown."""


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """What a model is shown."""

    messages: list[Message]
    tools: list[dict[str, Any]] = field(default_factory=list)
    """Tools in the form of `runtime.describe("openai")`."""
    hosted: tuple[Tool[..., Any], ...] = ()
    """Tools that the model's own provider runs; a model that does not know them leaves them out."""
    output_schema: dict[str, Any] | None = None
    """The JSON Schema of the final answer. A model may pass it on; the agent checks the answer in any case."""


@dataclass(frozen=True, slots=True)
class TextChunk:
    """A piece of the answer's text."""

    text: str


@dataclass(frozen=True, slots=True)
class ToolInputChunk:
    """A piece of the arguments of a call, as the model writes them; the first one of a call may be empty."""

    position: int
    """The number of the call in the answer, from 0."""
    name: str
    text: str
    model_id: str | None = None


@dataclass(frozen=True, slots=True)
class ModelCall:
    """A call as the model wrote it."""

    name: str
    arguments: str = "{}"
    """The JSON text as the model wrote it, which may be malformed."""
    model_id: str | None = None


@dataclass(frozen=True, slots=True)
class ModelAnswer:
    """A complete answer: the last item of a stream."""

    text: str = ""
    calls: tuple[ModelCall, ...] = ()
    usage: Usage = Usage()
    stop_reason: str = "stop"
    provider_items: list[dict[str, Any]] | None = None
    """What the provider needs back unchanged, each tagged with the name of its wire."""


@dataclass(frozen=True, slots=True)
class AnswerRestarted:
    """The request failed and is made again: the chunks before this one are void."""

    reason: str
    attempt: int
    """The number of the attempt that failed, from 1."""
    delay: float
    """Seconds until the next attempt."""


ModelChunk: TypeAlias = TextChunk | ToolInputChunk | AnswerRestarted | ModelAnswer


class ModelError(Exception):
    """A model request failed: nothing of its answer is used, and none of its calls run."""

    def __init__(self, message: str, *, retryable: bool = False, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retryable = retryable
        self.retry_after = retry_after


@runtime_checkable
class Model(Protocol):
    """Something that answers requests."""

    @property
    def name(self) -> str:
        """The provider and the model, such as `openai:gpt-5-mini`."""
        ...

    def stream(self, request: ModelRequest) -> AsyncIterator[ModelChunk]:
        """Answer a request: chunks, then one `ModelAnswer` as the last item. Everything else raises `ModelError`."""
        ...


@runtime_checkable
class LimitedAnswers(Protocol):
    """A model that says how long its answers may be: so many tokens of its context stay free for them."""

    @property
    def max_tokens(self) -> int | None:
        """The most tokens of one answer; None if its server decides."""
        ...


def find_max_tokens(model: Model) -> int | None:
    """The most tokens of one answer of a model, if it says so."""
    return model.max_tokens if isinstance(model, LimitedAnswers) else None


@asynccontextmanager
async def open_stream(model: Model, request: ModelRequest) -> AsyncIterator[AsyncIterator[ModelChunk]]:
    """The stream of a request, which is closed on leaving, so that its HTTP request ends at once."""
    stream = model.stream(request)
    try:
        yield stream
    finally:
        if isinstance(stream, AsyncGenerator):
            await stream.aclose()
