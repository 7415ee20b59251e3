"""Breaker: nobody waits in line for a provider that is known to be down."""

from __future__ import annotations

from toolwright.core.outcome import Failed, Outcome
from toolwright.runtime.invocation import Invocation
from toolwright.runtime.pipeline import Plan, Proceed


def breaker(plan: Plan, proceed: Proceed) -> Proceed:
    """Count failures per provider; after a pause, one call is let through to try."""
    provider = plan.listing.provider
    if provider is None:
        return proceed
    state = plan.parts.breaker_of(provider)
    name = provider.namespace or plan.listing.name

    async def stage(invocation: Invocation) -> Outcome:
        if (wait := state.blocked()) is not None:
            return Failed("unavailable", f"{name} is down. It is tried again in {wait:.0f} s.", retry_after=wait)
        ended = False
        try:
            outcome = await proceed(invocation)
            ended = invocation.began or outcome.ok  # else it never got as far as the provider
        finally:
            if not ended:
                state.probe_lost()
        if ended:
            state.count(outcome)
        return outcome

    return stage
