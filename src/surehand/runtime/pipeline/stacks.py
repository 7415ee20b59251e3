"""Stacks: the built pipelines of a runtime's tools, each built when its tool is first called."""

from __future__ import annotations

import logging
from functools import partial
from itertools import product
from typing import TYPE_CHECKING

from surehand.catalogue.catalogue import Catalogue
from surehand.catalogue.listing import Listing
from surehand.core.errors import Unavailable
from surehand.core.outcome import Failed, Outcome
from surehand.core.tool import Tool
from surehand.runtime.pipeline.invocation import Invocation
from surehand.runtime.pipeline.pipeline import Proceed, StackPlan, build_stack

if TYPE_CHECKING:
    from surehand.runtime.scope import Scope
    from surehand.runtime.services import RuntimeServices

log = logging.getLogger("surehand")


class Stacks(dict[str, Proceed]):
    """Stacks by every name that was called; an unknown name gets the stack that refuses it."""

    def __init__(
        self,
        services: RuntimeServices,
        own_catalogue: Catalogue | None,
        *,
        is_recallable: bool,
        has_budget: bool,
        has_space: bool,
    ) -> None:
        super().__init__()
        self._services = services
        self._own_catalogue = own_catalogue
        self._is_recallable = is_recallable
        self._has_budget = has_budget
        self._has_space = has_space

    def __missing__(self, name: str) -> Proceed:
        if not self._services.is_open:
            return _refuse_closed_runtime
        if isinstance(name, Tool):  # callers may pass the tool itself
            return self[name.name]
        listing = self._resolve_listing(name) if isinstance(name, str) else None  # type: ignore[redundant-expr]  # models send values of any type
        if listing is None:
            return self.refuse_unknown_tool
        if listing.name != name and listing.name in self:
            stack = self[listing.name]
        else:
            try:
                stack = self.build_for(listing)
            except Exception as error:
                log.exception("The pipeline of %s could not be built", listing.name)
                return _build_refusal(f"{listing.name} cannot be called: {error}")
        self[listing.name] = stack
        if self._find_listing(name) is listing:  # do not cache misspelt names: there is no end of them
            self[name] = stack
        return stack

    def _find_listing(self, name: str) -> Listing | None:
        """Find an exact name; the scope's own tools come first."""
        own = self._own_catalogue.find(name) if self._own_catalogue is not None else None
        return own or self._services.catalogue.find(name)

    def _resolve_listing(self, name: str) -> Listing | None:
        own = self._own_catalogue.resolve(name) if self._own_catalogue is not None else None
        return self._find_listing(name) or own or self._services.catalogue.resolve(name)

    def build_for(self, listing: Listing) -> Proceed:
        """Build a new stack for a listing."""
        from surehand.runtime.pipeline.stages import STAGES  # loads all stages, which no import of a runtime needs

        if not self._services.is_open:
            return _refuse_closed_runtime
        if not self._services.policy.trust_annotations:
            listing = listing.without_annotations()
        plan = StackPlan(listing, self._services, self._is_recallable, self._has_budget, self._has_space)
        return build_stack(plan, STAGES)

    async def refuse_unknown_tool(self, invocation: Invocation) -> Outcome:
        """Fail an unknown name, after asking the provider of its namespace, which may have gained the tool."""
        services = self._services
        name = invocation.requested_name
        provider_problem: str | None = None
        if services.active_providers and isinstance(name, str):
            try:
                await services.provider_table.refresh_for_tool(name, invocation.principal)
            except Unavailable as error:
                provider_problem = str(error)
            else:
                if self._resolve_listing(name) is not None:
                    return await self[name](invocation)
        # Loaded by the first unknown name.
        from surehand.runtime.pipeline.stages.middleware import OuterMiddleware
        from surehand.runtime.pipeline.unknown_tool import unknown_tool_failure

        async def proceed(invocation: Invocation) -> Outcome:
            return unknown_tool_failure(services, invocation, provider_problem)

        for wrapper in reversed(services.middleware):
            if isinstance(wrapper, OuterMiddleware):
                proceed = partial(wrapper, proceed=proceed)
        return await proceed(invocation)


class StackTable:
    """Eight sets of stacks: for calls that are recallable or not, have a budget or not, and are in a space or not."""

    def __init__(self, services: RuntimeServices, own_catalogue: Catalogue | None = None) -> None:
        self._stacks = {
            (recallable, budget, space): Stacks(
                services, own_catalogue, is_recallable=recallable, has_budget=budget, has_space=space
            )
            for recallable, budget, space in product((False, True), repeat=3)
        }

    def get(self, scope: Scope, *, is_recallable: bool) -> Stacks:
        """The stacks for the calls of a scope."""
        return self._stacks[is_recallable, scope.budget is not None, scope.principal.space is not None]

    def clear(self) -> None:
        """Drop all stacks; each is built again on its next call."""
        for stacks in self._stacks.values():
            stacks.clear()


async def _refuse_closed_runtime(invocation: Invocation) -> Outcome:
    return Failed("unavailable", "The runtime is not running. Use `async with Runtime(...) as runtime:`.")


def _build_refusal(problem: str) -> Proceed:
    async def refuse(invocation: Invocation) -> Outcome:
        return Failed("unavailable", problem)

    return refuse
