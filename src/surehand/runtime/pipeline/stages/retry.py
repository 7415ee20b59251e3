"""Stage `retry`: repeat a repeatable call after a temporary failure. The back-off holds no slot."""

from __future__ import annotations

import random

from surehand.core.clock import Clock
from surehand.core.fast_copy import copy_if_possible
from surehand.core.outcome import Failed, Outcome, may_have_executed
from surehand.runtime.invocation.invocation import Invocation, NextStage
from surehand.runtime.pipeline.pipeline import StackPlan

RETRYABLE_CODES = frozenset({"unavailable", "rate_limited", "timed_out"})
"""Failure codes of temporary failures."""
MAX_BACKOFF_SECONDS = 30.0
MAX_RETRY_AFTER_SECONDS = 300.0
"""A call whose provider asks for a longer pause is not retried."""


def retry(plan: StackPlan, proceed: NextStage, *, clock: Clock, first_delay: float) -> NextStage:
    """Retry with doubling delays and jitter, so that many callers do not retry at the same moment."""
    tool = plan.listing.tool
    if not tool.limits.retries or not tool.repeatable:
        return proceed
    plan.may_suspend = True

    async def stage(invocation: Invocation) -> Outcome:
        arguments = invocation.arguments
        while True:
            invocation.arguments = copy_if_possible(arguments)  # a handler may change its own
            outcome = await proceed(invocation)
            if may_have_executed(outcome):
                invocation.start_handler()
            delay = _delay_seconds(outcome, first_delay * 2 ** (invocation.attempt - 1))
            is_last_attempt = invocation.attempt > tool.limits.retries
            may_retry = _is_retryable(outcome) and invocation.execution.ended_by != "full queue"
            if not may_retry or is_last_attempt or not delay <= MAX_RETRY_AFTER_SECONDS:
                return outcome
            invocation.make_interruptible()
            await clock.sleep(delay)
            invocation.start_next_attempt()

    return stage


def _is_retryable(outcome: Outcome) -> bool:
    return isinstance(outcome, Failed) and outcome.code in RETRYABLE_CODES


def _delay_seconds(outcome: Outcome, backoff_seconds: float) -> float:
    if isinstance(outcome, Failed) and outcome.retry_after is not None:
        return outcome.retry_after
    return min(backoff_seconds, MAX_BACKOFF_SECONDS) * random.uniform(0.75, 1.25)
