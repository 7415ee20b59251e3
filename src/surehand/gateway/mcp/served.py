"""Served: a runtime as the clients of a server see it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, Self
from weakref import WeakMethod, finalize

from surehand.core.errors import DefinitionError
from surehand.core.names import nearest
from surehand.core.sanitize import replace_surrogates_in
from surehand.gateway.mcp.borne import Borne
from surehand.gateway.mcp.later import NAME as ASKER
from surehand.gateway.mcp.later import Later
from surehand.runtime.outputs import NAME as READER

if TYPE_CHECKING:
    from surehand.catalogue.catalogue import Catalogue
    from surehand.catalogue.listing import Listing
    from surehand.gateway.mcp.options import Options
    from surehand.runtime.runtime import Runtime
    from surehand.runtime.scope import Scope
    from surehand.runtime.standing import Standing

MOST_SCOPES = 1_000
MOST_NAMED = 20
LONGEST = 200
"""Characters of a name that is looked for among others like it."""


class Offered(NamedTuple):
    """A tool as it is offered."""

    entry: dict[str, Any]
    """What a client is shown of it."""
    listing: Listing
    later: Later
    """How clients are told that a call of it waits."""

    task_support: str
    """Whether it runs as a task: never by itself (`forbidden`), where it can (`optional`), or always (`required`)."""
    is_typed: bool
    """Whether it says what its results look like."""
    is_foreign: bool
    """Whether somebody else's words may be in its results."""
    by_user: bool
    """Whether it may be of some users only."""

    @classmethod
    def of(cls, entry: dict[str, Any], listing: Listing, later: Later) -> Self:
        """A tool with what its entry says, which is looked at once and not at each call."""
        match entry:
            case {"execution": {"taskSupport": "optional" | "required" as said}}:
                support = said
            case _:
                support = "forbidden"
        by_user = listing.provider is not None and listing.provider.knows_users
        return cls(entry, listing, later, support, "outputSchema" in entry, listing.kind != "function", by_user)


class Served:
    """What there is to call, and for whom."""

    def __init__(self, runtime: Runtime, options: Options) -> None:
        self.runtime, self.options = runtime, options
        self.later = Later(runtime.parts, options.on_wait)
        self._offered: dict[str, Offered] | None = None
        self._named: dict[str, Offered] | None = None
        self._scopes: dict[str | None, Scope] = {}
        self._borne = Borne()
        forget = WeakMethod(self._forget)
        finalize(self, runtime.catalogue.watch(lambda: (found := forget()) and found()))

    def check(self) -> None:
        """Raises `DefinitionError` if there is no such selection of tools, and no tool whose name matches."""
        name, catalogue = self.options.toolset, self.runtime.catalogue
        if name is None:
            return
        try:
            catalogue.toolset(name)
        except KeyError as error:
            if not catalogue.select(name):
                raise _no_such(name, error.args[0], catalogue) from None
            catalogue.toolset(name, name)  # a glob; what comes later and matches belongs to it, too

    def _forget(self) -> None:
        self._offered = self._named = None

    @property
    def offered(self) -> dict[str, Offered]:
        """Every tool that a model may see, by the name that clients use; worked out once per change."""
        if self._offered is None:
            self._offered = self._made()
        return self._offered

    def _made(self) -> dict[str, Offered]:
        found = [
            (entry, listing)
            for entry in self._described()
            if (listing := self.runtime.catalogue.find(entry.get("name", ""))) is not None
        ]
        bearers = Counter(_own_name(listing) for _, listing in found)
        taken = {READER, ASKER, *(entry["name"] for entry, _ in found)}
        made: dict[str, Offered] = {}
        for entry, listing in found:
            own = _own_name(listing)
            is_free = own not in taken and bearers[own] == 1 and self._borne.may_be(own, listing.name)
            name = own if self.options.short_names and is_free else entry["name"]
            self._borne.add(name, listing.name)
            made[name] = Offered.of({**replace_surrogates_in(entry), "name": name}, listing, self.later)
        return made

    def _described(self) -> list[dict[str, Any]]:
        toolset = self.options.toolset
        try:
            chosen = self._all(toolset)
        except KeyError:  # the last of its tools has gone
            return []
        if toolset is None:
            return chosen
        # Whoever is given an output that was cut has to be able to read the rest, and to ask for what comes later.
        missing = {READER, ASKER} - {entry.get("name") for entry in chosen}
        return [*chosen, *(entry for entry in self._all(None) if entry.get("name") in missing)]

    def _all(self, toolset: str | None) -> list[dict[str, Any]]:
        """Those of every user; whose they are is looked at for each request."""
        return self.runtime.catalogue.describe("mcp", toolset=toolset, workspace=self.runtime.parts.workspace)

    async def meet(self, user: str | None) -> dict[str, str]:
        """Get to know what is offered to a user alone, where that is not known yet; who did not say, and why."""
        return await self.scope(user or self.options.user).meet()

    def shown(self, user: str | None) -> dict[str, Offered]:
        """Every tool that a user's model may see."""
        hidden = self.scope(user or self.options.user).hidden()
        if not hidden:
            return self.offered
        return {name: each for name, each in self.offered.items() if each.listing.name not in hidden}

    def find(self, name: str, user: str | None) -> Offered | None:
        """The tool of that name, if it is one of a user's."""
        found = self._find(name)
        return None if found is None or (found.by_user and self._hides(found.listing, user)) else found

    def _hides(self, listing: Listing, user: str | None) -> bool:
        provider, who = listing.provider, self.scope(user or self.options.user).principal
        return provider is not None and provider.hides_from(who, listing.tool.name)

    def _find(self, name: str) -> Offered | None:
        found = self.offered.get(name)
        if found is None and name == ASKER and self.runtime.parts.durable:
            self.later.show()  # whoever was told of it before a restart still knows it
            found = self.offered.get(name)
        return found

    def named(self, tool: str) -> Offered | None:
        """The tool that the runtime knows by that name."""
        offered = self.offered
        if self._named is None:
            self._named = {each.listing.name: each for each in offered.values()}
        return self._named.get(tool)

    async def standing(self, user: str | None, call_id: str) -> Standing | None:
        """How a call stands. To all but its own user, and where its tool is not served, it looks like an unknown id."""
        scope = self.scope(user)
        found = await scope.standing(call_id)
        if found is None or found.user != scope.principal.user:
            return None
        return found if self._serves(found.tool) else None

    def _serves(self, tool: str) -> bool:
        """Whether clients may know of calls of a tool; one that was offered and has gone stays known."""
        if self.named(tool) is not None:
            return True
        is_gone = self.runtime.catalogue.find(tool) is None
        return is_gone and (self.options.toolset is None or tool in self._borne)

    def nearest(self, name: str, user: str | None) -> str:
        """A sentence about the names that were most likely meant; empty if there are none."""
        offered = self.shown(user)
        known = [shown for shown, each in offered.items() if each.listing.name == name]
        near = known or nearest(name[:LONGEST], offered)
        return f" Did you mean {', '.join(near)}?" if near else ""

    def scope(self, user: str | None) -> Scope:
        """The runtime for one user."""
        if (scope := self._scopes.get(user)) is None:
            if len(self._scopes) >= MOST_SCOPES:
                self._scopes.clear()
            scope = self._scopes[user] = self.runtime.scope(user=user) if user is not None else self.runtime
        return scope


def _no_such(name: str, told: str, catalogue: Catalogue) -> DefinitionError:
    if not _GLOB.search(name):
        return DefinitionError(told, fix=_others(catalogue))
    tools = [listing.name for listing in catalogue if listing.tool.face.listed]
    more = f" and {len(tools) - MOST_NAMED} more" if len(tools) > MOST_NAMED else ""
    known = f"there is {', '.join(tools[:MOST_NAMED])}{more}." if tools else "there is none yet."
    return DefinitionError(f"No tool matches {name!r}.", fix=known)


_GLOB = re.compile(r"[*?\[]")


def _others(catalogue: Catalogue) -> str:
    named = sorted({name for listing in catalogue for name in listing.tool.face.toolsets})
    known = f"there is {', '.join(named[:MOST_NAMED])}" if named else "there is none"
    return f"{known}; or give a glob of tools' names, as in 'git__*'."


_NAME = re.compile(r"[A-Za-z0-9_./-]{1,128}")


def _own_name(listing: Listing) -> str:
    """What whoever provides a tool calls it, where any client can take that; else our name for it."""
    said = listing.tool.face.provider_options.get("mcp")
    name = said.get("name") if isinstance(said, Mapping) else None
    return name if isinstance(name, str) and _NAME.fullmatch(name) else listing.tool.name
