"""Pipeline: the stages in order, and how one listing's own stack is folded from those that apply to it."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from surehand.catalogue.listing import Listing
from surehand.core.invoke import WayOut
from surehand.core.outcome import Outcome
from surehand.runtime.invocation import Invocation

if TYPE_CHECKING:
    from surehand.runtime.parts import Parts

Proceed: TypeAlias = Callable[[Invocation], Coroutine[Any, Any, Outcome]]
"""The rest of the pipeline, from one stage's point of view."""


@dataclass(slots=True)
class Plan:
    """What a stack is built for. A stage that does not apply returns `proceed` as it is, and costs nothing."""

    listing: Listing
    parts: Parts
    recallable: bool
    """For calls whose id was given, or that waited for somebody."""
    budgeted: bool
    """For calls of a turn that has a budget."""
    shown: bool
    """For calls in a space."""
    bare: bool = True
    """Whether nothing between `invoke` and the stage that is being built changes or shares outcomes."""
    ways_out: list[WayOut] = field(default_factory=list)
    """What stages that act only on the way out do; while `bare`, `invoke` does it, and no layer is added."""
    suspends: bool = False
    """Whether any stage so far may wait. Stages are built from the innermost outwards, so the outer ones know."""


Stage: TypeAlias = Callable[[Plan, Proceed], Proceed]


def fold(plan: Plan, stages: tuple[Stage, ...]) -> Proceed:
    """The stack of one listing, built once, outermost stage first."""
    proceed: Proceed = _nowhere
    for stage in reversed(stages):
        proceed = stage(plan, proceed)
    return proceed


def on_the_way_out(plan: Plan, proceed: Proceed, way_out: WayOut) -> Proceed:
    """A stage that acts only on outcomes: part of `invoke` where nothing forbids it, else a layer of its own."""
    if plan.bare:
        plan.ways_out.append(way_out)
        return proceed

    async def stage(invocation: Invocation) -> Outcome:
        return await way_out(invocation, await proceed(invocation))

    return stage


async def _nowhere(invocation: Any) -> Outcome:
    raise AssertionError("invoke is the last stage and never proceeds")
