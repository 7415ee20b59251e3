"""Change: a definition that is not the one that was pinned."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from surehand.core.sanitize import escape_as_json
from surehand.providers.trust.fingerprint import PINNED_FIELDS, canonical_json
from surehand.providers.trust.instructions import INSTRUCTIONS_NAME, PROMPTS_NAME


@dataclass(frozen=True, slots=True)
class DefinitionChange:
    """What was pinned, and what the server says now."""

    namespace: str
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
    first_seen: str | None = None
    """The day on which it was first seen."""

    @property
    def name(self) -> str:
        """`server/tool`, or the server alone."""
        return display_name(self.namespace, self.tool)


def display_name(namespace: str, tool: str | None) -> str:
    """What people call a tool of a server, or the server."""
    return namespace if tool is None else f"{namespace}/{tool}"


def escaped_display_name(namespace: str, tool: str | None) -> str:
    """The same for a log or an error: the server chose its tools' names, and they may hold anything."""
    shown = escape_as_json(display_name(namespace, tool))
    return shown if len(shown) <= 200 else f"{shown[:200]}..."


def describe_change(old: Mapping[str, Any], new: Mapping[str, Any]) -> str:
    """Which parts of a definition have changed."""
    if not old:
        return "not pinned"
    groups = {
        "changed": [
            part for part in PINNED_FIELDS if part in old and part in new and _differ_as_json(old[part], new[part])
        ],
        "added": [part for part in PINNED_FIELDS if part in new and part not in old],
        "removed": [part for part in PINNED_FIELDS if part in old and part not in new],
    }
    spelled = {how: [_field_label(part, new) for part in parts] for how, parts in groups.items()}
    return ", ".join(f"{_join_names(parts)} {how}" for how, parts in spelled.items() if parts)


def _field_label(field_name: str, new: Mapping[str, Any]) -> str:
    return {INSTRUCTIONS_NAME: "instructions", PROMPTS_NAME: "prompts"}.get(str(new.get("name")), field_name)


def _differ_as_json(old: Any, new: Any) -> bool:
    """As JSON: to Python, true is 1."""
    return canonical_json(old) != canonical_json(new)


def _join_names(names: Iterable[str]) -> str:
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last
