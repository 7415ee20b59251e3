"""The old names of `jsonrpc.limits`, for `web/`."""

from __future__ import annotations

from toolwright.jsonrpc.limits import FROM_CLIENT, estimated_memory, has_too_many_values


def too_bulky(data: bytes) -> bool:
    """Whether a message of a client has too many values."""
    return has_too_many_values(data, FROM_CLIENT.max_values)


def weight(data: bytes) -> int:
    """Bytes that a message of a client takes while it is being handled."""
    return estimated_memory(data, FROM_CLIENT.max_values)
