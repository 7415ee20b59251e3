"""Timestamps in the format that MCP uses, for resources and tasks."""

from __future__ import annotations

from datetime import UTC, datetime


def format_timestamp(epoch_seconds: float) -> str:
    """Format seconds since the epoch as `2026-11-16T12:00:00.000Z`."""
    return datetime.fromtimestamp(epoch_seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
