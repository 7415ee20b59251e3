"""Cache: an answer that is still fresh is given again, and equal calls at the same time run once."""

from __future__ import annotations

import asyncio

from surehand.core.canonical_json import json_digest
from surehand.core.facets import Cache
from surehand.core.outcome import Done, Outcome
from surehand.runtime.pipeline.invocation import Invocation
from surehand.runtime.pipeline.pipeline import Proceed, StackPlan


def cache(plan: StackPlan, proceed: Proceed) -> Proceed:
    """Only Done is shared; when the one who runs fails or is cancelled, the next in line runs."""
    rule = _cache_settings(plan)
    if rule is None:
        return proceed
    plan.may_suspend, plan.can_fold_into_invoke = True, False
    results, tool, name = plan.services.result_cache, plan.listing.tool, plan.listing.name

    async def stage(invocation: Invocation) -> Outcome:
        if invocation.answer_value is not None:
            return await proceed(invocation)
        who = None if rule.shared else invocation.principal.user
        key = json_digest(
            {"v": 1, "name": name, "tool": tool.definition_digest, "parameters": invocation.arguments, "user": who}
        )
        while True:
            if (found := results.get_fresh(key)) is not None:
                invocation.is_cached = True
                return found
            if (flight := results.in_flight.get(key)) is None:
                return await _fly(invocation, key)
            invocation.make_interruptible()
            await asyncio.shield(flight)

    async def _fly(invocation: Invocation, key: str) -> Outcome:
        flight = results.in_flight[key] = asyncio.get_running_loop().create_future()
        try:
            outcome = await proceed(invocation)
            if isinstance(outcome, Done):
                results.put(key, outcome, rule.ttl)
            return outcome
        finally:
            del results.in_flight[key]
            flight.set_result(None)

    return stage


def _cache_settings(plan: StackPlan) -> Cache | None:
    tool, provider = plan.listing.tool, plan.listing.provider
    if (own := tool.limits.cache) is not None:
        return own if own.ttl > 0 else None
    reads = bool(tool.effects) and tool.effects <= {"read", "network"}
    return Cache(provider.cache) if provider and provider.cache and reads else None
