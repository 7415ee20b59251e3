"""TCP keep-alive: the kernel probes an idle connection, so that a dead peer is noticed. Used by MCP connections."""

from __future__ import annotations

import socket
from contextlib import suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from httpcore2 import AsyncNetworkStream

_KEEPALIVE_OPTIONS = {"TCP_KEEPIDLE": 30, "TCP_KEEPINTVL": 10, "TCP_KEEPCNT": 3}
"""Idle seconds before the first probe, seconds between probes, and how many may go unanswered."""


async def connect_with_keepalive(address: str, port: int, timeout: float | None) -> AsyncNetworkStream:
    """Open a connection that fails within about a minute after the peer has disappeared; a `Dialer`."""
    from surehand.http.low_latency import connect_low_latency  # loads httpcore2, an extra

    stream = await connect_low_latency(address, port, timeout)
    enable_keepalive(stream.get_extra_info("socket"))
    return stream


def enable_keepalive(open_socket: Any) -> None:
    """Turn keep-alive on for an open socket."""
    with suppress(OSError, AttributeError, TypeError):  # not every event loop exposes the socket
        open_socket.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in _KEEPALIVE_OPTIONS.items():
            open_socket.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
