"""Defaults: the limits that hold where nothing else says otherwise."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from toolwright.core.errors import DefinitionError
from toolwright.core.names import nearest


@dataclass(frozen=True, slots=True)
class Defaults:
    """Limits for tools that set none themselves."""

    tool_timeout: float | None = 30.0
    """Seconds per attempt; None for no limit."""
    max_output: int = 100_000
    """Bytes of text that a model is shown; the rest is kept under a handle."""
    max_input: int = 16_000_000
    """Characters of arguments."""
    max_concurrent: int | None = None
    """Calls running at once among the tools that name no queue."""
    pending_ttl: float | None = 7 * 86_400.0
    """Seconds that a call may wait for a person."""
    retry_delay: float = 0.5
    """Seconds before the first retry; doubled each time, at most half a minute."""
    breaker_failures: int = 5
    """Failures in a row after which a provider counts as down."""
    breaker_pause: float = 30.0
    """Seconds before a provider that is down is tried again."""
    mcp_init_concurrency: int | None = None
    """MCP servers that are started at once when the runtime starts; None for all of them."""

    @classmethod
    def of(cls, given: Defaults | Mapping[str, Any] | None) -> Defaults:
        """Defaults from a mapping, refusing names that mean nothing."""
        if isinstance(given, Defaults):
            return given
        known = [field.name for field in fields(cls)]
        for name in given or {}:
            if name not in known:
                near = nearest(name, known, 1)
                raise DefinitionError(f"There is no default {name!r}.", fix=f"use {near[0] if near else known}.")
        return cls(**(given or {}))
