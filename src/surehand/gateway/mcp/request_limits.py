"""Limits of the requests that one client may have in flight at the same time, over stdio and over HTTP."""

from __future__ import annotations

MAX_MESSAGE_BYTES = 4 << 20
"""Bytes of one message."""
MAX_IN_FLIGHT_REQUESTS = 256
"""Requests of one connection, or of one user, that run at the same time."""
MAX_IN_FLIGHT_BYTES = 64 << 20
"""Bytes of the requests that run at the same time, as `jsonrpc.limits.estimated_memory` counts them."""
SERVER_BUSY_CODE = -32000
"""The error code of a request that is refused because too many others run or wait. JSON-RPC leaves it to servers."""
