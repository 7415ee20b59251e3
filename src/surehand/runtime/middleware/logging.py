"""Logging: logs one line for each request and one for its response."""

from __future__ import annotations

import logging as log
from collections.abc import Mapping
from time import perf_counter

from surehand.core.argument_errors import short_repr
from surehand.core.outcome import Failed, Outcome
from surehand.runtime.pipeline.invocation import Invocation
from surehand.runtime.pipeline.pipeline import Proceed
from surehand.runtime.pipeline.stages.middleware import Middleware

MAX_ARGUMENT_CHARACTERS = 160
"""Longer arguments are cut in the log."""


def logging(logger: log.Logger | None = None, *, level: int = log.DEBUG) -> Middleware:
    """Log requests and responses at `level`, failures as warnings."""
    target = logger or log.getLogger("surehand.calls")

    async def logging(invocation: Invocation, proceed: Proceed) -> Outcome:
        listing = invocation.listing
        started_at = perf_counter()
        extra_fields = {
            "turn": invocation.principal.turn,
            "remote": f"{listing.kind}:{listing.namespace}:{listing.tool.name}",
        }
        target.log(
            level, "tool request -> %s %s", listing.name, _render_arguments(invocation.arguments), extra=extra_fields
        )
        outcome = await proceed(invocation)
        latency_ms = (perf_counter() - started_at) * 1000
        if isinstance(outcome, Failed):
            message = short_repr(outcome.message)
            target.warning(
                "tool response <- %s %.0fms failed: %s %s",
                listing.name,
                latency_ms,
                outcome.code,
                message,
                extra=extra_fields,
            )
        else:
            status, size = "ok" if outcome.ok else "pending", len(outcome.text)
            target.log(
                level,
                "tool response <- %s %.0fms %d chars %s",
                listing.name,
                latency_ms,
                size,
                status,
                extra=extra_fields,
            )
        return outcome

    return logging


def _render_arguments(arguments: Mapping[str, object]) -> str:
    return (
        "{"
        + ", ".join(f"{name}: {short_repr(value, MAX_ARGUMENT_CHARACTERS)}" for name, value in arguments.items())
        + "}"
    )
