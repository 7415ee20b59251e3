"""`DefinitionChange`: a definition that differs from its pin, with a summary for people. Used by `surehand lock`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from surehand.core.sanitize import escape_as_json
from surehand.providers.trust.fingerprint import PINNED_FIELDS, canonical_json
from surehand.providers.trust.instructions import INSTRUCTIONS_NAME, PROMPTS_NAME


@dataclass(frozen=True, slots=True)
class DefinitionChange:
    """A pinned definition and the one that the provider lists now."""

    namespace: str
    """The namespace of the provider."""
    tool: str | None
    """None if the provider has another identity; then it is a change of all its tools at once."""
    old: Mapping[str, Any]
    """The pinned definition, empty if there is none; for a provider its `identity`, and `tools` by name."""
    new: Mapping[str, Any]
    """The current definition, in the same form."""
    sha256: str
    """Hash of the current definition, which is given to accept it: only the reviewed definition can be accepted."""
    summary: str
    """One line that names the changed fields."""
    first_seen: str | None = None
    """The day on which this definition was first listed."""

    @property
    def name(self) -> str:
        """`namespace/tool`, or the namespace alone."""
        return display_name(self.namespace, self.tool)


def display_name(namespace: str, tool: str | None) -> str:
    """The name of a tool, or of a whole provider, in `surehand lock`."""
    return namespace if tool is None else f"{namespace}/{tool}"


def escaped_display_name(namespace: str, tool: str | None) -> str:
    """The display name for a log or an error, escaped and cut: the server chooses the names of its tools."""
    escaped = escape_as_json(display_name(namespace, tool))
    return escaped if len(escaped) <= 200 else f"{escaped[:200]}..."


def describe_change(old: Mapping[str, Any], new: Mapping[str, Any]) -> str:
    """Name the changed fields of a definition: `description and inputSchema changed, title added`."""
    if not old:
        return "not pinned"
    common = [field for field in PINNED_FIELDS if field in old and field in new]
    fields_by_change = {
        "changed": [field for field in common if _differ_as_json(old[field], new[field])],
        "added": [field for field in PINNED_FIELDS if field in new and field not in old],
        "removed": [field for field in PINNED_FIELDS if field in old and field not in new],
    }
    labels = {change: [_field_label(field, new) for field in fields] for change, fields in fields_by_change.items()}
    return ", ".join(f"{_join_names(names)} {change}" for change, names in labels.items() if names)


def _field_label(field_name: str, new: Mapping[str, Any]) -> str:
    """The field's name; for instructions and prompts, which stand in a field of another name, their own."""
    return {INSTRUCTIONS_NAME: "instructions", PROMPTS_NAME: "prompts"}.get(str(new.get("name")), field_name)


def _differ_as_json(old: Any, new: Any) -> bool:
    """Compare as JSON: in Python `True == 1` and `1 == 1.0`."""
    return canonical_json(old) != canonical_json(new)


def _join_names(names: Iterable[str]) -> str:
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last
