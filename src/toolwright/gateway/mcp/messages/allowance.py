"""The old names of `gateway.mcp.request_limits`, for `web/`."""

from __future__ import annotations

from toolwright.gateway.mcp.request_limits import MAX_IN_FLIGHT_BYTES as ROOM
from toolwright.gateway.mcp.request_limits import MAX_IN_FLIGHT_REQUESTS as AT_ONCE
from toolwright.gateway.mcp.request_limits import MAX_MESSAGE_BYTES as LARGEST
from toolwright.gateway.mcp.request_limits import SERVER_BUSY_CODE as BUSY

__all__ = ["AT_ONCE", "BUSY", "LARGEST", "ROOM"]
