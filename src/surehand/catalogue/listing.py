"""Listing: a tool as the catalogue knows it, with its full name and the provider that stands behind it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from surehand.core.provider import Provider
from surehand.core.tool import Tool


@dataclass(frozen=True, slots=True, eq=False)
class Listing:
    """A tool and where it comes from."""

    name: str
    """`namespace__tool`, or the tool's own name where there is no namespace."""
    tool: Tool[..., Any]
    provider: Provider | None
    namespace: str
    wire_name: str
    """The name that model APIs are shown: at most 64 characters."""

    @property
    def kind(self) -> str:
        """What does the work."""
        return self.provider.kind if self.provider else self.tool.kind

    @property
    def policy_effects(self) -> frozenset[str]:
        """What policy looks at. A remote tool that declares nothing may do anything that a remote tool can."""
        if self.tool.effects or self.kind not in ("mcp", "rest"):
            return self.tool.safety.policy_effects
        return frozenset({"write", "network"})

    @property
    def is_shown_to_model(self) -> bool:
        """Whether a model is told of it."""
        return self.tool.presentation.audience != "user" and self.tool.presentation.listed
