"""The catalogue: all tools of a runtime by name, alias and wire name. Tools can be added and removed at any time."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from surehand.catalogue.listing import Listing
from surehand.core.errors import DefinitionError
from surehand.core.events import CatalogueChanged
from surehand.core.facets import CATEGORIES
from surehand.core.names import (
    NAMESPACE_SEPARATOR,
    hashed_name,
    is_legal_name,
    nearest_names,
    possible_names,
    qualified_name,
    sanitize_name,
    wire_name,
)
from surehand.core.provider import OnConflict
from surehand.core.provider_abilities import NO_ABILITIES, AddedProvider
from surehand.core.tool import Tool

if TYPE_CHECKING:
    from surehand.catalogue.describe import ToolDescriptions
    from surehand.catalogue.search import ToolIndex

log = logging.getLogger("surehand")


class Catalogue:
    """The tools of a runtime.

    Args:
        on_change: called with an event after every change; the event names no tools if only a toolset has changed.
        check: called with each tool before it is added, and may raise.
    """

    def __init__(
        self,
        *tools: Tool[..., Any],
        on_change: Callable[[CatalogueChanged], None] | None = None,
        check: Callable[[Tool[..., Any]], None] | None = None,
    ) -> None:
        self._listings: dict[str, Listing] = {}
        self._aliases: dict[str, str] = {}
        """The full name of a tool by alias."""
        self._wire_names: dict[str, str] = {}
        """The full name of a tool by wire name, where the two differ."""
        self._toolsets: dict[str, tuple[str, ...]] = {}
        """The glob patterns of a toolset by its name."""
        self._left_out: dict[str, str] = {}
        """Why tools were left out, by name or glob."""
        self._search_index: ToolIndex | None = None
        self._descriptions: dict[Any, ToolDescriptions] = {}
        self._on_change = on_change
        self._check = check
        self._watchers: dict[object, Callable[[], None]] = {}
        if tools:
            self.add(*tools)

    def new_empty(self) -> Catalogue:
        """Another catalogue, without tools, that checks the tools which are added to it in the same way."""
        return Catalogue(check=self._check)

    def __iter__(self) -> Iterator[Listing]:
        return iter(list(self._listings.values()))  # a copy: tools may be added during the iteration

    def __len__(self) -> int:
        return len(self._listings)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self.find(name) is not None

    # Adding and removing

    def add(
        self,
        *tools: Tool[..., Any],
        namespace: str = "",
        provider: AddedProvider | None = None,
        on_conflict: OnConflict = "error",
    ) -> list[Listing]:
        """Add tools, all or none: a name that is taken is an error unless `on_conflict` is replace or rename."""
        added = self._build_listings(tools, namespace, provider, on_conflict)
        replaced = [name for name in added if name in self._listings]
        for name in replaced:
            self._delete(name)
        for listing in added.values():
            self._insert(listing)
        self._notify_changed(added=tuple(added), removed=tuple(replaced))
        return list(added.values())

    def replace_tools(self, provider: AddedProvider, *tools: Tool[..., Any]) -> None:
        """Replace all tools of a provider. A tool whose definition is unchanged keeps its listing."""
        before = {listing.name: listing for listing in self if listing.provider is provider.provider}
        for name in before:
            self._delete(name)
        try:
            after = self._build_listings(tools, provider.namespace, provider, provider.provider.on_conflict)
        except Exception:
            after = before
            raise
        finally:
            # Also after an error: then `after` is `before`, and the old tools are put back.
            current = {name: _keep_unchanged(before.get(name), listing) for name, listing in after.items()}
            for listing in current.values():
                self._insert(listing)
        self._notify_changed(
            added=tuple(name for name, listing in current.items() if before.get(name) is not listing),
            removed=tuple(name for name, listing in before.items() if current.get(name) is not listing),
        )

    def _build_listings(
        self, tools: Iterable[Tool[..., Any]], namespace: str, source: AddedProvider | None, on_conflict: OnConflict
    ) -> dict[str, Listing]:
        added: dict[str, Listing] = {}
        changed_wire_names: set[str] = set()
        tools = list(tools)
        provider = None if source is None else source.provider
        abilities = NO_ABILITIES if source is None else source.abilities
        # A name that was changed to be legal gives way to an equal name that a developer wrote, in whatever order.
        written_names = {tool.name for tool in tools if not tool.has_changed_name}
        for tool in tools:
            if self._check:
                self._check(tool)
            name = qualified_name(namespace, tool.name)
            if tool.has_changed_name and (tool.name in written_names or self._is_other_tool(name, tool, added)):
                name = qualified_name(namespace, hashed_name(tool.given_name))
            name = self._free_name(name, tool, added, on_conflict)
            tool_wire_name = self._free_wire_name(name, added, changed_wire_names)
            added[name] = Listing(name, tool, provider, namespace, tool_wire_name, abilities)
            if tool_wire_name != name:
                changed_wire_names.add(tool_wire_name)
        return added

    def leave_out(self, pattern: str, reason: str) -> None:
        """Refuse calls of a name, or of all names that match a glob, with that reason instead of as unknown.

        A tool that the catalogue has is not affected.
        """
        self._left_out[pattern] = reason

    def refusal_reason(self, name: str) -> str | None:
        """Why a tool that the catalogue does not have was left out, if it was."""
        if (reason := self._left_out.get(name)) is not None:
            return reason
        return next((why for glob, why in self._left_out.items() if fnmatchcase(name, glob)), None)

    def remove(self, *names: str) -> None:
        """Remove tools and their aliases; unknown names are ignored."""
        listings = (self.find(name) for name in names)
        removed = tuple(dict.fromkeys(listing.name for listing in listings if listing is not None))
        for name in removed:
            self._delete(name)
        if removed:
            self._notify_changed(removed=removed)

    def _is_other_tool(self, name: str, tool: Tool[..., Any], added: dict[str, Listing]) -> bool:
        """Whether a tool of that name exists that a developer called otherwise."""
        existing = added.get(name) or self._listings.get(name)
        return existing is not None and existing.tool.given_name != tool.given_name

    def _free_name(self, name: str, tool: Tool[..., Any], added: dict[str, Listing], on_conflict: OnConflict) -> str:
        if name not in added and (name not in self._listings or on_conflict == "replace"):
            return name
        if on_conflict != "rename":
            raise DefinitionError(
                f"There is a tool {name!r} already.",
                fix="give one of them another name or namespace, or add it with on_conflict='replace' or 'rename'.",
                where=tool.where,
            )
        number = 2
        while f"{name}_{number}" in self._listings or f"{name}_{number}" in added:
            number += 1
        return f"{name}_{number}"

    def _free_wire_name(self, name: str, added: dict[str, Listing], changed_wire_names: set[str]) -> str:
        candidate = wire_name(name)
        salt = 0
        while candidate in changed_wire_names or self._is_wire_name_taken(candidate, name, added):
            salt += 1
            candidate = wire_name(f"{name}#{salt}")
        return candidate

    def _is_wire_name_taken(self, candidate: str, name: str, added: dict[str, Listing]) -> bool:
        """Whether it is the name or the wire name of another tool. Aliases do not count: a tool's own name wins."""
        same_name = (self._listings.get(candidate), added.get(candidate))
        if any(listing is not None and listing.name != name for listing in same_name):
            return True
        return self._wire_names.get(candidate, name) != name

    def _insert(self, listing: Listing) -> None:
        self._listings[listing.name] = listing
        if listing.wire_name != listing.name:
            self._wire_names[listing.wire_name] = listing.name
        for alias in listing.tool.presentation.aliases:
            owner = alias if alias in self._listings else self._aliases.setdefault(alias, listing.name)
            if owner != listing.name:
                log.warning("The alias %r of %s is taken by %s.", alias, listing.name, owner)

    def _delete(self, name: str) -> None:
        listing = self._listings.pop(name)
        self._wire_names.pop(listing.wire_name, None)
        for alias in listing.tool.presentation.aliases:
            if self._aliases.get(alias) == name:
                del self._aliases[alias]

    def _notify_changed(self, *, added: tuple[str, ...] = (), removed: tuple[str, ...] = ()) -> None:
        self._search_index = None
        self._descriptions.clear()
        if self._on_change and (added or removed):
            self._on_change(CatalogueChanged(added, removed))
        if added or removed:
            self._notify_watchers()

    def _notify_watchers(self) -> None:
        for watcher in list(self._watchers.values()):
            watcher()

    def watch(self, watcher: Callable[[], None]) -> Callable[[], None]:
        """Call the watcher after every change of tools and toolsets. Returns a function that ends this."""
        key = object()
        self._watchers[key] = watcher
        return lambda: self._watchers.pop(key, None) and None

    # Finding

    def find(self, name: str) -> Listing | None:
        """The tool of that name, alias or wire name."""
        full_name = self._wire_names.get(name)
        if full_name is None:
            # A tool's own name comes before an alias of another tool.
            full_name = name if name in self._listings else self._aliases.get(name, "")
        return self._listings.get(full_name)

    def resolve(self, name: str) -> Listing | None:
        """`find`, and the tool that a model meant if it changed the case, left out the namespace or added tokens."""
        if listing := self._find_by_given_name(name):
            return listing
        possible = possible_names(name)
        for possible_name in possible:
            if listing := self.find(possible_name):
                return listing
        if listing := self._find_ignoring_case({each.casefold() for each in possible}):
            return listing
        short_name = sanitize_name(name)
        if NAMESPACE_SEPARATOR in short_name:
            return None
        suffix = f"{NAMESPACE_SEPARATOR}{short_name}"
        matches = [listing for full_name, listing in self._listings.items() if full_name.endswith(suffix)]
        if len(matches) != 1 or self._is_other_name(short_name):
            return None
        log.info("%r was called without its namespace; calling %s.", name[:100], matches[0].name)
        return matches[0]

    def _find_by_given_name(self, name: str) -> Listing | None:
        """The tool whose developer wrote this name, which has characters that no name may have."""
        if is_legal_name(name):
            return None
        for listing in self._listings.values():
            if listing.tool.given_name and qualified_name(listing.namespace, listing.tool.given_name) == name:
                return listing
        return None

    def _find_ignoring_case(self, folded_names: set[str]) -> Listing | None:
        """The only tool with one of these names or aliases in another case; None if there are two."""
        matches = {full_name for full_name in self._listings if full_name.casefold() in folded_names}
        matches |= {owner for alias, owner in self._aliases.items() if alias.casefold() in folded_names}
        return self._listings[matches.pop()] if len(matches) == 1 else None

    def _is_other_name(self, name: str) -> bool:
        """Whether policy rules know a tool by this name: then it never stands for the tool of another namespace."""
        return any(name in listing.tool.other_names for listing in self._listings.values() if not listing.namespace)

    def suggest(self, name: str) -> list[str]:
        """Known names that are similar to an unknown one."""
        return nearest_names(name, [*self._listings, *self._aliases])

    def search(self, query: str, limit: int = 10) -> list[Listing]:
        """The tools whose name, description or parameters match the words of the query best, best first."""
        from surehand.catalogue.search import ToolIndex  # imported on first use: it takes 1.3 ms

        if self._search_index is None:
            self._search_index = ToolIndex(self._listings.values())
        return self._search_index.search(query, limit)

    def select(self, *patterns: str) -> list[Listing]:
        """The tools whose names match any of the globs."""
        return [listing for listing in self if any(fnmatchcase(listing.name, pattern) for pattern in patterns)]

    def toolset(self, name: str, *patterns: str) -> list[Listing]:
        """The tools of a toolset; with patterns, the toolset is defined first.

        A tool belongs to it if a pattern matches its name, or if its definition names the toolset (`toolsets=`).
        """
        if patterns:
            self._toolsets[name] = patterns
            self._descriptions.clear()
            if self._on_change:
                self._on_change(CatalogueChanged())
            self._notify_watchers()
        listings = [listing for listing in self if self._is_in_toolset(listing, name)]
        if not listings and name not in self._toolsets:
            near = nearest_names(name, self._toolset_names())
            suggestion = f" Did you mean {near[0]!r}?" if near else ""
            raise KeyError(f"There is no toolset {name!r}.{suggestion}")
        return listings

    def is_in_toolsets(self, listing: Listing, toolsets: Iterable[str]) -> bool:
        """Whether a tool belongs to every one of the toolsets."""
        return all(self._is_in_toolset(listing, name) for name in toolsets)

    def _is_in_toolset(self, listing: Listing, toolset: str) -> bool:
        if toolset in listing.tool.presentation.toolsets:
            return True
        return any(fnmatchcase(listing.name, pattern) for pattern in self._toolsets.get(toolset, ()))

    def _toolset_names(self) -> set[str]:
        return {*self._toolsets, *(name for listing in self for name in listing.tool.presentation.toolsets)}

    def category(self, name: str) -> list[Listing]:
        """The tools of a category."""
        return [listing for listing in self if listing.tool.category == name]

    def categories(self) -> dict[str, int]:
        """The number of tools in each category; the common categories are listed even if they are empty."""
        return dict.fromkeys(CATEGORIES, 0) | Counter(listing.tool.category for listing in self)

    def enabled(self, permissions: Iterable[str]) -> list[Listing]:
        """The tools whose effects are all among the given permissions."""
        granted = frozenset(permissions)
        return [listing for listing in self if listing.required_effects <= granted]

    # Describing

    def describe(
        self,
        format: str,
        *,
        toolset: str | None = None,
        workspace: str | None = None,
        hide: frozenset[str] = frozenset(),
    ) -> ToolDescriptions:
        """The tools in the format of a model API. Descriptions are cached until the catalogue changes."""
        from surehand.catalogue.describe import describe_listings  # imported on first use: it takes 3.6 ms

        key = (format, toolset, workspace, hide)
        if key not in self._descriptions:
            candidates: Iterable[Listing] = self.toolset(toolset) if toolset else self
            listings = [each for each in candidates if each.is_shown_to_model and each.name not in hide]
            self._descriptions[key] = describe_listings(listings, format, workspace=workspace)
        return self._descriptions[key].copy()


def _keep_unchanged(before: Listing | None, now: Listing) -> Listing:
    """The old listing if the definition is unchanged, so that pending approvals and cached results stay valid."""
    if before is None or before.wire_name != now.wire_name or before.tool.presentation != now.tool.presentation:
        return now
    same = before.tool.definition_digest == now.tool.definition_digest and before.tool.safety == now.tool.safety
    return before if same else now
