"""Keep-alive: the kernel asks now and then whether the other side of a quiet connection is still there."""

from __future__ import annotations

import socket
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from toolwright.http.connector import dial

if TYPE_CHECKING:
    from httpcore2 import AsyncNetworkStream

_OPTIONS = {"TCP_KEEPIDLE": 30, "TCP_KEEPINTVL": 10, "TCP_KEEPCNT": 3}
"""Seconds of quiet, seconds between questions, and how many may go unanswered."""


async def kept_alive(address: str, port: int, timeout: float | None) -> AsyncNetworkStream:
    """Open a connection that breaks off within a minute of the other side's going silent for good."""
    stream = await dial(address, port, timeout)
    keep_alive(stream.get_extra_info("socket"))
    return stream


def keep_alive(opened: Any) -> None:
    """Have the kernel ask, on a socket that is open."""
    with suppress(OSError, AttributeError, TypeError):  # not every event loop gives the socket away
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in _OPTIONS.items():
            opened.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
