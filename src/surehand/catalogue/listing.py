"""A listing: a tool in the catalogue, with its full name, its wire name and its provider."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from surehand.core.names import qualified_name
from surehand.core.provider import Provider
from surehand.core.provider_abilities import NO_ABILITIES, ProviderAbilities
from surehand.core.tool import Tool


@dataclass(frozen=True, slots=True, eq=False)
class Listing:
    """A tool in the catalogue."""

    name: str
    """The full name: `namespace__tool`, or the tool's own name if it has no namespace."""
    tool: Tool[..., Any]
    provider: Provider | None
    namespace: str
    wire_name: str
    """The name for model APIs, of at most 64 characters."""
    abilities: ProviderAbilities = NO_ABILITIES
    """What the provider supports beside `tools` and `invoke`."""

    @property
    def kind(self) -> str:
        """The kind of the provider, or of the tool if it has no provider."""
        return self.provider.kind if self.provider else self.tool.kind

    @property
    def names(self) -> frozenset[str]:
        """Every name of the tool: those that it can be called by, and those that it had before it was renamed."""
        tool = self.tool
        earlier = {*tool.other_names, tool.given_name} - {""}
        return frozenset(
            {self.name, self.wire_name, *tool.aliases, *(qualified_name(self.namespace, name) for name in earlier)}
        )

    @property
    def wanted_name(self) -> str:
        """The name that the tool would have if no other tool had it already."""
        return qualified_name(self.namespace, self.tool.name)

    @property
    def policy_effects(self) -> frozenset[str]:
        """The effects that the policy looks at, with those that a call may have besides."""
        return self.required_effects | self.tool.safety.optional_effects

    @property
    def required_effects(self) -> frozenset[str]:
        """The effects that every call has: `write` for a remote tool that declares none."""
        if self.tool.effects or self.kind not in ("mcp", "rest"):
            return self.tool.safety.required_effects
        # A server that says nothing about a tool may do anything: the policy then asks.
        return frozenset({"write"})

    def without_annotations(self) -> Listing:
        """The listing with the effects that hold if a remote server's annotations are not believed."""
        safety = self.tool.safety
        if safety.distrusted_effects is None:
            return self
        cautious = replace(safety, effects=safety.distrusted_effects, distrusted_effects=None, repeatable=False)
        limits = replace(self.tool.limits, retries=0)
        tool = self.tool.evolve(safety=cautious, limits=limits)
        tool.keep_definition_digest(self.tool)  # approvals compare it with that of the tool in the catalogue
        return replace(self, tool=tool)

    @property
    def is_shown_to_model(self) -> bool:
        """Whether the tool is described to models."""
        return self.tool.presentation.audience != "user" and self.tool.presentation.listed
