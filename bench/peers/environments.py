"""Installs each peer library into a virtual environment of its own, and measures it there."""

from __future__ import annotations

import json
import subprocess
import sys
import venv
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from bench.openapi_document import LABEL
from bench.table import Row

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / ".bench"
PEER_TIMEOUT_SECONDS = 600.0
PEERS = (
    "pydantic-ai-slim",
    "openai-agents",
    "langchain-core",
    "langgraph",
    "fastmcp",
    "agent-framework-core",
    "google-adk",
    "strands-agents",
)
"""Names of the distributions; the script that measures one has the same name with underscores."""
OPENAPI_PEERS = ("fastmcp", "google-adk")
"""Distributions that import OpenAPI documents; the script that measures one ends in `_openapi`."""
AGENT_PEERS = ("pydantic-ai-slim", "openai-agents", "langgraph")
"""Distributions with agents; the script that measures one ends in `_agent`."""


def measure_peers(names: tuple[str, ...] = PEERS) -> list[Row]:
    """One row per peer, slowest last; the note of a peer that cannot be measured says why."""
    return _slowest_last(_measure_peer(name, script_name(name)) for name in names)


def measure_peer_imports(names: tuple[str, ...] = OPENAPI_PEERS) -> list[Row]:
    """One row per peer that imports GitHub's OpenAPI document, slowest last."""
    rows = (_measure_peer(name, f"{script_name(name)}_openapi") for name in names)
    return _slowest_last(replace(row, what=f"{row.what}: {LABEL}") for row in rows)


def measure_peer_agents(names: tuple[str, ...] = AGENT_PEERS) -> list[Row]:
    """One row per peer that runs the same agent on the same replies, slowest last."""
    rows = (_measure_peer(name, f"{script_name(name)}_agent") for name in names)
    return _slowest_last(replace(row, what=f"{row.what} / the same loop by hand") for row in rows)


def script_name(name: str) -> str:
    """The name of the script that measures a distribution."""
    return name.replace("-", "_")


def _slowest_last(rows: Iterable[Row]) -> list[Row]:
    return sorted(rows, key=lambda row: (row.measured is None, row.measured or 0.0))


def _measure_peer(name: str, script: str) -> Row:
    print(f"Measuring {script} ...", file=sys.stderr)
    try:
        report = json.loads(_run_peer_script(environment(name), script).splitlines()[-1])
    except subprocess.CalledProcessError as error:
        return Row(name, None, note=_last_line(error.stderr))
    except (subprocess.TimeoutExpired, IndexError, ValueError):
        return Row(name, None, note="its script printed no result")
    return Row(f"{name} {report['version']}: {report['path']}", report["ratio"], note="for information")


def environment(name: str) -> Path:
    """Python of the peer's environment, which is installed on first use. Remove its folder to get newer versions."""
    folder = FOLDER / name
    python = folder / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")
    if not (folder / "installed").exists():
        venv.create(folder, clear=True, with_pip=True)
        _run(python, "-m", "pip", "install", "-q", "--disable-pip-version-check", name, seconds=600)
        (folder / "installed").touch()
    return python


def _run_peer_script(python: Path, script: str) -> str:
    return _run(python, "-W", "ignore", "-m", f"bench.peers.{script}", seconds=PEER_TIMEOUT_SECONDS)


def _run(python: Path, *arguments: str, seconds: float) -> str:
    command = [str(python), *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=seconds, check=True).stdout


def _last_line(text: str) -> str:
    """The last line of an error output, with paths relative to the project."""
    line = next(reversed(text.strip().splitlines()), "it failed without a message")
    return line.replace(str(ROOT), ".").replace("|", "/")[:120]
