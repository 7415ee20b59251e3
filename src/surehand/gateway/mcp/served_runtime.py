"""Served: a runtime as the clients of a server see it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, Self
from weakref import WeakMethod, finalize

from surehand.core.errors import DefinitionError
from surehand.core.names import nearest_names
from surehand.core.sanitize import replace_surrogates_in
from surehand.gateway.mcp.deferred_results import CALL_RESULT_TOOL as ASKER
from surehand.gateway.mcp.deferred_results import DeferredResults
from surehand.runtime.outputs import READER_TOOL_NAME as READER

if TYPE_CHECKING:
    from surehand.catalogue.catalogue import Catalogue
    from surehand.catalogue.listing import Listing
    from surehand.gateway.mcp.options import ServeOptions
    from surehand.runtime.pending.status import CallStatus
    from surehand.runtime.runtime import Runtime
    from surehand.runtime.scope import Scope

MAX_REMEMBERED_NAMES = 100_000
"""Names that are remembered; once there are so many, no new one is given away."""


class ToolNameHistory:
    """Tools by the names that clients were shown for them. A tool is what the runtime calls it, provider included."""

    def __init__(self) -> None:
        self._tool_by_name: dict[str, str] = {}
        self._shown_tools: set[str] = set()

    def is_available(self, name: str, tool_name: str) -> bool:
        """Whether a tool may have a name: it had it before, or none did."""
        bearer = self._tool_by_name.get(name)
        return bearer == tool_name or (bearer is None and len(self._tool_by_name) < MAX_REMEMBERED_NAMES)

    def add(self, name: str, tool_name: str) -> None:
        """A tool is shown by a name; the first to have it keeps it."""
        if len(self._tool_by_name) < MAX_REMEMBERED_NAMES:
            self._shown_tools.add(self._tool_by_name.setdefault(name, tool_name))

    def __contains__(self, tool_name: str) -> bool:
        return tool_name in self._shown_tools


MAX_CACHED_SCOPES = 1_000
MAX_NAMES_IN_ERROR = 20
MAX_COMPARED_NAME_LENGTH = 200
"""Characters of a name that is looked for among others like it."""


class ServedTool(NamedTuple):
    """A tool as it is offered."""

    entry: dict[str, Any]
    """What a client is shown of it."""
    listing: Listing
    deferred_results: DeferredResults
    """How clients are told that a call of it waits."""

    task_support: str
    """Whether it runs as a task: never by itself (`forbidden`), where it can (`optional`), or always (`required`)."""
    has_output_schema: bool
    """Whether it says what its results look like."""
    has_external_content: bool
    """Whether somebody else's words may be in its results."""
    varies_by_user: bool
    """Whether it may be of some users only."""

    @classmethod
    def from_entry(cls, entry: dict[str, Any], listing: Listing, deferred_results: DeferredResults) -> Self:
        """A tool with what its entry says, which is looked at once and not at each call."""
        match entry:
            case {"execution": {"taskSupport": "optional" | "required" as said}}:
                support = said
            case _:
                support = "forbidden"
        by_user = listing.provider is not None and listing.provider.is_per_user
        return cls(
            entry, listing, deferred_results, support, "outputSchema" in entry, listing.kind != "function", by_user
        )


class ServedRuntime:
    """What there is to call, and for whom."""

    def __init__(self, runtime: Runtime, options: ServeOptions) -> None:
        self.runtime, self.options = runtime, options
        self.deferred_results = DeferredResults(runtime.services, options.on_wait)
        self._tools: dict[str, ServedTool] | None = None
        self._tools_by_runtime_name: dict[str, ServedTool] | None = None
        self._scopes: dict[str | None, Scope] = {}
        self._name_history = ToolNameHistory()
        forget = WeakMethod(self._clear_cache)
        finalize(self, runtime.catalogue.watch(lambda: (found := forget()) and found()))

    def validate_toolset(self) -> None:
        """Raises `DefinitionError` if there is no such selection of tools, and no tool whose name matches."""
        name, catalogue = self.options.toolset, self.runtime.catalogue
        if name is None:
            return
        try:
            catalogue.toolset(name)
        except KeyError as error:
            if not catalogue.select(name):
                raise _unknown_toolset_error(name, error.args[0], catalogue) from None
            catalogue.toolset(name, name)  # a glob; what comes later and matches belongs to it, too

    def _clear_cache(self) -> None:
        self._tools = self._tools_by_runtime_name = None

    @property
    def tools(self) -> dict[str, ServedTool]:
        """Every tool that a model may see, by the name that clients use; worked out once per change."""
        if self._tools is None:
            self._tools = self._build_tools()
        return self._tools

    def _build_tools(self) -> dict[str, ServedTool]:
        found = [
            (entry, listing)
            for entry in self._describe_tools()
            if (listing := self.runtime.catalogue.find(entry.get("name", ""))) is not None
        ]
        bearers = Counter(_short_name(listing) for _, listing in found)
        taken = {READER, ASKER, *(entry["name"] for entry, _ in found)}
        made: dict[str, ServedTool] = {}
        for entry, listing in found:
            own = _short_name(listing)
            is_free = own not in taken and bearers[own] == 1 and self._name_history.is_available(own, listing.name)
            name = own if self.options.short_names and is_free else entry["name"]
            self._name_history.add(name, listing.name)
            made[name] = ServedTool.from_entry(
                {**replace_surrogates_in(entry), "name": name}, listing, self.deferred_results
            )
        return made

    def _describe_tools(self) -> list[dict[str, Any]]:
        toolset = self.options.toolset
        try:
            chosen = self._describe_toolset(toolset)
        except KeyError:  # the last of its tools has gone
            return []
        if toolset is None:
            return chosen
        # Whoever is given an output that was cut has to be able to read the rest, and to ask for what comes later.
        missing = {READER, ASKER} - {entry.get("name") for entry in chosen}
        return [*chosen, *(entry for entry in self._describe_toolset(None) if entry.get("name") in missing)]

    def _describe_toolset(self, toolset: str | None) -> list[dict[str, Any]]:
        """Those of every user; whose they are is looked at for each request."""
        return self.runtime.catalogue.describe("mcp", toolset=toolset, workspace=self.runtime.services.workspace)

    async def discover_user_tools(self, user: str | None) -> dict[str, str]:
        """Get to know what is offered to a user alone, where that is not known yet; who did not say, and why."""
        return await self.scope(user or self.options.user).load_user_tools()

    def visible_tools(self, user: str | None) -> dict[str, ServedTool]:
        """Every tool that a user's model may see."""
        hidden = self.scope(user or self.options.user).hidden_tool_names()
        if not hidden:
            return self.tools
        return {name: each for name, each in self.tools.items() if each.listing.name not in hidden}

    def find_tool(self, name: str, user: str | None) -> ServedTool | None:
        """The tool of that name, if it is one of a user's."""
        found = self._find_for_any_user(name)
        return None if found is None or (found.varies_by_user and self._is_hidden_from(found.listing, user)) else found

    def _is_hidden_from(self, listing: Listing, user: str | None) -> bool:
        provider, who = listing.provider, self.scope(user or self.options.user).principal
        return provider is not None and provider.is_hidden_from(who, listing.tool.name)

    def _find_for_any_user(self, name: str) -> ServedTool | None:
        found = self.tools.get(name)
        if found is None and name == ASKER and self.runtime.services.is_durable:
            self.deferred_results.offer_tool()  # whoever was told of it before a restart still knows it
            found = self.tools.get(name)
        return found

    def find_by_runtime_name(self, tool_name: str) -> ServedTool | None:
        """The tool that the runtime knows by that name."""
        offered = self.tools
        if self._tools_by_runtime_name is None:
            self._tools_by_runtime_name = {each.listing.name: each for each in offered.values()}
        return self._tools_by_runtime_name.get(tool_name)

    async def call_status(self, user: str | None, call_id: str) -> CallStatus | None:
        """How a call stands. To all but its own user, and where its tool is not served, it looks like an unknown id."""
        scope = self.scope(user)
        found = await scope.status(call_id)
        if found is None or found.user != scope.principal.user:
            return None
        return found if self._is_known_to_clients(found.tool) else None

    def _is_known_to_clients(self, tool_name: str) -> bool:
        """Whether clients may know of calls of a tool; one that was offered and has gone stays known."""
        if self.find_by_runtime_name(tool_name) is not None:
            return True
        is_gone = self.runtime.catalogue.find(tool_name) is None
        return is_gone and (self.options.toolset is None or tool_name in self._name_history)

    def suggest_names(self, name: str, user: str | None) -> str:
        """A sentence about the names that were most likely meant; empty if there are none."""
        offered = self.visible_tools(user)
        known = [shown for shown, each in offered.items() if each.listing.name == name]
        near = known or nearest_names(name[:MAX_COMPARED_NAME_LENGTH], offered)
        return f" Did you mean {', '.join(near)}?" if near else ""

    def scope(self, user: str | None) -> Scope:
        """The runtime for one user."""
        if (scope := self._scopes.get(user)) is None:
            if len(self._scopes) >= MAX_CACHED_SCOPES:
                self._scopes.clear()
            scope = self._scopes[user] = self.runtime.scope(user=user) if user is not None else self.runtime
        return scope


def _unknown_toolset_error(name: str, message: str, catalogue: Catalogue) -> DefinitionError:
    if not _GLOB_CHARACTERS.search(name):
        return DefinitionError(message, fix=_known_toolsets(catalogue))
    tools = [listing.name for listing in catalogue if listing.tool.presentation.listed]
    more = f" and {len(tools) - MAX_NAMES_IN_ERROR} more" if len(tools) > MAX_NAMES_IN_ERROR else ""
    known = f"there is {', '.join(tools[:MAX_NAMES_IN_ERROR])}{more}." if tools else "there is none yet."
    return DefinitionError(f"No tool matches {name!r}.", fix=known)


_GLOB_CHARACTERS = re.compile(r"[*?\[]")


def _known_toolsets(catalogue: Catalogue) -> str:
    named = sorted({name for listing in catalogue for name in listing.tool.presentation.toolsets})
    known = f"there is {', '.join(named[:MAX_NAMES_IN_ERROR])}" if named else "there is none"
    return f"{known}; or give a glob of tools' names, as in 'git__*'."


_CLIENT_SAFE_NAME = re.compile(r"[A-Za-z0-9_./-]{1,128}")


def _short_name(listing: Listing) -> str:
    """What whoever provides a tool calls it, where any client can take that; else our name for it."""
    said = listing.tool.presentation.provider_options.get("mcp")
    name = said.get("name") if isinstance(said, Mapping) else None
    return name if isinstance(name, str) and _CLIENT_SAFE_NAME.fullmatch(name) else listing.tool.name
