"""Stacks: one per listing, folded from the stages that apply to it when it is first called."""

from __future__ import annotations

import logging
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
    """Stacks by every name that was called; a name that is not there resolves to the answer that says so."""

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
        self._services, self._own_catalogue = services, own_catalogue
        self._is_recallable, self._has_budget, self._has_space = is_recallable, has_budget, has_space

    def __missing__(self, name: str) -> Proceed:
        if not self._services.is_open:
            return _refuse_closed_runtime
        if isinstance(name, Tool):  # a tool stands for its name
            return self[name.name]
        listing = self._resolve_listing(name) if isinstance(name, str) else None  # type: ignore[redundant-expr]  # models send anything
        if listing is None:
            return self.refuse_unknown_tool
        if listing.name != name and listing.name in self:
            stack = self[listing.name]
        else:
            try:
                stack = self.build_for(listing)
            except Exception as error:
                log.exception("%s cannot be called", listing.name)
                return _build_refusal(f"{listing.name} cannot be called: {error}")
        self[listing.name] = stack
        if self._find_listing(name) is listing:  # misspellings are without number, and are not kept
            self[name] = stack
        return stack

    def _find_listing(self, name: str) -> Listing | None:
        """A scope's own tools come first."""
        return (
            self._own_catalogue.find(name) if self._own_catalogue is not None else None
        ) or self._services.catalogue.find(name)

    def _resolve_listing(self, name: str) -> Listing | None:
        own = self._own_catalogue.resolve(name) if self._own_catalogue is not None else None
        return self._find_listing(name) or own or self._services.catalogue.resolve(name)

    def build_for(self, listing: Listing) -> Proceed:
        """A stack of its own for a listing."""
        from surehand.runtime.pipeline.stages import STAGES

        if not self._services.is_open:
            return _refuse_closed_runtime
        return build_stack(
            StackPlan(listing, self._services, self._is_recallable, self._has_budget, self._has_space), STAGES
        )

    async def refuse_unknown_tool(self, invocation: Invocation) -> Outcome:
        """The answer to a name that is not there, not even for the user who calls."""
        from surehand.runtime.pipeline.unknown_tool import unknown_tool_failure

        parts, name = self._services, invocation.requested_name
        if parts.unavailable_providers and isinstance(name, str):
            try:
                await parts.provider_table.refresh_for_tool(name, invocation.principal)
            except Unavailable as error:
                return unknown_tool_failure(parts, invocation, str(error))
            if self._resolve_listing(name) is not None:
                return await self[name](invocation)
        return unknown_tool_failure(parts, invocation)


class StackTable:
    """The stacks for calls that are recallable or not, in turns with a budget or without, in a space or in none."""

    def __init__(self, services: RuntimeServices, own_catalogue: Catalogue | None = None) -> None:
        self._stacks = {
            (r, b, s): Stacks(services, own_catalogue, is_recallable=r, has_budget=b, has_space=s)
            for r, b, s in product((False, True), repeat=3)
        }

    def get(self, scope: Scope, *, is_recallable: bool) -> Stacks:
        """The stacks for one sort of call."""
        return self._stacks[is_recallable, scope.budget is not None, scope.principal.space is not None]

    def clear(self) -> None:
        """Build them anew when next needed."""
        for stacks in self._stacks.values():
            stacks.clear()


async def _refuse_closed_runtime(invocation: Invocation) -> Outcome:
    return Failed("unavailable", "The runtime is not running. Use `async with Runtime(...) as runtime:`.")


def _build_refusal(problem: str) -> Proceed:
    async def refuse(invocation: Invocation) -> Outcome:
        return Failed("unavailable", problem)

    return refuse
