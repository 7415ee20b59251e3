"""Finding: one thing that was looked at, how it is, and what to do about it."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from rich.table import Table
from rich.text import Text

from surehand.cli.screen import console, line
from surehand.core.sanitize import escape_unprintable

Mark: TypeAlias = Literal["ok", "warn", "fail"]
_STYLES = {"ok": "green", "warn": "yellow", "fail": "bold red"}


@dataclass(frozen=True, slots=True)
class Finding:
    """How something is."""

    about: str
    mark: Mark
    told: str
    fix: str = ""
    more: Mapping[str, Any] = field(default_factory=dict)
    """For programs."""

    def as_json(self) -> dict[str, Any]:
        """For a program."""
        return {"about": self.about, "mark": self.mark, "told": self.told, "fix": self.fix, **self.more}


def write_lines(findings: Iterable[Finding]) -> None:
    """For a program: a line each."""
    sys.stdout.writelines(line(finding.as_json()) for finding in findings)


def show(findings: Iterable[Finding]) -> None:
    """For a person: a line each, and below it what to do."""
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column()
    table.add_column(overflow="fold", max_width=28)
    table.add_column(overflow="fold", ratio=1)
    for finding in findings:
        told = Text(escape_unprintable(finding.told))
        if finding.fix:
            hint = finding.fix if finding.mark == "ok" else f"fix: {finding.fix}"
            told.append(f"\n{escape_unprintable(hint)}", style="bold" if finding.mark == "fail" else "dim")
        table.add_row(Text(finding.mark, style=_STYLES[finding.mark]), Text(escape_unprintable(finding.about)), told)
    console().print(table)
