"""Ledger: the outcome of a call is written once, and never changes."""

from __future__ import annotations

import asyncio

from surehand.core.invoke import crashed
from surehand.core.outcome import Failed, Outcome, Pending, happened
from surehand.runtime.invocation import Invocation
from surehand.runtime.pipeline import Plan, Proceed
from surehand.runtime.stages.intent import OVER, claims
from surehand.store.errors import StoreUnavailable


def ledger(plan: Plan, proceed: Proceed) -> Proceed:
    """Never a Pending; and what did not happen may be tried again under the same id."""
    if not plan.recallable and not claims(plan):
        return proceed
    plan.bare = False
    kept, name = plan.parts.ledger, plan.listing.name

    async def stage(invocation: Invocation) -> Outcome:
        try:
            outcome = await proceed(invocation)
        except asyncio.CancelledError:
            if invocation.began and invocation.answer is None:
                await end(invocation, _stopped(invocation))
            elif invocation.given and not invocation.round:
                await kept.release(invocation)
            raise
        except Exception as bug:
            if not invocation.began:
                raise
            outcome = crashed(name, bug, redact=plan.parts.redact, details=plan.parts.crash_details)
        if isinstance(outcome, Pending):
            return outcome
        if invocation.ran is not None:
            invocation.ran = OVER  # an outcome knows its call: a call that knew its outcome would be litter to collect
        if happened(outcome) or not (invocation.given or invocation.round) or invocation.answered is not None:
            return await end(invocation, outcome)
        if not invocation.round:
            await kept.release(invocation)
        return outcome

    async def end(invocation: Invocation, outcome: Outcome) -> Outcome:
        if isinstance(outcome, Pending) or (invocation.fence is None and not _known(invocation)):
            return outcome  # nobody claimed it, so nothing of it is kept
        try:
            return await kept.end(invocation, outcome)
        except StoreUnavailable as error:
            return _unwritten(name, error, invocation)

    return stage


def _stopped(invocation: Invocation) -> Failed:
    """What its caller is told, where it is told anything."""
    code, message = invocation.interrupted or ("cancelled", f"{invocation.tool_name} was cancelled while it ran.")
    return Failed(code, message, executed=True)


def _known(invocation: Invocation) -> bool:
    return invocation.given or invocation.resumed or bool(invocation.round)


def _unwritten(name: str, error: Exception, invocation: Invocation) -> Failed:
    """What cannot be acknowledged: it ran, and nobody would know after a restart."""
    if invocation.answered is not None:
        return Failed("unavailable", f"the answer could not be written down, and the call still waits: {error}")
    if invocation.fence is None:  # repeatable, so nobody had to claim it
        problem = f"{name} ran, but its outcome could not be written down: {error} It may be called again."
        return Failed("unavailable", problem, executed=True)
    return Failed(
        "unknown_effect",
        f"{name} ran, but its outcome could not be written down: {error} Do not repeat it; a person has to find out.",
        executed=True,
    )
