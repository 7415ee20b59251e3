"""The limits of one connection over stdio."""

from __future__ import annotations

from dataclasses import dataclass

from surehand.gateway.mcp.request_limits import MAX_IN_FLIGHT_BYTES, MAX_IN_FLIGHT_REQUESTS, MAX_MESSAGE_BYTES

MAX_WAITING_BYTES = 8 << 20
WRITE_TIMEOUT_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class StdioLimits:
    """Limits of the requests of one client, and of the time in which it has to read the responses."""

    max_message_bytes: int = MAX_MESSAGE_BYTES
    max_in_flight_requests: int = MAX_IN_FLIGHT_REQUESTS
    max_in_flight_bytes: int = MAX_IN_FLIGHT_BYTES
    max_waiting_bytes: int = MAX_WAITING_BYTES
    """Bytes of requests that wait until others are answered. Beyond it requests are refused."""
    write_timeout_seconds: float = WRITE_TIMEOUT_SECONDS
    """Seconds in which the client has to read some of the output that waits for it."""


DEFAULT_LIMITS = StdioLimits()
