"""A listing: a tool in the catalogue, with its full name, its wire name and its provider."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from surehand.core.provider import Provider
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

    @property
    def kind(self) -> str:
        """The kind of the provider, or of the tool if it has no provider."""
        return self.provider.kind if self.provider else self.tool.kind

    @property
    def policy_effects(self) -> frozenset[str]:
        """The effects that the policy looks at: `write` and `network` for a remote tool that declares none."""
        if self.tool.effects or self.kind not in ("mcp", "rest"):
            return self.tool.safety.policy_effects
        return frozenset({"write", "network"})

    @property
    def is_shown_to_model(self) -> bool:
        """Whether the tool is described to models."""
        return self.tool.presentation.audience != "user" and self.tool.presentation.listed
