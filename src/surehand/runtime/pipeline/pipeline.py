"""The types of the pipeline, and how the stack of one listing is built from its stages.

A stage is a function that wraps the rest of the pipeline, or returns it unchanged where it does not apply.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from surehand.catalogue.listing import Listing
from surehand.core.invoke import OutcomeFilter
from surehand.core.outcome import Outcome
from surehand.runtime.invocation.invocation import Invocation, NextStage
from surehand.runtime.policy import Rule


@dataclass(slots=True)
class StackPlan:
    """What a stack is built for, passed to each stage from the innermost to the outermost.

    A stage that does not apply returns `proceed` unchanged, and costs nothing at call time.
    """

    listing: Listing
    rules: tuple[Rule, ...]
    """The policy rules that can apply to the tool, in their order."""
    is_recallable: bool
    """Whether the stack serves calls with a given id, and calls that were pending."""
    has_budget: bool
    """Whether the stack serves calls of a turn with a budget."""
    has_space: bool
    """Whether the stack serves calls in a space."""
    has_session: bool
    """Whether the stack serves calls in a session, whose last results are kept."""
    can_fold_into_invoke: bool = True
    """Whether no stage between `invoke` and the one being built changes or shares outcomes."""
    outcome_filters: list[OutcomeFilter] = field(default_factory=list)
    """What stages that only look at outcomes do; `invoke` applies it, so that they need no coroutine of their own."""
    may_suspend: bool = False
    """Whether any stage built so far, which means any inner stage, may await."""


Stage: TypeAlias = Callable[[StackPlan, NextStage], NextStage]


@dataclass(frozen=True, slots=True)
class CallStages:
    """The stages of a runtime, with the services that they use."""

    all: tuple[Stage, ...]
    """Outermost first."""
    outer: tuple[Stage, ...]
    """Those that report calls, for tools that a scope may not call."""


def build_stack(plan: StackPlan, stages: tuple[Stage, ...]) -> NextStage:
    """Build the stack of one listing from the stages, which are given outermost first."""
    proceed: NextStage = _no_next_stage
    for stage in reversed(stages):
        proceed = stage(plan, proceed)
    return proceed


def add_outcome_filter(plan: StackPlan, proceed: NextStage, outcome_filter: OutcomeFilter) -> NextStage:
    """Add a stage that only looks at outcomes: inside `invoke` where that is possible, else as a layer of its own."""
    if plan.can_fold_into_invoke:
        plan.outcome_filters.append(outcome_filter)
        return proceed

    async def stage(invocation: Invocation) -> Outcome:
        return await outcome_filter(invocation, await proceed(invocation))

    return stage


async def _no_next_stage(invocation: Any) -> Outcome:
    raise AssertionError("invoke is the last stage and never proceeds")
