"""Stage `cache`: return a cached result, and run equal concurrent calls only once."""

from __future__ import annotations

import asyncio

from surehand.core.canonical_json import json_digest
from surehand.core.facets import Cache
from surehand.core.outcome import Done, Outcome
from surehand.runtime.invocation.invocation import Invocation, NextStage
from surehand.runtime.invocation.scope_key import scope_key
from surehand.runtime.limits.deadlocks import CURRENT_HOLD, Hold, waiting_for
from surehand.runtime.pipeline.pipeline import StackPlan
from surehand.runtime.pipeline.result_cache import ResultCache, SharedFlight


def cache(plan: StackPlan, proceed: NextStage, *, results: ResultCache) -> NextStage:
    """Only Done is cached and shared; if the running call fails or is cancelled, the next waiting one runs."""
    settings = _cache_settings(plan)
    if settings is None:
        return proceed
    plan.may_suspend = True
    plan.can_fold_into_invoke = False
    tool = plan.listing.tool
    name = plan.listing.name

    async def stage(invocation: Invocation) -> Outcome:
        if invocation.resumption.answer is not None:
            return await proceed(invocation)
        whose = None if settings.shared else [invocation.principal.user, invocation.principal.session]
        key = json_digest(name, tool.definition_digest, invocation.arguments, whose, scope_key(invocation))
        while True:
            cached = results.get_fresh(key)
            if cached is not None:
                invocation.note_outcome_source("cache")
                return cached
            flight = results.in_flight.get(key)
            if flight is None:
                return await run_and_cache(invocation, key)
            invocation.make_interruptible()
            with waiting_for(flight) as waits_in_vain:
                if waits_in_vain:  # the running call waits for this one
                    return await proceed(invocation)
                await asyncio.shield(flight.finished)

    async def run_and_cache(invocation: Invocation, key: str) -> Outcome:
        """Run the call while equal calls wait for it, and cache a Done."""
        flight = SharedFlight(Hold(CURRENT_HOLD.get()))
        results.in_flight[key] = flight
        token = CURRENT_HOLD.set(flight.hold)
        try:
            outcome = await proceed(invocation)
            if isinstance(outcome, Done):
                results.put(key, outcome, settings.ttl)
            return outcome
        finally:
            CURRENT_HOLD.reset(token)
            flight.hold.is_released = True
            del results.in_flight[key]
            flight.finished.set_result(None)

    return stage


def _cache_settings(plan: StackPlan) -> Cache | None:
    """The tool's own cache settings, or those of its provider if the tool only reads."""
    tool = plan.listing.tool
    provider = plan.listing.provider
    own = tool.limits.cache
    if own is not None:
        return own if own.ttl > 0 else None
    only_reads = "read" in tool.effects and tool.effects <= {"read", "network"}
    return Cache(provider.cache) if provider and provider.cache and only_reads else None
