"""Breaker: nobody waits in line for a provider that is known to be down."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

from surehand.core.outcome import Failed, Outcome
from surehand.runtime.pipeline.invocation import Invocation
from surehand.runtime.pipeline.pipeline import Proceed, StackPlan

if TYPE_CHECKING:
    from surehand.runtime.limits.shared_breaker import SharedBreaker


def breaker(plan: StackPlan, proceed: Proceed) -> Proceed:
    """Count failures per provider; after a pause, one call is let through to try."""
    provider = plan.listing.provider
    if provider is None or provider.tracks_own_health:
        return proceed
    state = plan.services.breaker_for(provider)
    name = provider.namespace or plan.listing.name

    async def stage(invocation: Invocation) -> Outcome:
        if (wait := state.admit()) is not None:
            return _provider_down_failure(name, wait)
        ended = False
        try:
            outcome = await proceed(invocation)
            ended = invocation.may_have_run or outcome.ok  # else it never got as far as the provider
        finally:
            if not ended:
                state.release_probe()
        if ended:
            state.record_outcome(outcome)
        return outcome

    if (shared := plan.services.shared_breakers.get(provider.namespace)) is None:
        return stage
    plan.may_suspend = True
    return _claim_probe_first(shared, name, stage)


def _claim_probe_first(shared_breaker: SharedBreaker, name: str, proceed: Proceed) -> Proceed:
    """Of all processes on the store one call at a time tries; while the provider is well, nobody is asked."""

    async def asked(invocation: Invocation) -> Outcome:
        invocation.make_interruptible()
        if (wait := await shared_breaker.claim_probe()) is not None:
            return _provider_down_failure(name, wait)
        return await proceed(invocation)

    def stage(invocation: Invocation) -> Coroutine[Any, Any, Outcome]:
        return asked(invocation) if shared_breaker.is_probe_due() else proceed(invocation)

    return stage


def _provider_down_failure(name: str, retry_seconds: float) -> Failed:
    return Failed(
        "unavailable", f"{name} is down. It is tried again in {retry_seconds:.0f} s.", retry_after=retry_seconds
    )
