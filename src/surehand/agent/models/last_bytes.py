"""The last bytes of a response: how a stream ended, which the OpenAI SDK does not tell.

It reads `[DONE]` and the end of the connection alike.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

_EXTENSION = "surehand.last_bytes"
_MAX_LAST_BYTES = 64


class _RecordedStream:
    """The body of a response, whose last bytes are kept."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self.last_bytes = b""

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for chunk in self._stream:
            self.last_bytes = (self.last_bytes + chunk)[-_MAX_LAST_BYTES:]
            yield chunk

    async def aclose(self) -> None:
        await self._stream.aclose()


async def record_last_bytes(response: Any) -> None:
    """Keep the last bytes of a response that is not compressed; a hook of the HTTP client."""
    if "content-encoding" in response.headers:
        return
    from httpx2 import AsyncByteStream  # loaded with the SDK that makes the request

    class RecordedByteStream(_RecordedStream, AsyncByteStream):
        pass

    response.stream = response.extensions[_EXTENSION] = RecordedByteStream(response.stream)


def ended_with(response: Any, mark: bytes) -> bool | None:
    """Whether a mark is among the last bytes of a response; None if they were not kept."""
    recorded = response.extensions.get(_EXTENSION)
    return None if recorded is None else mark in recorded.last_bytes
