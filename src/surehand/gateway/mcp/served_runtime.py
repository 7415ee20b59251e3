"""A runtime as the clients of an MCP server see it: the tools that it serves, their names, and the scopes of users.

All handlers of the server use it. It reads the catalogue and the status of calls, and calls no tools itself.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, Self
from weakref import WeakMethod, finalize

from surehand.core.errors import DefinitionError
from surehand.core.names import nearest_names
from surehand.core.sanitize import replace_surrogates_in
from surehand.gateway.mcp.deferred_results import CALL_RESULT_TOOL, DeferredResults
from surehand.runtime.outputs import READER_TOOL_NAME

if TYPE_CHECKING:
    from surehand.catalogue.catalogue import Catalogue
    from surehand.catalogue.listing import Listing
    from surehand.gateway.mcp.options import ServeOptions
    from surehand.runtime.pending.status import CallStatus
    from surehand.runtime.runtime import Runtime
    from surehand.runtime.scope import Scope

MAX_REMEMBERED_NAMES = 100_000
"""Names in the name history. Once it is full, no tool gets a new short name."""
MAX_CACHED_SCOPES = 1_000
MAX_NAMES_IN_ERROR = 20
MAX_COMPARED_NAME_LENGTH = 200
"""Characters of an unknown name that are compared with the known names."""
_ALWAYS_SERVED = {READER_TOOL_NAME, CALL_RESULT_TOOL}
_GLOB_CHARACTERS = re.compile(r"[*?\[]")
_CLIENT_SAFE_NAME = re.compile(r"[A-Za-z0-9_./-]{1,128}")


class ToolNameHistory:
    """The names under which clients have seen tools since the server started.

    A client that knows a tool by a short name must not reach another tool with it after the catalogue has changed.
    """

    def __init__(self) -> None:
        self._tool_by_name: dict[str, str] = {}
        self._shown_tools: set[str] = set()

    def is_available(self, name: str, tool_name: str) -> bool:
        """Whether a tool may be shown under a name: it was before, or no tool was."""
        first_tool = self._tool_by_name.get(name)
        return first_tool == tool_name or (first_tool is None and len(self._tool_by_name) < MAX_REMEMBERED_NAMES)

    def add(self, name: str, tool_name: str) -> None:
        """Record that a tool is shown under a name. The name stays with the first tool that had it."""
        if len(self._tool_by_name) < MAX_REMEMBERED_NAMES:
            self._shown_tools.add(self._tool_by_name.setdefault(name, tool_name))

    def __contains__(self, tool_name: str) -> bool:
        return tool_name in self._shown_tools


class ServedTool(NamedTuple):
    """A tool of the catalogue as the server offers it."""

    entry: dict[str, Any]
    """The tool's entry in `tools/list`."""
    listing: Listing
    deferred_results: DeferredResults
    """Renders pending calls of the tool for clients that cannot be asked."""

    task_support: str
    """Whether a call runs as a task: `forbidden`, `optional` (if the client supports tasks), or `required`."""
    has_output_schema: bool
    has_external_content: bool
    """Whether results may contain content of another server or program."""
    varies_by_user: bool
    """Whether the tool may be visible to some users only."""

    @classmethod
    def from_entry(cls, entry: dict[str, Any], listing: Listing, deferred_results: DeferredResults) -> Self:
        """Derive the other fields from the entry once, and not at each call."""
        match entry:
            case {"execution": {"taskSupport": "optional" | "required" as declared}}:
                task_support = declared
            case _:
                task_support = "forbidden"
        return cls(
            entry=entry,
            listing=listing,
            deferred_results=deferred_results,
            task_support=task_support,
            has_output_schema="outputSchema" in entry,
            has_external_content=listing.kind != "function",
            varies_by_user=listing.abilities.per_user is not None,
        )


class ServedRuntime:
    """The tools of a runtime under the names that clients use, and the runtime's scope for each user."""

    def __init__(self, runtime: Runtime, options: ServeOptions) -> None:
        self.runtime = runtime
        self.options = options
        self.deferred_results = DeferredResults(runtime, options.on_wait)
        self._tools: dict[str, ServedTool] | None = None
        self._tools_by_runtime_name: dict[str, ServedTool] | None = None
        self._scopes: dict[str | None, Scope] = {}
        self._name_history = ToolNameHistory()
        # Weak: the catalogue outlives this server, and must not keep it in memory.
        clear_cache = WeakMethod(self._clear_cache)
        finalize(self, runtime.catalogue.watch(lambda: (method := clear_cache()) and method()))

    def validate_toolset(self) -> None:
        """Raise `DefinitionError` if the option `toolset` is neither a toolset nor a glob that matches a tool."""
        name = self.options.toolset
        catalogue = self.runtime.catalogue
        if name is None:
            return
        try:
            catalogue.toolset(name)
        except KeyError as error:
            if not catalogue.select(name):
                raise _unknown_toolset_error(name, error.args[0], catalogue) from None
            catalogue.toolset(name, name)  # a glob: tools that are added later and match it belong to the toolset

    def _clear_cache(self) -> None:
        self._tools = None
        self._tools_by_runtime_name = None

    @property
    def tools(self) -> dict[str, ServedTool]:
        """Every tool that models of any user may see, by the name that clients use. Cached until a change."""
        if self._tools is None:
            self._tools = self._build_tools()
        return self._tools

    def _build_tools(self) -> dict[str, ServedTool]:
        entries = [
            (entry, listing)
            for entry in self._describe_tools()
            if (listing := self.runtime.catalogue.find(entry.get("name", ""))) is not None
        ]
        short_name_counts = Counter(_short_name(listing) for _, listing in entries)
        full_names = {*_ALWAYS_SERVED, *(entry["name"] for entry, _ in entries)}
        tools: dict[str, ServedTool] = {}
        for entry, listing in entries:
            short_name = _short_name(listing)
            is_unique = short_name not in full_names and short_name_counts[short_name] == 1
            is_available = is_unique and self._name_history.is_available(short_name, listing.name)
            name = short_name if self.options.short_names and is_available else entry["name"]
            self._name_history.add(name, listing.name)
            served_entry = {**replace_surrogates_in(entry), "name": name}
            tools[name] = ServedTool.from_entry(served_entry, listing, self.deferred_results)
        return tools

    def _describe_tools(self) -> list[dict[str, Any]]:
        toolset = self.options.toolset
        try:
            entries = self._describe_toolset(toolset)
        except KeyError:  # the last tool of the toolset was removed
            return []
        if toolset is None:
            return entries
        # A client that gets a shortened output or a pending call needs the tools that read the rest and the result.
        missing = _ALWAYS_SERVED - {entry.get("name") for entry in entries}
        return [*entries, *(entry for entry in self._describe_toolset(None) if entry.get("name") in missing)]

    def _describe_toolset(self, toolset: str | None) -> list[dict[str, Any]]:
        """Describe the tools of all users. Each request then leaves out those that its user may not see."""
        return self.runtime.catalogue.describe("mcp", toolset=toolset, workspace=self.runtime.workspace)

    async def discover_user_tools(self, user: str | None) -> dict[str, str]:
        """Load the tools that providers offer to this user alone. Returns the errors of providers, by namespace."""
        return await self.scope(user or self.options.user).load_user_tools()

    def visible_tools(self, user: str | None) -> dict[str, ServedTool]:
        """Every tool that models of this user may see."""
        hidden = self.scope(user or self.options.user).hidden_tool_names()
        if not hidden:
            return self.tools
        return {name: tool for name, tool in self.tools.items() if tool.listing.name not in hidden}

    def find_tool(self, name: str, user: str | None) -> ServedTool | None:
        """The tool of that name, if this user may see it."""
        tool = self._find_for_any_user(name)
        if tool is None or (tool.varies_by_user and self._is_hidden_from(tool.listing, user)):
            return None
        return tool

    def _is_hidden_from(self, listing: Listing, user: str | None) -> bool:
        principal = self.scope(user or self.options.user).principal
        per_user = listing.abilities.per_user
        return per_user is not None and per_user.is_hidden_from(principal, listing.tool.name)

    def _find_for_any_user(self, name: str) -> ServedTool | None:
        tool = self.tools.get(name)
        if tool is None and name == CALL_RESULT_TOOL and self.runtime.is_durable:
            self.deferred_results.offer_tool()  # clients that saw it before a restart may still call it
            tool = self.tools.get(name)
        return tool

    def find_by_runtime_name(self, tool_name: str) -> ServedTool | None:
        """The tool that has this name in the runtime's catalogue."""
        tools = self.tools
        if self._tools_by_runtime_name is None:
            self._tools_by_runtime_name = {tool.listing.name: tool for tool in tools.values()}
        return self._tools_by_runtime_name.get(tool_name)

    async def call_status(self, user: str | None, call_id: str) -> CallStatus | None:
        """The status of a call; None if the id is unknown, the call is another user's, or its tool is not served."""
        scope = self.scope(user)
        status = await scope.status(call_id)
        if status is None or status.user != scope.principal.user:
            return None
        return status if self._is_known_to_clients(status.tool) else None

    def _is_known_to_clients(self, tool_name: str) -> bool:
        """Whether clients may see calls of a tool: it is served, or was before it was removed."""
        if self.find_by_runtime_name(tool_name) is not None:
            return True
        is_removed = self.runtime.catalogue.find(tool_name) is None
        return is_removed and (self.options.toolset is None or tool_name in self._name_history)

    def suggest_names(self, name: str, user: str | None) -> str:
        """A sentence that suggests names similar to an unknown one; empty if there are none."""
        tools = self.visible_tools(user)
        suggestions = [shown_name for shown_name, tool in tools.items() if tool.listing.name == name]
        suggestions = suggestions or nearest_names(name[:MAX_COMPARED_NAME_LENGTH], tools)
        return f" Did you mean {', '.join(suggestions)}?" if suggestions else ""

    def scope(self, user: str | None) -> Scope:
        """The runtime's scope for one user; the runtime itself for anonymous calls."""
        scope = self._scopes.get(user)
        if scope is None:
            if len(self._scopes) >= MAX_CACHED_SCOPES:
                self._scopes.clear()
            scope = self.runtime if user is None else self.runtime.scope(user=user)
            self._scopes[user] = scope
        return scope


def _unknown_toolset_error(name: str, message: str, catalogue: Catalogue) -> DefinitionError:
    if not _GLOB_CHARACTERS.search(name):
        return DefinitionError(message, fix=_known_toolsets(catalogue))
    tools = [listing.name for listing in catalogue if listing.tool.presentation.listed]
    if not tools:
        return DefinitionError(f"No tool matches {name!r}.", fix="add tools to the runtime first.")
    more = f" and {len(tools) - MAX_NAMES_IN_ERROR} more" if len(tools) > MAX_NAMES_IN_ERROR else ""
    known = f"the tools are {', '.join(tools[:MAX_NAMES_IN_ERROR])}{more}."
    return DefinitionError(f"No tool matches {name!r}.", fix=known)


def _known_toolsets(catalogue: Catalogue) -> str:
    toolsets = sorted({name for listing in catalogue for name in listing.tool.presentation.toolsets})
    names = ", ".join(toolsets[:MAX_NAMES_IN_ERROR])
    known = f"the toolsets are {names}" if toolsets else "no toolset is defined"
    return f"{known}; or give a glob of tools' names, as in 'git__*'."


def _short_name(listing: Listing) -> str:
    """The provider's own name for a tool, if every client accepts it; else our name without the namespace."""
    options = listing.tool.presentation.provider_options.get("mcp")
    name = options.get("name") if isinstance(options, Mapping) else None
    return name if isinstance(name, str) and _CLIENT_SAFE_NAME.fullmatch(name) else listing.tool.name
