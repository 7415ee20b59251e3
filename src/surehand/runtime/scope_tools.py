"""Scope tools: which tools the calls of a scope can use, and how a model is told about them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from surehand.core.names import qualified_name
from surehand.core.provider_abilities import AddedProvider

if TYPE_CHECKING:
    from surehand.catalogue.catalogue import Catalogue
    from surehand.catalogue.describe import ToolDescriptions
    from surehand.catalogue.listing import Listing
    from surehand.core.call import Principal
    from surehand.runtime.crash_report import CrashReport
    from surehand.runtime.offered_tools import OfferedTools
    from surehand.runtime.policy import ActivePolicy
    from surehand.runtime.providers import ProviderTable


@dataclass(frozen=True, slots=True)
class ToolSources:
    """Where the tools of a runtime come from, and what decides about them; the same for all its scopes."""

    catalogue: Catalogue
    offered_tools: OfferedTools
    provider_table: ProviderTable
    policy: ActivePolicy
    workspace: str
    crash_report: CrashReport


@dataclass(frozen=True, slots=True)
class ScopeTools:
    """The tools of one scope: its own, those of its session, and those of the runtime in its toolsets."""

    sources: ToolSources
    principal: Principal
    own_catalogue: Catalogue | None = None
    toolsets: tuple[str, ...] = ()

    def describe(self, format: str, *, toolset: str | None) -> ToolDescriptions:
        """The tool definitions in the format of a model API; the scope's own tools come first."""
        catalogue = self.sources.catalogue
        workspace = self.sources.workspace
        hidden = self.hidden_names() | self._names_outside_toolsets()
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
        catalogue = self.sources.catalogue
        names = [
            qualified_name(added.namespace, name)
            for added in self.sources.provider_table.active
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
        offered = self.sources.offered_tools.table_for(self.principal)
        catalogues = [self.own_catalogue, None if offered is None else offered.catalogue]
        return [catalogue for catalogue in catalogues if catalogue is not None]

    def _names_outside_toolsets(self) -> frozenset[str]:
        """Names of the runtime's tools that this scope's toolsets forbid."""
        if not self.toolsets:
            return frozenset()
        catalogue = self.sources.catalogue
        return frozenset(each.name for each in catalogue if not catalogue.is_in_toolsets(each, self.toolsets))

    def usable_listings(self, *, for_person: bool) -> list[Listing]:
        """The tools that a model, or a person, may call: none that is hidden, forbidden or denied."""
        own = [listing for catalogue in self._own_catalogues() for listing in catalogue]
        return [each for each in [*own, *self.sources.catalogue] if self.may_use(each, for_person=for_person)]

    def may_use(self, listing: Listing, *, for_person: bool) -> bool:
        """Whether a model, or a person, may call a tool: false if it is hidden, forbidden or denied."""
        catalogue = self.sources.catalogue
        if (listing.tool.audience == "user" and not for_person) or self.sources.policy.current.always_denies(listing):
            return False
        if catalogue.find(listing.name) is not listing:  # the scope's or session's own
            return True
        per_user = listing.abilities.per_user
        if per_user is not None and per_user.is_hidden_from(self.principal, listing.tool.name):
            return False
        return catalogue.is_in_toolsets(listing, self.toolsets)

    def hidden_names(self) -> frozenset[str]:
        """Names of the tools that their providers hide from this scope's user."""
        if not any(added.abilities.per_user is not None for added in self.sources.provider_table.active):
            return frozenset()
        return frozenset(
            listing.name
            for listing in self.sources.catalogue
            if (per_user := listing.abilities.per_user) is not None
            and per_user.is_hidden_from(self.principal, listing.tool.name)
        )

    def find(self, name: str) -> Listing | None:
        """Find a tool by name: the scope's own tools come before the runtime's, and these before the session's."""
        own = self.own_catalogue.find(name) if self.own_catalogue is not None else None
        return own or self.sources.catalogue.find(name) or self.find_session_tool(name)

    def find_session_tool(self, name: str) -> Listing | None:
        """Find a tool that the session of this scope offers."""
        return self.sources.offered_tools.find(name, self.principal)

    def instructions(self) -> str:
        """The instructions of all providers for the model, combined."""
        listings = self.sources.catalogue
        known = [AddedProvider(each.provider, each.abilities) for each in listings if each.provider is not None]
        providers = {id(each.provider): each for each in [*known, *self.sources.provider_table.active]}
        sections = [(added.namespace, self._provider_instructions(added)) for added in providers.values()]
        return "\n\n".join(f"## {name}\n{text}" if name else text for name, text in sections if text)

    def _provider_instructions(self, added: AddedProvider) -> str:
        """A provider's own instructions, and a note if its tools are unavailable."""
        instructive = added.abilities.instructive
        own = "" if instructive is None else instructive.instructions(self.principal).strip()
        reason = self.sources.provider_table.unavailable.get(added.namespace)
        note = f"Its tools are not available now: {reason}" if reason else ""
        return self.sources.crash_report.redact("\n\n".join(part for part in (own, note) if part))


def _join_descriptions(first: ToolDescriptions, second: ToolDescriptions) -> ToolDescriptions:
    """Append the descriptions of more tools to the first ones."""
    first.extend(second)
    first.left_out.update(second.left_out)
    return first
