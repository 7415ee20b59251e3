"""Timing: reports the duration of each call to a function."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter

from surehand.core.outcome import Outcome
from surehand.runtime.invocation.invocation import Invocation, NextStage
from surehand.runtime.pipeline.installed_middleware import Middleware


def timing(report: Callable[[str, float], object]) -> Middleware:
    """Call `report(tool, seconds)` after every call, whatever its outcome."""

    async def timing(invocation: Invocation, proceed: NextStage) -> Outcome:
        started_at = perf_counter()
        try:
            return await proceed(invocation)
        finally:
            report(invocation.listing.name, perf_counter() - started_at)

    return timing
