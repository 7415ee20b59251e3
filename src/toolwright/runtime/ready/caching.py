"""Caching: keep the results of chosen tools, whatever they say of themselves."""

from __future__ import annotations

from fnmatch import fnmatchcase
from time import monotonic

from toolwright.core.canonical import digest
from toolwright.core.durations import seconds
from toolwright.core.outcome import Done, Outcome
from toolwright.runtime.invocation import Invocation
from toolwright.runtime.pipeline import Proceed
from toolwright.runtime.stages.middleware import Middleware

KEPT = 10_000


def caching(ttl: float | str, *, tools: str = "*") -> Middleware:
    """Results of tools whose name matches the glob are given again for `ttl`; never of tools that do more than read."""
    lasts = seconds(ttl) or 0.0
    kept: dict[str, tuple[float, Done]] = {}

    async def caching(invocation: Invocation, proceed: Proceed) -> Outcome:
        tool = invocation.listing.tool
        if tool.effects - {"read"} or not fnmatchcase(invocation.listing.name, tools):
            return await proceed(invocation)
        key = digest(invocation.listing.name, tool.definition, invocation.arguments, invocation.principal.user)
        until, found = kept.get(key, (0.0, None))
        if found is not None and until > monotonic():
            invocation.cached = True
            return found.evolve()
        outcome = await proceed(invocation)
        if isinstance(outcome, Done):
            kept.pop(key, None)
            kept[key] = (monotonic() + lasts, outcome)
            while len(kept) > KEPT:
                del kept[next(iter(kept))]
        return outcome

    return caching
