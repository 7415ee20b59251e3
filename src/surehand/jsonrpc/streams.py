"""Streams of messages in the form that the MCP SDK's sessions read from and write to.

A transport defines `receive` or `send`; iteration, closing and the context manager are the same for all.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Self

from anyio import EndOfStream

if TYPE_CHECKING:
    from mcp.shared.message import SessionMessage


class MessageReadStream(ABC):
    """Messages from the other side, one after the other."""

    is_closed = False

    @abstractmethod
    async def receive(self) -> SessionMessage | Exception:
        """The next message. Raises `anyio.EndOfStream` when no more will come."""

    async def aclose(self) -> None:
        """Stop reading."""
        self.is_closed = True

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        try:
            return await self.receive()
        except EndOfStream:
            raise StopAsyncIteration from None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


class MessageWriteStream(ABC):
    """Messages to the other side."""

    is_closed = False

    @abstractmethod
    async def send(self, item: SessionMessage, /) -> None:
        """Send one message. Raises `anyio.ClosedResourceError` or `BrokenResourceError` if the other side is gone."""

    async def aclose(self) -> None:
        """Stop writing."""
        self.is_closed = True

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()
