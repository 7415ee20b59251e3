"""`TracedTransport`: a transport whose messages are logged, for people who debug a server.

A session uses it where `trace` is set. The direct path of calls is switched off: every message passes the streams here.
"""

from __future__ import annotations

import logging
from types import TracebackType

from mcp.shared.message import SessionMessage
from pydantic_core import to_json

from surehand.core.sanitize import escape_line
from surehand.jsonrpc.streams import MessageReadStream, MessageWriteStream
from surehand.providers.mcp.connection_secrets import ConnectionSecrets, ServerLog
from surehand.providers.mcp.labels import mask_secrets_in_json
from surehand.providers.mcp.transports.transport import Transport

MAX_TRACED_CHARACTERS = 20_000
"""Characters of one message in the log."""


class TracedTransport(Transport):
    """Wraps a transport, and logs what it sends and receives at DEBUG, with secrets masked.

    Args:
        secrets: those of the connection, which are masked in addition to what looks like a secret.
    """

    def __init__(self, transport: Transport, log: ServerLog, secrets: ConnectionSecrets) -> None:
        self._transport = transport
        self._log = log
        self._secrets = secrets
        self.uses_headers = transport.uses_headers

    async def __aenter__(self) -> tuple[MessageReadStream, MessageWriteStream]:
        read, write = await self._transport.__aenter__()
        return _TracedReadStream(read, self), _TracedWriteStream(write, self)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool | None:
        return await self._transport.__aexit__(kind, error, traceback)

    def stop_reading(self) -> None:
        """The session reads no more messages."""
        self._transport.stop_reading()

    def exit_report(self) -> str:
        """How the server ended and what it wrote to stderr, for a person."""
        return self._transport.exit_report()

    def exit_summary(self) -> list[str]:
        """How the server ended, in sentences that a model may read."""
        return self._transport.exit_summary()

    def log_message(self, direction: str, item: SessionMessage | Exception) -> None:
        """Log one message; `direction` is "sent" or "received"."""
        if isinstance(item, Exception) or not self._log.isEnabledFor(logging.DEBUG):
            return
        message = item.message.model_dump(mode="json", by_alias=True, exclude_none=True)
        text = to_json(mask_secrets_in_json(self._secrets.redact_traced(message))).decode()
        self._log.debug("%s %s", direction, escape_line(text, MAX_TRACED_CHARACTERS))


class _TracedReadStream(MessageReadStream):
    def __init__(self, stream: MessageReadStream, traced: TracedTransport) -> None:
        self._stream = stream
        self._traced = traced

    async def receive(self) -> SessionMessage | Exception:
        item = await self._stream.receive()
        self._traced.log_message("received", item)
        return item

    async def aclose(self) -> None:
        self.is_closed = True
        await self._stream.aclose()


class _TracedWriteStream(MessageWriteStream):
    def __init__(self, stream: MessageWriteStream, traced: TracedTransport) -> None:
        self._stream = stream
        self._traced = traced

    async def send(self, item: SessionMessage, /) -> None:
        self._traced.log_message("sent", item)
        await self._stream.send(item)

    async def aclose(self) -> None:
        self.is_closed = True
        await self._stream.aclose()
