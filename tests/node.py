"""Node, and what `scripts/node` has installed for it: real MCP servers and the official conformance suite."""

from __future__ import annotations

import shutil
from pathlib import Path

FOLDER = Path(__file__).parents[1] / ".node"
PACKAGES = FOLDER / "node_modules"
SUITE = PACKAGES / "@modelcontextprotocol/conformance/dist/index.js"


def node() -> str:
    """The pinned one; where there is none for this machine, its own."""
    return shutil.which("node", path=PACKAGES / ".bin") or shutil.which("node") or "node"


def server(name: str) -> tuple[str, str]:
    """The command that starts a reference server."""
    return node(), str(PACKAGES / f"@modelcontextprotocol/server-{name}/dist/index.js")


def missing() -> str:
    """Why tests cannot use any of it; empty if they can."""
    return "" if (FOLDER / "installed-pins").exists() else "scripts/node has not installed the MCP servers"
