"""Unknown tools: what a caller is told who asks for a tool that is not there."""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING

from surehand.core.events import CallEnded, CallStarted
from surehand.core.names import SEPARATOR
from surehand.core.outcome import Failed, attach
from surehand.runtime.invocation import Invocation

if TYPE_CHECKING:
    from surehand.runtime.parts import Parts

UNKNOWN = "(unknown)"
"""Calls of tools that are not there are counted together: their names are without number."""


def unknown(parts: Parts, invocation: Invocation, why: str | None = None) -> Failed:
    """The failure, counted and told like any other call.

    Args:
        why: what keeps the caller from the tool's provider, where that is known better than by all others.
    """
    name = str(invocation.name)
    invocation.started = perf_counter()
    counter = parts.counter(UNKNOWN)
    counter.count += 1
    counter.failures += 1
    outcome = Failed("not_found", f"Unknown tool: {name[:200]!r}. {_hint(invocation, name, why)}")
    attach(outcome, invocation)
    if parts.listeners.heard:
        at = parts.clock.time()
        parts.listeners.emit(CallStarted(invocation.id, name, invocation.raw, invocation.parent, at=at))
        if parts.auto_complete:
            parts.listeners.emit(CallEnded(invocation.id, name, outcome, at))
    return outcome


def _hint(invocation: Invocation, name: str, why: str | None) -> str:
    parts = invocation.scope.parts
    namespace, mark, _ = name.partition(SEPARATOR)
    if mark and (reason := why or parts.left_out.get(namespace)) is not None:
        return f"{namespace} could not be started: {(parts.redact(reason) if parts.redact else reason)[:500]}"
    near = [each for each in parts.catalogue.suggest(name[:200]) if each not in invocation.scope.hidden()]
    return f"Did you mean {' or '.join(near)}?" if near else "Copy the exact name, with its namespace, from the list."
