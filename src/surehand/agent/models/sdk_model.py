"""What the models over the official SDKs have in common: the client of one request, and its errors.

A request has a client, and so connections, of its own: an agent may be used in one event loop after another. A program
that wants to keep connections open gives its own SDK client, which also reaches Azure, Bedrock and Vertex.
"""

from __future__ import annotations

import asyncio
import os
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, aclosing
from dataclasses import dataclass, field
from importlib import import_module
from types import ModuleType
from typing import Any, ClassVar, Literal, TypeVar

from surehand.agent.models.base import ModelChunk, ModelError, ModelRequest, TextChunk, ToolInputChunk
from surehand.agent.models.errors import (
    StreamBroken,
    connection_error,
    event_error,
    status_error,
    timeout_error,
)
from surehand.agent.models.http_client import build_http_client, build_timeout
from surehand.agent.models.usage import Price
from surehand.core.extras import install_command
from surehand.core.redaction import Redactor

T = TypeVar("T")
IDLE_TIMEOUT_SECONDS = 60.0
MAX_ANSWER_CHARACTERS = 8 * 1024 * 1024
"""Characters of the text and the arguments of one answer."""
_NESTED_ITERATORS = 16
_PLACEHOLDER_KEY = "no-key"
"""Sent to servers that need no key, because the SDKs insist on one."""

ReasoningEffort = Literal["minimal", "low", "medium", "high"]


@dataclass(frozen=True, slots=True)
class ModelSettings:
    """How a model is reached and asked; what is None is left to the SDK, its variables, or the server."""

    base_url: str | None = None
    api_key: str | None = field(default=None, repr=False)
    client: Any = None
    """An async client of the SDK to use instead of one for each request; the program closes it."""
    idle_timeout: float = IDLE_TIMEOUT_SECONDS
    """Seconds in which the server sends nothing of the answer, after which it has failed.

    Keep-alive events do not count as an answer.
    """
    temperature: float | None = None
    max_tokens: int | None = None
    """The most tokens of one answer."""
    reasoning: ReasoningEffort | None = None
    price: Price | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    """Further fields of the request, as the server's API names them."""


class SdkModel(ABC):
    """A model over an official SDK: one HTTP request for each call of `stream`, without retries."""

    provider: ClassVar[str]
    sdk_name: ClassVar[str]
    key_variable: ClassVar[str]
    url_variable: ClassVar[str]
    """The SDK's variable for the address of another server."""

    def __init__(self, model: str, settings: ModelSettings | None = None) -> None:
        self.model = model
        self.settings = settings or ModelSettings()
        self.name = f"{self.provider}:{model}"

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.model!r})"

    @property
    def max_tokens(self) -> int | None:
        """The most tokens of one answer; None if the server decides."""
        return self.settings.max_tokens

    @abstractmethod
    def _build_client(self, sdk: Any, **options: Any) -> Any:
        """A client of the SDK with these options."""

    @abstractmethod
    def _build_request(self, request: ModelRequest) -> dict[str, Any]:
        """The fields of the HTTP request."""

    @abstractmethod
    async def _send(self, client: Any, fields: dict[str, Any]) -> Any:
        """Send the request; returns the SDK's stream of the response."""

    @abstractmethod
    def _read_answer(self, stream: Any, request: ModelRequest, redact: Redactor) -> AsyncGenerator[ModelChunk, None]:
        """The chunks of the response, then the answer. What the SDK and its parser raise passes through.

        `redact` masks the key of the request in what the server says.
        """

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelChunk]:
        """Make one request. Leaving the iteration closes its connection."""
        sdk = load_sdk(self.sdk_name, self.provider)
        import httpx2  # the HTTP client of both SDKs; loading it takes as long as the rest of this package

        fields = self._build_request(request)
        redact = Redactor()
        has_begun = False
        try:
            async with AsyncExitStack() as stack:
                stack.push_async_callback(_let_iterators_close)
                client = await self._open_client(sdk, stack, redact)
                response = await stack.enter_async_context(await self._send(client, fields))
                has_begun = True
                chunks = await stack.enter_async_context(aclosing(self._read_checked(response, request, redact)))
                async for chunk in chunks:
                    yield chunk
        except (sdk.APITimeoutError, httpx2.TimeoutException) as error:
            raise timeout_error(self.name, self.settings.idle_timeout) from error
        except (sdk.APIConnectionError, httpx2.HTTPError) as error:
            if has_begun:
                raise StreamBroken(f"The connection to {self.name} broke in the middle of the answer.") from error
            raise connection_error(self.name, error, redact) from error
        except sdk.APIStatusError as error:
            raise status_error(self.name, error.status_code, error.body, error.response.headers, redact) from None
        except sdk.APIError as error:
            raise event_error(self.name, error.body or error.message, redact) from None

    async def _read_checked(
        self, stream: Any, request: ModelRequest, redact: Redactor
    ) -> AsyncGenerator[ModelChunk, None]:
        """The chunks of the response; one that cannot be read fails it."""
        characters = 0
        try:
            async with aclosing(self._read_answer(stream, request, redact)) as chunks:
                async for chunk in chunks:
                    if isinstance(chunk, (TextChunk, ToolInputChunk)):
                        characters += len(chunk.text)
                    if characters > MAX_ANSWER_CHARACTERS:
                        limit = f"{MAX_ANSWER_CHARACTERS:,} characters"
                        raise ModelError(f"The answer of {self.name} is longer than {limit}.")
                    yield chunk
        except (ValueError, TypeError, KeyError, AttributeError, IndexError) as error:
            # The SDKs build their objects without checking them, and let errors of the JSON parser through.
            detail = redact(f"{type(error).__name__}: {str(error)[:200]}")
            raise StreamBroken(f"{self.name} sent an answer that cannot be read ({detail}).") from error

    async def _read_events(
        self, events: AsyncIterator[T], is_heartbeat: Callable[[T], bool]
    ) -> AsyncGenerator[T, None]:
        """The events of a response; it fails if only heartbeats arrive for as long as it may be silent."""
        try:
            while True:
                # The time in which the reader of this generator is at work does not count.
                async with asyncio.timeout(self.settings.idle_timeout):
                    event = await anext(events)
                    while is_heartbeat(event):
                        event = await anext(events)
                yield event
        except StopAsyncIteration:
            return
        except TimeoutError:
            raise timeout_error(self.name, self.settings.idle_timeout) from None

    async def _open_client(self, sdk: Any, stack: AsyncExitStack, redact: Redactor) -> Any:
        timeout = build_timeout(self.settings.idle_timeout)
        if self.settings.client is not None:
            client = self.settings.client.with_options(max_retries=0, timeout=timeout)
        else:
            base_url = self.settings.base_url or os.environ.get(self.url_variable)
            http_client = build_http_client(base_url, self.settings.idle_timeout)
            await stack.enter_async_context(http_client)
            client = self._build_client(
                sdk,
                base_url=self.settings.base_url,
                api_key=self.settings.api_key,
                http_client=http_client,
                timeout=timeout,
                max_retries=0,
            )
        # Clients of other clouds, which a program may give, have no `api_key`.
        keys = (self.settings.api_key, getattr(client, "api_key", None))
        redact.add(key for key in keys if isinstance(key, str) and key != _PLACEHOLDER_KEY)
        return client

    def missing_key(self) -> ModelError:
        """The error of a model without an API key."""
        return ModelError(f"{self.name} needs an API key: set {self.key_variable}, or give `api_key=`.")


async def _let_iterators_close() -> None:
    """Let asyncio close the iterators that an SDK left unfinished, each nested in the next, in tasks of its own."""
    for _ in range(_NESTED_ITERATORS):
        await asyncio.sleep(0)


def load_sdk(name: str, provider: str) -> ModuleType:
    """The SDK of a provider; a `ModelError` that says how to install it if it is missing."""
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name:
            raise
        raise ModelError(f"Models of {provider} need the SDK {name}: {install_command(name)}.") from None


def placeholder_key() -> str:
    """A key for a server that needs none."""
    return _PLACEHOLDER_KEY
