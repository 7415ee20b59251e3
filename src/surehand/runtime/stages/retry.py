"""Retry: a repeatable call that failed for a passing reason is tried again, after a back-off that holds no slot."""

from __future__ import annotations

import random

from surehand.core.outcome import Failed, Outcome, happened
from surehand.runtime.invocation import Invocation
from surehand.runtime.pipeline import Plan, Proceed

PASSING = frozenset({"unavailable", "rate_limited", "timed_out"})
LONGEST = 30.0
LONGEST_ASKED = 300.0


def retry(plan: Plan, proceed: Proceed) -> Proceed:
    """Doubling delays with some chance in them, so that many callers do not return as one."""
    tool, parts = plan.listing.tool, plan.parts
    if not tool.limits.retries or not tool.repeatable:
        return proceed
    plan.suspends = True
    first = parts.defaults.retry_delay

    async def stage(invocation: Invocation) -> Outcome:
        while True:
            outcome = await proceed(invocation)
            invocation.began = invocation.began or happened(outcome)
            delay = _delay(outcome, first * 2 ** (invocation.attempt - 1))
            # Who asks for longer than that is not waited for: the caller is told, and may come back.
            if not _worth_it(outcome) or invocation.attempt > tool.limits.retries or not delay <= LONGEST_ASKED:
                return outcome
            invocation.suspend()
            await parts.clock.sleep(delay)
            invocation.attempt += 1
            invocation.cancelled = False

    return stage


def _worth_it(outcome: Outcome) -> bool:
    return isinstance(outcome, Failed) and outcome.code in PASSING


def _delay(outcome: Outcome, delay: float) -> float:
    if isinstance(outcome, Failed) and outcome.retry_after is not None:
        return outcome.retry_after
    return min(delay, LONGEST) * random.uniform(0.75, 1.25)
