"""Node and the packages that `scripts/node` installs: MCP reference servers and the official conformance suite."""

from __future__ import annotations

import shutil
from pathlib import Path

FOLDER = Path(__file__).parents[1] / ".node"
PACKAGES = FOLDER / "node_modules"
CONFORMANCE_SUITE = PACKAGES / "@modelcontextprotocol/conformance/dist/index.js"


def node_path() -> str:
    """Path of the pinned Node, or of the machine's own if there is no pinned one for it."""
    return shutil.which("node", path=PACKAGES / ".bin") or shutil.which("node") or "node"


def server_command(name: str) -> tuple[str, str]:
    """The command that starts an MCP reference server."""
    return node_path(), str(PACKAGES / f"@modelcontextprotocol/server-{name}/dist/index.js")


def missing_reason() -> str:
    """Why the packages cannot be used; empty if they can."""
    return "" if (FOLDER / "installed-pins").exists() else "scripts/node has not installed the MCP servers"
