"""Scope tools: which tools the calls of a scope can use, what a model is told of them, and their standing approvals."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from surehand.catalogue.catalogue import Catalogue
from surehand.core.names import qualified_name
from surehand.core.provider_abilities import AddedProvider
from surehand.runtime.scope_view import ScopeView

if TYPE_CHECKING:
    from surehand.catalogue.describe import ToolDescriptions
    from surehand.catalogue.listing import Listing
    from surehand.core.tool import Tool
    from surehand.store.tables.grants import Grant


class ScopeTools(ScopeView):
    """The tools of one scope: its own, those of its session, and those of the runtime in its toolsets."""

    own_catalogue: Catalogue | None
    """The tools that this scope and the outer ones have for themselves (`scope(tools=...)`)."""
    toolsets: tuple[str, ...]
    """Toolsets that a tool of the runtime must belong to, each of them, to be called in this scope."""

    def describe(self, format: str = "openai", *, toolset: str | None = None) -> ToolDescriptions:
        """The tool definitions in the format of a model API; the scope's own tools come first."""
        catalogue = self.catalogue
        workspace = self._parts.tool_sources.workspace
        hidden = self.hidden_tool_names() | self._names_outside_toolsets()
        descriptions: ToolDescriptions | None = None
        for own in self._own_catalogues():
            described = own.describe(format, workspace=workspace, hide=hidden)
            hidden |= frozenset(listing.name for listing in own)
            descriptions = described if descriptions is None else _join_descriptions(descriptions, described)
        rest = catalogue.describe(format, toolset=toolset, workspace=workspace, hide=hidden)
        if looked_up := self._looked_up_listings(toolset, hidden):
            from surehand.catalogue.describe import describe_listings  # loaded by `describe` already: it takes 3.6 ms

            rest = _join_descriptions(rest, describe_listings(looked_up, format, workspace=workspace))
        return rest if descriptions is None else _join_descriptions(descriptions, rest)

    def _looked_up_listings(self, toolset: str | None, hidden: frozenset[str]) -> list[Listing]:
        """Tools that are shown only because this session has looked them up, in that order."""
        catalogue = self.catalogue
        names = [
            qualified_name(added.namespace, name)
            for added in self._parts.tool_sources.provider_table.active
            if (searchable := added.abilities.searchable) is not None
            for name in searchable.looked_up_tools(self.principal)
        ]
        found = (catalogue.find(name) for name in names)
        return [
            listing
            for listing in found
            if listing is not None
            and not listing.is_shown_to_model
            and listing.name not in hidden
            and (toolset is None or catalogue.is_in_toolsets(listing, (toolset,)))
        ]

    def _own_catalogues(self) -> list[Catalogue]:
        offered = self._parts.tool_sources.offered_tools.table_for(self.principal)
        catalogues = [self.own_catalogue, None if offered is None else offered.catalogue]
        return [catalogue for catalogue in catalogues if catalogue is not None]

    def _names_outside_toolsets(self) -> frozenset[str]:
        """Names of the runtime's tools that this scope's toolsets forbid."""
        if not self.toolsets:
            return frozenset()
        catalogue = self.catalogue
        return frozenset(each.name for each in catalogue if not catalogue.is_in_toolsets(each, self.toolsets))

    def usable_listings(self, *, for_person: bool = False) -> list[Listing]:
        """The tools that a model, or a person, may call in this scope: none that is hidden, forbidden or denied."""
        own = [listing for catalogue in self._own_catalogues() for listing in catalogue]
        return [each for each in [*own, *self.catalogue] if self.may_use(each, for_person=for_person)]

    def may_use(self, listing: Listing, *, for_person: bool = False) -> bool:
        """Whether a model, or a person, may call a tool in this scope: false if it is hidden, forbidden or denied."""
        catalogue = self.catalogue
        if (listing.tool.audience == "user" and not for_person) or self.policy.always_denies(listing):
            return False
        if catalogue.find(listing.name) is not listing:  # the scope's or session's own
            return True
        per_user = listing.abilities.per_user
        if per_user is not None and per_user.is_hidden_from(self.principal, listing.tool.name):
            return False
        return catalogue.is_in_toolsets(listing, self.toolsets)

    def runs_as_written(self, listing: Listing) -> bool:
        """Whether calls of a tool run as a model wrote them: no policy, person or middleware stops or changes them."""
        tool = listing.tool
        if tool.safety.confirm is not False or tool.lifecycle.middleware:
            return False
        if self._parts.middleware.for_tool(listing.names) or not self.may_use(listing):
            return False
        return all(rule.decision == "allow" for rule in self.policy.rules_for(listing))

    def hidden_tool_names(self) -> frozenset[str]:
        """Names of the tools that their providers hide from this scope's user."""
        if not any(added.abilities.per_user is not None for added in self._parts.tool_sources.provider_table.active):
            return frozenset()
        return frozenset(
            listing.name
            for listing in self.catalogue
            if (per_user := listing.abilities.per_user) is not None
            and per_user.is_hidden_from(self.principal, listing.tool.name)
        )

    def find(self, name: str) -> Listing | None:
        """Find a tool by name: the scope's own tools come before the runtime's, and these before the session's."""
        own = self.own_catalogue.find(name) if self.own_catalogue is not None else None
        return own or self.catalogue.find(name) or self.find_session_tool(name)

    def find_session_tool(self, name: str) -> Listing | None:
        """Find a tool that the session of this scope offers."""
        return self._parts.tool_sources.offered_tools.find(name, self.principal)

    def instructions(self) -> str:
        """The instructions of all providers for the model, combined."""
        listings = self.catalogue
        known = [AddedProvider(each.provider, each.abilities) for each in listings if each.provider is not None]
        providers = {id(each.provider): each for each in [*known, *self._parts.tool_sources.provider_table.active]}
        sections = [(added.namespace, self._provider_instructions(added)) for added in providers.values()]
        return "\n\n".join(f"## {name}\n{text}" if name else text for name, text in sections if text)

    def _provider_instructions(self, added: AddedProvider) -> str:
        """A provider's own instructions, and a note if its tools are unavailable."""
        instructive = added.abilities.instructive
        own = "" if instructive is None else instructive.instructions(self.principal).strip()
        reason = self._parts.tool_sources.provider_table.unavailable.get(added.namespace)
        note = f"Its tools are not available now: {reason}" if reason else ""
        return self._parts.tool_sources.crash_report.redact("\n\n".join(part for part in (own, note) if part))

    async def load_user_tools(self) -> dict[str, str]:
        """Ask the per-user providers for this user's tools, and the store for those that the session offers.

        `describe` cannot ask.

        Returns the namespaces of the providers that failed, each with the reason.
        """
        await self._parts.tool_sources.offered_tools.load_session(self.principal)
        return await self._parts.tool_sources.provider_table.load_user_tools(self.principal)

    async def refresh(self, *namespaces: str) -> None:
        """Ask the providers of the given namespaces, or all, for their tools again. Raises if one is unavailable.

        A scope with a user asks in the name of that user.
        """
        await self._parts.tool_sources.provider_table.refresh(namespaces, self.principal)

    def offer(self, *tools: Tool[..., Any]) -> None:
        """Add tools for this scope's session alone: every scope of the same user and session has them.

        A client registers its own tools so (`tool.client`); an answer to their calls may arrive in any process.
        """
        if self.principal.session is None:
            raise TypeError("Only a scope with a session can offer tools: runtime.scope(session=...).offer(...).")
        self._parts.tool_sources.offered_tools.add(self.principal, tools)

    async def grants(self) -> list[Grant]:
        """The standing approvals of this scope's user, or of all users if the scope has none."""
        store = self.store
        return [] if store is None else await store.grants.list_grants(self.principal.user)

    async def revoke(self, tool: str, *, by: str | None = None) -> bool:
        """Delete the standing approvals of a tool, of this user or of all users; returns False if there were none."""
        listing = self.find(tool)
        store = self.store
        name = tool if listing is None else listing.name
        return store is not None and await store.grants.revoke(name, self.principal.user, by) > 0

    def _narrowed_toolsets(self, toolset: str | None) -> tuple[str, ...]:
        """The toolsets of this scope and one more; raises `KeyError` for an unknown one."""
        if toolset is None or toolset in self.toolsets:
            return self.toolsets
        self.catalogue.toolset(toolset)
        return (*self.toolsets, toolset)

    def _catalogue_with(self, tools: Iterable[Tool[..., Any]] | Catalogue) -> Catalogue | None:
        """The catalogue of this scope's own tools and more tools, which replace those of the same name."""
        if isinstance(tools, Catalogue):  # of an agent, with tools of its providers: it comes in place of the scope's
            return tools
        added = list(tools)
        if not added:
            return self.own_catalogue
        for tool in added:
            tool.require_runner()
        catalogue = self.catalogue.new_empty()
        catalogue.add(*(listing.tool for listing in self.own_catalogue or ()))
        catalogue.add(*added, on_conflict="replace")
        return catalogue


def _join_descriptions(first: ToolDescriptions, second: ToolDescriptions) -> ToolDescriptions:
    """Append the descriptions of more tools to the first ones."""
    first.extend(second)
    first.left_out.update(second.left_out)
    return first
