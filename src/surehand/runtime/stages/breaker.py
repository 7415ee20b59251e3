"""Breaker: nobody waits in line for a provider that is known to be down."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

from surehand.core.outcome import Failed, Outcome
from surehand.runtime.invocation import Invocation
from surehand.runtime.pipeline import Plan, Proceed

if TYPE_CHECKING:
    from surehand.runtime.shared_breaker import SharedBreaker


def breaker(plan: Plan, proceed: Proceed) -> Proceed:
    """Count failures per provider; after a pause, one call is let through to try."""
    provider = plan.listing.provider
    if provider is None or provider.keeps_health:
        return proceed
    state = plan.parts.breaker_of(provider)
    name = provider.namespace or plan.listing.name

    async def stage(invocation: Invocation) -> Outcome:
        if (wait := state.blocked()) is not None:
            return _down(name, wait)
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

    if (shared := plan.parts.shared_breakers.get(provider.namespace)) is None:
        return stage
    plan.suspends = True
    return _asking(shared, name, stage)


def _asking(state: SharedBreaker, name: str, proceed: Proceed) -> Proceed:
    """Of all processes on the store one call at a time tries; while the provider is well, nobody is asked."""

    async def asked(invocation: Invocation) -> Outcome:
        invocation.suspend()
        if (wait := await state.probe()) is not None:
            return _down(name, wait)
        return await proceed(invocation)

    def stage(invocation: Invocation) -> Coroutine[Any, Any, Outcome]:
        return asked(invocation) if state.due() else proceed(invocation)

    return stage


def _down(name: str, wait: float) -> Failed:
    return Failed("unavailable", f"{name} is down. It is tried again in {wait:.0f} s.", retry_after=wait)
