"""Finding: one thing that was looked at, how it is, and what to do about it."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from rich.table import Table
from rich.text import Text

from surehand.cli.screen import create_console, json_line
from surehand.core.sanitize import escape_unprintable

FindingStatus: TypeAlias = Literal["ok", "warn", "fail"]
_STATUS_STYLES = {"ok": "green", "warn": "yellow", "fail": "bold red"}


@dataclass(frozen=True, slots=True)
class Finding:
    """How something is."""

    subject: str
    status: FindingStatus
    message: str
    fix: str = ""
    details: Mapping[str, Any] = field(default_factory=dict)
    """For programs."""

    def to_json(self) -> dict[str, Any]:
        """For a program."""
        return {"about": self.subject, "mark": self.status, "told": self.message, "fix": self.fix, **self.details}


def write_findings(findings: Iterable[Finding]) -> None:
    """For a program: a line each."""
    sys.stdout.writelines(json_line(finding.to_json()) for finding in findings)


def print_findings(findings: Iterable[Finding]) -> None:
    """For a person: a line each, and below it what to do."""
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column()
    table.add_column(overflow="fold", max_width=28)
    table.add_column(overflow="fold", ratio=1)
    for finding in findings:
        told = Text(escape_unprintable(finding.message))
        if finding.fix:
            hint = finding.fix if finding.status == "ok" else f"fix: {finding.fix}"
            told.append(f"\n{escape_unprintable(hint)}", style="bold" if finding.status == "fail" else "dim")
        table.add_row(
            Text(finding.status, style=_STATUS_STYLES[finding.status]), Text(escape_unprintable(finding.subject)), told
        )
    create_console().print(table)
