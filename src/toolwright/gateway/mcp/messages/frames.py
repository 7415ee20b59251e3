"""The old names of `jsonrpc.codec`, for `web/`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mcp_types import ErrorData, JSONRPCError, RequestId

from toolwright.jsonrpc.codec import Malformed, Message, decode, encode, has_short_ids
from toolwright.jsonrpc.limits import FROM_CLIENT


@dataclass(frozen=True, slots=True)
class Wrong:
    """A message that is refused, and the error that its sender is answered with."""

    code: int
    problem: str
    id: RequestId | None = None

    def message(self) -> JSONRPCError:
        """The error response."""
        return JSONRPCError(jsonrpc="2.0", id=self.id, error=ErrorData(code=self.code, message=self.problem))


def read(body: bytes) -> Message | Wrong:
    """Parse one message of a client."""
    message = decode(body, FROM_CLIENT)
    return Wrong(message.code, message.description, message.id) if isinstance(message, Malformed) else message


def is_brief(value: dict[str, Any]) -> bool:
    """Whether the id and progress token of a client's message are short enough."""
    return FROM_CLIENT.max_id_length is None or has_short_ids(value, FROM_CLIENT.max_id_length)


def write(message: Message) -> bytes:
    """A message as a line."""
    return encode(message) + b"\n"
