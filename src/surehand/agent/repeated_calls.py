"""Calls that repeat one of an earlier step which still waits: they follow it instead of being made again.

Whether a call follows is decided by the remembered steps alone. So it stays decided after a crash, and if the first
call ends meanwhile.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from surehand.agent.steps import Step, StepCall, waiting_calls
from surehand.core.canonical_json import json_digest
from surehand.core.errors import InvalidArguments
from surehand.core.outcome import Outcome, Pending

if TYPE_CHECKING:
    from surehand.runtime.scope import Scope


def find_repeated(scope: Scope, steps: Sequence[Step], step: Step) -> dict[int, StepCall]:
    """The earlier call that each call of a step repeats, by the position of the call.

    Of several equal calls that wait, each repetition follows another one: two calls of one answer are two calls.
    """
    waiting = [call for call in waiting_calls(steps[: step.index]) if call.follows is None]
    if not waiting:
        return {}
    unused = {id(call): _call_key(scope, call) for call in waiting}
    found: dict[int, StepCall] = {}
    for position, call in enumerate(step.calls):
        key = _call_key(scope, call)
        first = next((each for each in waiting if key is not None and unused.get(id(each)) == key), None)
        if first is not None:
            del unused[id(first)]
            found[position] = first
    return found


def _call_key(scope: Scope, call: StepCall) -> str | None:
    """What equal calls have in common: the tool and the validated arguments; None for a call that cannot be made."""
    listing = scope.find(call.name) or scope.catalogue.resolve(call.name)
    if listing is None:
        return None
    try:
        arguments = listing.tool.validate_arguments(call.arguments)
    except InvalidArguments:
        return None
    return json_digest(listing.name, arguments)


def outcome_of_repeated_call(call: StepCall, first: StepCall, outcome: Outcome) -> Outcome:
    """The outcome of a repeated call: that of the first one, or the same wait."""
    if not isinstance(outcome, Pending):
        return outcome
    message = (
        f"The same call of {call.name}, {first.call_id}, already waits for {outcome.waiting_for}. "
        "This call follows it, runs nothing, and ends with the same outcome."
    )
    return Pending(outcome.waiting_for, call.call_id or "", message, {"follows": first.call_id}, outcome.expires_at)
