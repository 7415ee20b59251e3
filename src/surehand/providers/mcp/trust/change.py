"""Change: a definition that is not the one that was pinned."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from surehand.core.sanitize import escape_as_json
from surehand.providers.mcp.trust.fingerprint import PARTS, canonical_json
from surehand.providers.mcp.trust.said import INSTRUCTIONS, PROMPTS


@dataclass(frozen=True, slots=True)
class Change:
    """What was pinned, and what the server says now."""

    server: str
    tool: str | None
    """None where the server itself is another one: then it is a change of all its tools at once."""
    old: Mapping[str, Any]
    """The definition that is pinned, empty if there is none; of a server its `identity`, and `tools` by name."""
    new: Mapping[str, Any]
    """The same as it is now."""
    sha256: str
    """Of what is new: whoever accepts it names it, so that nobody accepts what one has not seen."""
    summary: str
    """One line: which parts have changed."""
    seen: str | None = None
    """The day on which it was first seen."""

    @property
    def name(self) -> str:
        """`server/tool`, or the server alone."""
        return named(self.server, self.tool)


def named(server: str, tool: str | None) -> str:
    """What people call a tool of a server, or the server."""
    return server if tool is None else f"{server}/{tool}"


def shown_name(server: str, tool: str | None) -> str:
    """The same for a log or an error: the server chose its tools' names, and they may hold anything."""
    shown = escape_as_json(named(server, tool))
    return shown if len(shown) <= 200 else f"{shown[:200]}..."


def told(old: Mapping[str, Any], new: Mapping[str, Any]) -> str:
    """Which parts of a definition have changed."""
    if not old:
        return "not pinned"
    groups = {
        "changed": [part for part in PARTS if part in old and part in new and _differ(old[part], new[part])],
        "added": [part for part in PARTS if part in new and part not in old],
        "removed": [part for part in PARTS if part in old and part not in new],
    }
    spelled = {how: [_spelled(part, new) for part in parts] for how, parts in groups.items()}
    return ", ".join(f"{_listed(parts)} {how}" for how, parts in spelled.items() if parts)


def _spelled(part: str, new: Mapping[str, Any]) -> str:
    return {INSTRUCTIONS: "instructions", PROMPTS: "prompts"}.get(str(new.get("name")), part)


def _differ(old: Any, new: Any) -> bool:
    """As JSON: to Python, true is 1."""
    return canonical_json(old) != canonical_json(new)


def _listed(names: Iterable[str]) -> str:
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last
