"""Allowance: how much one client may ask for at one time."""

from __future__ import annotations

LARGEST = 4 << 20
"""Bytes that one message may have."""
AT_ONCE = 256
"""Requests of one connection, or of one user, that run at the same time."""
ROOM = 64 << 20
"""Bytes of requests that run."""
BUSY = -32000
"""The code of a request that is refused because too many others wait: one that the protocol leaves to servers."""
