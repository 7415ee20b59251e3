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

_NEEDED = re.compile(r"([A-Za-z0-9._-]+)(?:\[[^\]]*\])?[^;]*; *extra *== *['\"]([^'\"]+)['\"]")
_NOT_TOLD = ("all", "dev")


def machine() -> Iterator[Finding]:
    """Versions, extras, sandbox and ripgrep."""
    system = f"{platform.system()} {platform.release()}"
    yield Finding("surehand", "ok", f"{__version__}, Python {platform.python_version()}, {system}")
    yield _extras()
    yield _sandbox()
    yield _ripgrep()


def missing_of(extra: str) -> list[str]:
    """The packages of an extra that are not installed."""
    return [name for name in _extras_and_packages().get(extra, []) if not _is_there(name)]


def _extras() -> Finding:
    known = _extras_and_packages()
    there = [extra for extra in known if not missing_of(extra)]
    absent = [extra for extra in known if extra not in there]
    told = ", ".join(there) or "none"
    if not absent:
        return Finding("extras", "ok", told, more={"installed": there, "missing": []})
    return Finding(
        "extras",
        "ok",
        f"{told}; not installed: {', '.join(absent)}",
        f"pip install 'surehand[{absent[0]}]' installs one of them.",
        {"installed": there, "missing": absent},
    )


def _extras_and_packages() -> dict[str, list[str]]:
    """The packages that belong to each extra."""
    found: dict[str, list[str]] = {}
    try:
        needed = metadata.requires("surehand") or []
    except metadata.PackageNotFoundError:  # it is run from its sources
        return {}
    for match in filter(None, map(_NEEDED.match, needed)):
        if match[2] not in _NOT_TOLD and match[1] != "surehand":
            found.setdefault(match[2], []).append(match[1])
    return found


def _is_there(package: str) -> bool:
    try:
        metadata.version(package)
    except metadata.PackageNotFoundError:
        return False
    return True


def _sandbox() -> Finding:
    try:
        path = bubblewrap.found()
        bubblewrap.checked()
    except (NotStarted, OSError, subprocess.SubprocessError) as error:
        return Finding(
            "sandbox", "warn", str(error), "only what runs commands needs it: `shell`, and servers with one."
        )
    return Finding("sandbox", "ok", f"bubblewrap works ({path})")


def _ripgrep() -> Finding:
    if (path := ripgrep.program()) is not None:
        return Finding("ripgrep", "ok", path)
    return Finding(
        "ripgrep",
        "warn",
        "not found: files are searched without it, which is slower.",
        "pip install 'surehand[files]'.",
    )
