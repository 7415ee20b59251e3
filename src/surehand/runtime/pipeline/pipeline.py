"""Pipeline: the stages in order, and how one listing's own stack is folded from those that apply to it."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from surehand.catalogue.listing import Listing
from surehand.core.invoke import OutcomeFilter
from surehand.core.outcome import Outcome
from surehand.runtime.pipeline.invocation import Invocation

if TYPE_CHECKING:
    from surehand.runtime.services import RuntimeServices

Proceed: TypeAlias = Callable[[Invocation], Coroutine[Any, Any, Outcome]]
"""The rest of the pipeline, from one stage's point of view."""


@dataclass(slots=True)
class StackPlan:
    """What a stack is built for. A stage that does not apply returns `proceed` as it is, and costs nothing."""

    listing: Listing
    services: RuntimeServices
    is_recallable: bool
    """For calls whose id was given, or that waited for somebody."""
    has_budget: bool
    """For calls of a turn that has a budget."""
    has_space: bool
    """For calls in a space."""
    can_fold_into_invoke: bool = True
    """Whether nothing between `invoke` and the stage that is being built changes or shares outcomes."""
    outcome_filters: list[OutcomeFilter] = field(default_factory=list)
    """What stages that act only on the way out do; while `bare`, `invoke` does it, and no layer is added."""
    may_suspend: bool = False
    """Whether any stage so far may wait. Stages are built from the innermost outwards, so the outer ones know."""


Stage: TypeAlias = Callable[[StackPlan, Proceed], Proceed]


def build_stack(plan: StackPlan, stages: tuple[Stage, ...]) -> Proceed:
    """The stack of one listing, built once, outermost stage first."""
    proceed: Proceed = _no_next_stage
    for stage in reversed(stages):
        proceed = stage(plan, proceed)
    return proceed


def add_outcome_filter(plan: StackPlan, proceed: Proceed, outcome_filter: OutcomeFilter) -> Proceed:
    """A stage that acts only on outcomes: part of `invoke` where nothing forbids it, else a layer of its own."""
    if plan.can_fold_into_invoke:
        plan.outcome_filters.append(outcome_filter)
        return proceed

    async def stage(invocation: Invocation) -> Outcome:
        return await outcome_filter(invocation, await proceed(invocation))

    return stage


async def _no_next_stage(invocation: Any) -> Outcome:
    raise AssertionError("invoke is the last stage and never proceeds")
