"""Dry run: say what a call would do, and do nothing."""

from __future__ import annotations

from collections.abc import Iterable

from surehand.core.argument_errors import short_repr
from surehand.core.outcome import Done, Outcome
from surehand.runtime.pipeline.invocation import Invocation
from surehand.runtime.pipeline.pipeline import Proceed
from surehand.runtime.pipeline.stages.middleware import Middleware


def dry_run(effects: Iterable[str] = ("write", "execute", "network")) -> Middleware:
    """Tools with any of these effects, and tools that declare none at all, are not run."""
    held = frozenset(effects)

    async def dry_run(invocation: Invocation, proceed: Proceed) -> Outcome:
        declared = invocation.listing.tool.effects
        if declared and not declared & held:
            return await proceed(invocation)
        told = ", ".join(f"{name}={short_repr(value)}" for name, value in invocation.arguments.items())
        return Done(f"Dry run: {invocation.listing.name}({told}) was not executed.", metadata={"dry_run": True})

    return dry_run
