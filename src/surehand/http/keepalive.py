"""TCP keep-alive: the kernel probes an idle connection, so that a dead peer is noticed. Used by MCP connections."""

from __future__ import annotations

import socket
from contextlib import suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from httpcore2 import AsyncNetworkStream

_OPTIONS = {"TCP_KEEPIDLE": 30, "TCP_KEEPINTVL": 10, "TCP_KEEPCNT": 3}
"""Idle seconds before the first probe, seconds between probes, and how many may go unanswered."""


async def kept_alive(address: str, port: int, timeout: float | None) -> AsyncNetworkStream:
    """Open a connection that fails within about a minute after the peer has disappeared; a `Dialer`."""
    from surehand.http.low_latency import connect  # loads httpcore2, an extra

    stream = await connect(address, port, timeout)
    keep_alive(stream.get_extra_info("socket"))
    return stream


def keep_alive(opened: Any) -> None:
    """Turn keep-alive on for an open socket."""
    with suppress(OSError, AttributeError, TypeError):  # not every event loop exposes the socket
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in _OPTIONS.items():
            opened.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
