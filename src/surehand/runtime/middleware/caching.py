"""Caching: caches the results of selected tools, whatever their own cache settings are."""

from __future__ import annotations

from fnmatch import fnmatchcase
from time import monotonic

from surehand.core.canonical_json import json_digest
from surehand.core.durations import parse_duration
from surehand.core.outcome import Done, Outcome
from surehand.runtime.invocation.invocation import Invocation, NextStage
from surehand.runtime.invocation.scope_key import scope_key
from surehand.runtime.pipeline.installed_middleware import Middleware

MAX_CACHED_OUTCOMES = 10_000


def caching(ttl: float | str, *, tools: str = "*") -> Middleware:
    """Cache the results of tools whose name matches the glob for `ttl`; never of tools that do more than read.

    A tool that declares no effects must be named: caching a `send_email` would lose the second mail.
    """
    ttl_seconds = parse_duration(ttl) or 0.0
    cached_outcomes: dict[str, tuple[float, Done]] = {}

    async def caching(invocation: Invocation, proceed: NextStage) -> Outcome:
        tool = invocation.listing.tool
        is_selected = fnmatchcase(invocation.listing.name, tools) and (tool.effects or tools != "*")
        if tool.effects - {"read"} or not is_selected:
            return await proceed(invocation)
        whose = [invocation.principal.user, invocation.principal.session, scope_key(invocation)]
        key = json_digest(invocation.listing.name, tool.definition_digest, invocation.arguments, whose)
        expires_at, cached = cached_outcomes.get(key, (0.0, None))
        if cached is not None and expires_at > monotonic():
            invocation.note_outcome_source("cache")
            return cached.with_copied_data()
        outcome = await proceed(invocation)
        if isinstance(outcome, Done):
            cached_outcomes.pop(key, None)
            cached_outcomes[key] = (monotonic() + ttl_seconds, outcome.with_copied_data())
            while len(cached_outcomes) > MAX_CACHED_OUTCOMES:
                del cached_outcomes[next(iter(cached_outcomes))]
        return outcome

    return caching
