"""Logging: logs one line for the request of each call and one for its response, also of calls that are refused."""

from __future__ import annotations

import asyncio
import logging as log
from collections.abc import Mapping
from time import perf_counter
from typing import Any

from surehand.core.argument_errors import short_repr
from surehand.core.errors import InvalidArguments
from surehand.core.outcome import Failed, Outcome, Pending
from surehand.core.strict_json import parse_json
from surehand.runtime.invocation.invocation import Invocation, NextStage
from surehand.runtime.pipeline.installed_middleware import Middleware, OuterMiddleware

MAX_ARGUMENT_CHARACTERS = 160
"""Longer arguments are cut in the log."""
MAX_NAME_CHARACTERS = 200


def logging(logger: log.Logger | None = None, *, level: int = log.DEBUG) -> Middleware:
    """Log requests and responses at `level`, failures as warnings.

    A call that waits has one request, a line that says so, and one response, when it ends.
    """
    target = logger or log.getLogger("surehand.calls")

    async def logging(invocation: Invocation, proceed: NextStage) -> Outcome:
        started_at = perf_counter()
        name = str(invocation.tool_name)[:MAX_NAME_CHARACTERS]
        extra = {"turn": invocation.principal.turn, "remote": _remote_name(invocation)}
        if not invocation.is_resumed and target.isEnabledFor(level):
            target.log(level, "tool request -> %s %s", name, _render_arguments(invocation.raw_arguments), extra=extra)
        try:
            outcome = await proceed(invocation)
        except asyncio.CancelledError:  # its caller was cancelled, or its time is up
            code = invocation.interruption_reason[0] if invocation.interruption_reason else "cancelled"
            target.warning("tool response <- %s %.0fms failed: %s", name, _elapsed_ms(started_at), code, extra=extra)
            raise
        latency_ms = _elapsed_ms(started_at)
        match outcome:
            case Failed(code, message):
                text = "tool response <- %s %.0fms failed: %s %s"
                target.warning(text, name, latency_ms, code, short_repr(message), extra=extra)
            case Pending(waiting_for):
                target.log(level, "tool pending <- %s %.0fms for %s", name, latency_ms, waiting_for, extra=extra)
            case _:
                size = len(outcome.text)
                target.log(level, "tool response <- %s %.0fms %d chars ok", name, latency_ms, size, extra=extra)
        return outcome

    return OuterMiddleware(logging)


def _elapsed_ms(started_at: float) -> float:
    return (perf_counter() - started_at) * 1000


def _remote_name(invocation: Invocation) -> str:
    """Kind, namespace and name of the tool; empty for an unknown one."""
    listing = invocation.__dict__.get("listing")
    return f"{listing.kind}:{listing.namespace}:{listing.tool.name}" if listing is not None else ""


def _render_arguments(arguments: Any) -> str:
    """The arguments as they were sent, each cut by itself; text that is no JSON object is cut as a whole."""
    if isinstance(arguments, (str, bytes)):
        try:
            arguments = parse_json(arguments) if arguments else {}
        except InvalidArguments:
            return short_repr(arguments, MAX_ARGUMENT_CHARACTERS)
    if not isinstance(arguments, Mapping):
        return "{}" if arguments is None else short_repr(arguments, MAX_ARGUMENT_CHARACTERS)
    shown = [f"{name}: {short_repr(value, MAX_ARGUMENT_CHARACTERS)}" for name, value in arguments.items()]
    return f"{{{', '.join(shown)}}}"
