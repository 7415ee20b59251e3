"""What some tests need of the machine. Where it is missing they are not run, and say so; or they fail, if told to."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from surehand.core.errors import ToolError
from surehand.sandbox import bubblewrap
from tests import node

STRICT = "SUREHAND_NO_SKIPS"
"""Set to 1: what is missing is a failure."""
CLIENTS = Path(__file__).parents[1] / ".clients"
INSPECTOR = node.PACKAGES / "@modelcontextprotocol/inspector/clients/launcher/build/index.js"


def needs(what: str) -> pytest.MarkDecorator:
    """A mark for tests that cannot be run without this."""
    reason = _missing(what)
    if reason and os.environ.get(STRICT) == "1":
        pytest.fail(f"{what} is missing, and {STRICT}=1: {reason}", pytrace=False)
    return pytest.mark.skipif(bool(reason), reason=f"NOT RUN: {reason}")


@cache
def _missing(what: str) -> str:
    """Why it is not there; empty if it is."""
    return _CHECKS[what]()


def _clients() -> str:
    installed = [folder / "installed-pins" for folder in (CLIENTS / "newer", CLIENTS / "older")]
    return "" if all(map(Path.exists, installed)) else "scripts/clients has not installed the other MCP clients"


def _inspector() -> str:
    return node.missing() or ("" if INSPECTOR.exists() else "scripts/node has not installed the Inspector")


def _bubblewrap() -> str:
    try:
        bubblewrap.check_bubblewrap()
    except ToolError as error:
        return str(error)
    return ""


def _python() -> str:
    return "" if shutil.which("python3", path="/usr/bin:/usr/local/bin") else "no python3 in /usr"


def _root() -> str:
    return "" if os.geteuid() == 0 and shutil.which("setpriv") else "only root can become another user"


_CHECKS: dict[str, Callable[[], str]] = {
    "bubblewrap": _bubblewrap,
    "clients": _clients,
    "inspector": _inspector,
    "node servers": node.missing,
    "python in /usr": _python,
    "root": _root,
}
