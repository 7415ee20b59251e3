"""Requirements of some tests on the machine. A test whose requirement is missing is skipped, or fails in CI."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from surehand.core.errors import ToolError
from surehand.sandbox import bubblewrap
from tests import node_packages

NO_SKIPS_VARIABLE = "SUREHAND_NO_SKIPS"
"""Environment variable: if it is 1, a missing requirement fails the tests."""
CLIENTS = Path(__file__).parents[1] / ".clients"
OPENAPI_DOCUMENTS = Path(__file__).parents[1] / ".openapi"
WEIGHTS = Path(__file__).parents[1] / ".weights"
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
INSPECTOR = node_packages.PACKAGES / "@modelcontextprotocol/inspector/clients/launcher/build/index.js"


def needs(requirement: str) -> pytest.MarkDecorator:
    """A mark that skips a test if the requirement is missing."""
    reason = _missing_reason(requirement)
    if reason and os.environ.get(NO_SKIPS_VARIABLE) == "1":
        pytest.fail(f"{requirement} is missing, and {NO_SKIPS_VARIABLE}=1: {reason}", pytrace=False)
    return pytest.mark.skipif(bool(reason), reason=f"NOT RUN: {reason}")


@cache
def _missing_reason(requirement: str) -> str:
    """Why the requirement is missing; empty if it is met."""
    return _CHECK_BY_REQUIREMENT[requirement]()


def _check_clients() -> str:
    installed = [folder / "installed-pins" for folder in (CLIENTS / "newer", CLIENTS / "older")]
    return "" if all(map(Path.exists, installed)) else "scripts/clients has not installed the other MCP clients"


def _check_openapi_documents() -> str:
    is_installed = (OPENAPI_DOCUMENTS / "installed-pins").exists()
    return "" if is_installed else "scripts/openapi-corpus --install has not installed the public documents"


def _check_weights() -> str:
    return "" if (WEIGHTS / "installed-pins").exists() else "scripts/weights has not installed the language model"


def _check_inspector() -> str:
    return node_packages.missing_reason() or (
        "" if INSPECTOR.exists() else "scripts/node has not installed the Inspector"
    )


def _check_bubblewrap() -> str:
    try:
        bubblewrap.check_bubblewrap()
    except ToolError as error:
        return str(error)
    return ""


def _check_chromium() -> str:
    return "" if CHROMIUM else "scripts/system has not installed Chromium"


def _check_python() -> str:
    return "" if shutil.which("python3", path="/usr/bin:/usr/local/bin") else "no python3 in /usr"


def _check_root() -> str:
    return "" if os.geteuid() == 0 and shutil.which("setpriv") else "only root can become another user"


_CHECK_BY_REQUIREMENT: dict[str, Callable[[], str]] = {
    "bubblewrap": _check_bubblewrap,
    "chromium": _check_chromium,
    "clients": _check_clients,
    "inspector": _check_inspector,
    "openapi documents": _check_openapi_documents,
    "node servers": node_packages.missing_reason,
    "python in /usr": _check_python,
    "root": _check_root,
    "weights": _check_weights,
}
