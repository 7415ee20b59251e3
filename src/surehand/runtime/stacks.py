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
from surehand.runtime.invocation import Invocation
from surehand.runtime.pipeline import Plan, Proceed, fold

if TYPE_CHECKING:
    from surehand.runtime.parts import Parts
    from surehand.runtime.scope import Scope

log = logging.getLogger("surehand")


class Stacks(dict[str, Proceed]):
    """Stacks by every name that was called; a name that is not there resolves to the answer that says so."""

    def __init__(self, parts: Parts, own: Catalogue | None, *, recallable: bool, budgeted: bool, shown: bool) -> None:
        super().__init__()
        self._parts, self._own = parts, own
        self._recallable, self._budgeted, self._shown = recallable, budgeted, shown

    def __missing__(self, name: str) -> Proceed:
        if not self._parts.open:
            return _closed
        if isinstance(name, Tool):  # a tool stands for its name
            return self[name.name]
        listing = self._resolve(name) if isinstance(name, str) else None  # type: ignore[redundant-expr]  # models send anything
        if listing is None:
            return self.unknown
        if listing.name != name and listing.name in self:
            stack = self[listing.name]
        else:
            try:
                stack = self.of(listing)
            except Exception as error:
                log.exception("%s cannot be called", listing.name)
                return _refusing(f"{listing.name} cannot be called: {error}")
        self[listing.name] = stack
        if self._find(name) is listing:  # misspellings are without number, and are not kept
            self[name] = stack
        return stack

    def _find(self, name: str) -> Listing | None:
        """A scope's own tools come first."""
        return (self._own.find(name) if self._own is not None else None) or self._parts.catalogue.find(name)

    def _resolve(self, name: str) -> Listing | None:
        own = self._own.resolve(name) if self._own is not None else None
        return self._find(name) or own or self._parts.catalogue.resolve(name)

    def of(self, listing: Listing) -> Proceed:
        """A stack of its own for a listing."""
        from surehand.runtime.stages import STAGES

        if not self._parts.open:
            return _closed
        return fold(Plan(listing, self._parts, self._recallable, self._budgeted, self._shown), STAGES)

    async def unknown(self, invocation: Invocation) -> Outcome:
        """The answer to a name that is not there, not even for the user who calls."""
        from surehand.runtime.unknown import unknown

        parts, name = self._parts, invocation.name
        if parts.left_out and isinstance(name, str):
            try:
                await parts.roster.look_for(name, invocation.principal)
            except Unavailable as error:
                return unknown(parts, invocation, str(error))
            if self._resolve(name) is not None:
                return await self[name](invocation)
        return unknown(parts, invocation)


class StackTable:
    """The stacks for calls that are recallable or not, in turns with a budget or without, in a space or in none."""

    def __init__(self, parts: Parts, own: Catalogue | None = None) -> None:
        self._stacks = {
            (r, b, s): Stacks(parts, own, recallable=r, budgeted=b, shown=s)
            for r, b, s in product((False, True), repeat=3)
        }

    def get(self, scope: Scope, *, recallable: bool) -> Stacks:
        """The stacks for one sort of call."""
        return self._stacks[recallable, scope.budget is not None, scope.principal.space is not None]

    def clear(self) -> None:
        """Build them anew when next needed."""
        for stacks in self._stacks.values():
            stacks.clear()


async def _closed(invocation: Invocation) -> Outcome:
    return Failed("unavailable", "The runtime is not running. Use `async with Runtime(...) as runtime:`.")


def _refusing(problem: str) -> Proceed:
    async def refuse(invocation: Invocation) -> Outcome:
        return Failed("unavailable", problem)

    return refuse
