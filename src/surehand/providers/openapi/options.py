"""`OpenApiOptions`: what a developer says about a document beside the document itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias

from surehand.core.provider import OnConflict
from surehand.providers.openapi.selection import Selection

Show: TypeAlias = Literal["all", "search", "auto"]
SHOW_CHOICES: tuple[Show, ...] = ("all", "search", "auto")


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenApiOptions:
    """The options of one provider, validated by `openapi(...)`."""

    namespace: str
    selection: Selection = field(default_factory=Selection)
    server: str = ""
    """The base address in place of every server of the document."""
    server_variables: Mapping[str, str] = field(default_factory=dict)
    auth: Mapping[str, Any] = field(default_factory=dict, repr=False)
    given: Mapping[str, Any] = field(default_factory=dict, repr=False)
    show: Show = "auto"
    queue: str | None = None
    timeout: float | None = None
    required: bool = False
    on_conflict: OnConflict = "error"
    lock: Path | None = None
    frozen: bool = False
    trusted_hosts: frozenset[str] = frozenset()
    """Hosts beside its own that a fetched document may send secrets to."""

    @property
    def token_urls(self) -> list[str]:
        """The token endpoints that the developer gives in place of those of the document."""
        return [
            str(each["token_url"]) for each in self.auth.values() if isinstance(each, Mapping) and "token_url" in each
        ]
