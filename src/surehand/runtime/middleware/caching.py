"""Caching: caches the results of selected tools, whatever their own cache settings are."""

from __future__ import annotations

from fnmatch import fnmatchcase
from time import monotonic

from surehand.core.canonical_json import json_digest
from surehand.core.durations import parse_duration
from surehand.core.outcome import Done, Outcome
from surehand.runtime.pipeline.invocation import Invocation
from surehand.runtime.pipeline.pipeline import Proceed
from surehand.runtime.pipeline.stages.middleware import Middleware

MAX_CACHED_OUTCOMES = 10_000


def caching(ttl: float | str, *, tools: str = "*") -> Middleware:
    """Cache the results of tools whose name matches the glob for `ttl`; never of tools that do more than read.

    A tool that declares no effects must be named: caching a `send_email` would lose the second mail.
    """
    lasts = parse_duration(ttl) or 0.0
    kept: dict[str, tuple[float, Done]] = {}

    async def caching(invocation: Invocation, proceed: Proceed) -> Outcome:
        tool = invocation.listing.tool
        chosen = fnmatchcase(invocation.listing.name, tools) and (tool.effects or tools != "*")
        if tool.effects - {"read"} or not chosen:
            return await proceed(invocation)
        key = json_digest(
            invocation.listing.name, tool.definition_digest, invocation.arguments, invocation.principal.user
        )
        until, found = kept.get(key, (0.0, None))
        if found is not None and until > monotonic():
            invocation.is_cached = True
            return found.with_copied_data()
        outcome = await proceed(invocation)
        if isinstance(outcome, Done):
            kept.pop(key, None)
            kept[key] = (monotonic() + lasts, outcome.with_copied_data())
            while len(kept) > MAX_CACHED_OUTCOMES:
                del kept[next(iter(kept))]
        return outcome

    return caching
