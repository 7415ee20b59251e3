"""Stage `breaker`: fail at once if the provider is known to be down, instead of waiting for it."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

from surehand.core.outcome import Failed, Outcome
from surehand.runtime.invocation.invocation import Invocation, NextStage
from surehand.runtime.limits.breaker_table import ProviderBreakers
from surehand.runtime.pipeline.pipeline import StackPlan

if TYPE_CHECKING:
    from surehand.runtime.limits.shared_breaker import SharedBreaker


def breaker(plan: StackPlan, proceed: NextStage, *, breakers: ProviderBreakers) -> NextStage:
    """Count failures per provider; after a pause, let one call through as a probe."""
    provider = plan.listing.provider
    if provider is None or plan.listing.abilities.traits.tracks_own_health:
        return proceed
    state = breakers.breaker_for(provider)
    name = provider.namespace or plan.listing.name

    async def stage(invocation: Invocation) -> Outcome:
        retry_seconds = state.admit()
        if retry_seconds is not None:
            return _provider_down_failure(name, retry_seconds)
        has_reached_provider = False
        try:
            outcome = await proceed(invocation)
            has_reached_provider = invocation.may_have_executed or outcome.ok
        finally:
            if not has_reached_provider:
                state.release_probe()
        if has_reached_provider:
            state.record_outcome(outcome)
        return outcome

    shared = breakers.shared.get(provider.namespace)
    if shared is None:
        return stage
    plan.may_suspend = True
    return _claim_probe_first(shared, name, stage)


def _claim_probe_first(shared_breaker: SharedBreaker, name: str, proceed: NextStage) -> NextStage:
    """Claim the probe in the store when one is due; while the provider is up, the store is not asked."""

    async def claim_and_proceed(invocation: Invocation) -> Outcome:
        invocation.make_interruptible()
        retry_seconds = await shared_breaker.claim_probe()
        if retry_seconds is not None:
            return _provider_down_failure(name, retry_seconds)
        return await proceed(invocation)

    def stage(invocation: Invocation) -> Coroutine[Any, Any, Outcome]:
        return claim_and_proceed(invocation) if shared_breaker.is_probe_due() else proceed(invocation)

    return stage


def _provider_down_failure(name: str, retry_seconds: float) -> Failed:
    return Failed(
        "unavailable", f"{name} is down. It is tried again in {retry_seconds:.0f} s.", retry_after=retry_seconds
    )
