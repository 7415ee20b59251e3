"""Catalogue: every tool there is, by name, alias and wire name; tools may come and go at any time."""

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
    nearest_names,
    possible_names,
    qualified_name,
    sanitize_name,
    wire_name,
)
from surehand.core.provider import OnConflict, Provider
from surehand.core.tool import Tool

if TYPE_CHECKING:
    from surehand.catalogue.describe import ToolDescriptions
    from surehand.catalogue.search import ToolIndex

log = logging.getLogger("surehand")


class Catalogue:
    """The tools of a runtime. A change is told to `on_change` once it is complete."""

    def __init__(
        self,
        *tools: Tool[..., Any],
        on_change: Callable[[CatalogueChanged], None] | None = None,
        check: Callable[[Tool[..., Any]], None] | None = None,
    ) -> None:
        self._listings: dict[str, Listing] = {}
        self._aliases: dict[str, str] = {}
        """The aliases."""
        self._wire_names: dict[str, str] = {}
        """The names that model APIs are shown, where they are not the tool's own."""
        self._toolsets: dict[str, tuple[str, ...]] = {}
        self._search_index: ToolIndex | None = None
        self._descriptions: dict[Any, ToolDescriptions] = {}
        self._on_change, self._check = on_change, check
        self._watchers: dict[object, Callable[[], None]] = {}
        if tools:
            self.add(*tools)

    def __iter__(self) -> Iterator[Listing]:
        return iter(list(self._listings.values()))

    def __len__(self) -> int:
        return len(self._listings)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self.find(name) is not None

    # Coming and going

    def add(
        self,
        *tools: Tool[..., Any],
        namespace: str = "",
        provider: Provider | None = None,
        on_conflict: OnConflict = "error",
    ) -> list[Listing]:
        """Add tools, all or none: a name that is taken is an error unless `on_conflict` says replace or rename."""
        added = self._build_listings(tools, namespace, provider, on_conflict)
        replaced = [name for name in added if name in self._listings]
        for name in replaced:
            self._delete(name)
        for listing in added.values():
            self._insert(listing)
        self._notify_changed(added=tuple(added), removed=tuple(replaced))
        return list(added.values())

    def replace_tools(self, provider: Provider, *tools: Tool[..., Any]) -> None:
        """Let a provider have these tools and no others; those that are what they were stay as they are."""
        before = {listing.name: listing for listing in self if listing.provider is provider}
        for name in before:
            self._delete(name)
        try:
            after = self._build_listings(tools, provider.namespace, provider, provider.on_conflict)
        except Exception:
            after = before
            raise
        finally:
            kept = {name: _keep_unchanged(before.get(name), listing) for name, listing in after.items()}
            for listing in kept.values():
                self._insert(listing)
        self._notify_changed(
            added=tuple(name for name, listing in kept.items() if before.get(name) is not listing),
            removed=tuple(name for name, listing in before.items() if kept.get(name) is not listing),
        )

    def _build_listings(
        self, tools: Iterable[Tool[..., Any]], namespace: str, provider: Provider | None, on_conflict: OnConflict
    ) -> dict[str, Listing]:
        added: dict[str, Listing] = {}
        cut: set[str] = set()
        for tool in tools:
            if self._check:
                self._check(tool)
            name = self._free_name(qualified_name(namespace, tool.name), tool, added, on_conflict)
            wire = self._free_wire_name(name, added, cut)
            added[name] = Listing(name, tool, provider, namespace, wire)
            if wire != name:
                cut.add(wire)
        return added

    def remove(self, *names: str) -> None:
        """Take tools out, with their aliases; a name that is not there is no error."""
        found = [listing.name for name in names if (listing := self.find(name))]
        for name in dict.fromkeys(found):
            self._delete(name)
        if found:
            self._notify_changed(removed=tuple(dict.fromkeys(found)))

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
        while (free := f"{name}_{number}") in self._listings or free in added:
            number += 1
        return free

    def _free_wire_name(self, name: str, added: dict[str, Listing], cut: set[str]) -> str:
        wire, salt = wire_name(name), 0
        while wire in cut or self._is_wire_name_taken(wire, name, added):
            salt += 1
            wire = wire_name(f"{name}#{salt}")
        return wire

    def _is_wire_name_taken(self, wire: str, name: str, added: dict[str, Listing]) -> bool:
        """Whether another tool is called so, or shown so; an alias gives way to a tool's own name."""
        others = (known for known in (self._listings.get(wire), added.get(wire)) if known and known.name != name)
        return any(others) or self._wire_names.get(wire, name) != name

    def _insert(self, listing: Listing) -> None:
        self._listings[listing.name] = listing
        if listing.wire_name != listing.name:
            self._wire_names[listing.wire_name] = listing.name
        for alias in listing.tool.presentation.aliases:
            holder = alias if alias in self._listings else self._aliases.setdefault(alias, listing.name)
            if holder != listing.name:
                log.warning("The alias %r of %s is taken by %s.", alias, listing.name, holder)

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
        """Be told when tools came or went, or a toolset was defined. Gives what ends that; calls cost nothing more."""
        key = object()
        self._watchers[key] = watcher
        return lambda: self._watchers.pop(key, None) and None

    # Finding

    def find(self, name: str) -> Listing | None:
        """The tool of that name, alias or wire name."""
        owner = self._wire_names.get(name) or (name if name in self._listings else self._aliases.get(name, ""))
        return self._listings.get(owner)

    def resolve(self, name: str) -> Listing | None:
        """`find`, and the small mistakes that models make: wrapped names, or the namespace left out."""
        if found := next((listing for spelling in possible_names(name) if (listing := self.find(spelling))), None):
            return found
        short = sanitize_name(name)
        if NAMESPACE_SEPARATOR in short:
            return None
        matches = [known for full, known in self._listings.items() if full.endswith(f"{NAMESPACE_SEPARATOR}{short}")]
        if len(matches) != 1:
            return None
        log.info("%r was called without its namespace; %s is meant.", name[:100], matches[0].name)
        return matches[0]

    def suggest(self, name: str) -> list[str]:
        """The names that were most likely meant."""
        return nearest_names(name, [*self._listings, *self._aliases])

    def search(self, query: str, limit: int = 10) -> list[Listing]:
        """Tools whose name, description or parameters fit the words best, best first."""
        from surehand.catalogue.search import ToolIndex  # loaded by those alone who search

        if self._search_index is None:
            self._search_index = ToolIndex(self._listings.values())
        return self._search_index.search(query, limit)

    def select(self, *patterns: str) -> list[Listing]:
        """The tools whose names match any of the globs."""
        return [listing for listing in self if any(fnmatchcase(listing.name, pattern) for pattern in patterns)]

    def toolset(self, name: str, *patterns: str) -> list[Listing]:
        """The tools of a named selection; with patterns, that selection is defined first.

        A tool belongs to it by its name, or because it says so itself (`toolsets=`).
        """
        if patterns:
            self._toolsets[name] = patterns
            self._descriptions.clear()
            self._notify_watchers()
        chosen = [listing for listing in self if self._is_in_toolset(listing, name)]
        if not chosen and name not in self._toolsets:
            near = nearest_names(name, self._toolset_names())
            raise KeyError(f"There is no toolset {name!r}.{f' Did you mean {near[0]!r}?' if near else ''}")
        return chosen

    def _is_in_toolset(self, listing: Listing, toolset: str) -> bool:
        patterns = self._toolsets.get(toolset, ())
        return toolset in listing.tool.presentation.toolsets or any(
            fnmatchcase(listing.name, glob) for glob in patterns
        )

    def _toolset_names(self) -> set[str]:
        return {*self._toolsets, *(name for listing in self for name in listing.tool.presentation.toolsets)}

    def category(self, name: str) -> list[Listing]:
        """The tools of a category."""
        return [listing for listing in self if listing.tool.category == name]

    def categories(self) -> dict[str, int]:
        """How many tools each category has; the common ones are there even when empty."""
        return dict.fromkeys(CATEGORIES, 0) | Counter(listing.tool.category for listing in self)

    def enabled(self, permissions: Iterable[str]) -> list[Listing]:
        """The tools that need nothing beyond the given permissions."""
        granted = frozenset(permissions)
        return [listing for listing in self if listing.policy_effects <= granted]

    # Telling models

    def describe(
        self,
        format: str,
        *,
        toolset: str | None = None,
        workspace: str | None = None,
        hide: frozenset[str] = frozenset(),
    ) -> ToolDescriptions:
        """What a model API wants to be shown; worked out once per change."""
        from surehand.catalogue.describe import describe_listings  # loaded by those alone who describe

        key = (format, toolset, workspace, hide)
        if key not in self._descriptions:
            chosen: Iterable[Listing] = self.toolset(toolset) if toolset else self
            shown = [listing for listing in chosen if listing.is_shown_to_model and listing.name not in hide]
            self._descriptions[key] = describe_listings(shown, format, workspace=workspace)
        return self._descriptions[key].copy()


def _keep_unchanged(before: Listing | None, now: Listing) -> Listing:
    """The listing that was there, where it says the same: calls and approvals go on as if nothing had happened."""
    if before is None or before.wire_name != now.wire_name or before.tool.presentation != now.tool.presentation:
        return now
    same = before.tool.definition_digest == now.tool.definition_digest and before.tool.safety == now.tool.safety
    return before if same else now
