"""Dry run: reports what a call would do, without running it."""

from __future__ import annotations

from collections.abc import Iterable

from surehand.core.argument_errors import short_repr
from surehand.core.outcome import Done, Outcome
from surehand.runtime.invocation.invocation import Invocation, NextStage
from surehand.runtime.pipeline.installed_middleware import Middleware


def dry_run(effects: Iterable[str] = ("write", "execute", "network")) -> Middleware:
    """Do not run tools with any of these effects, nor tools that declare no effects."""
    blocked = frozenset(effects)

    async def dry_run(invocation: Invocation, proceed: NextStage) -> Outcome:
        declared = invocation.listing.tool.effects
        if declared and not declared & blocked:
            return await proceed(invocation)
        arguments = ", ".join(f"{name}={short_repr(value)}" for name, value in invocation.arguments.items())
        return Done(f"Dry run: {invocation.listing.name}({arguments}) was not executed.", metadata={"dry_run": True})

    return dry_run
