"""Shows how a pinned tool definition differs from the current one: as a diff for people, as JSON for programs."""

from __future__ import annotations

from typing import Any

from rich.text import Text

from surehand.cli.formatting import render_preview
from surehand.providers.trust.change import DefinitionChange
from surehand.providers.trust.definition_diff import definition_diff, diffs_of_change


def change_to_json(change: DefinitionChange) -> dict[str, Any]:
    """A change as JSON."""
    return {
        "server": change.namespace, "tool": change.tool, "sha256": change.sha256, "summary": change.summary,
        "seen": change.first_seen, "old": change.old, "new": change.new, "diff": definition_diff(change),
    }  # fmt: skip


def render_change(change: DefinitionChange) -> Text:
    """A whole change for a person, however long, with invisible characters escaped."""
    first, *further = diffs_of_change(change)
    patches = [_render_diff(change.summary, first), *(_render_diff("", each) for each in further)]
    return Text("\n").join([*patches, Text(f"sha256 {change.sha256}", style="dim")])


def _render_diff(heading: str, patch: str) -> Text:
    rendered = render_preview({"type": "diff", "filePath": heading, "patch": patch})
    return rendered if heading else rendered[1:]
