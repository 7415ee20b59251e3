"""Environments: each peer is installed into a virtual environment of its own, and measured there."""

from __future__ import annotations

import json
import subprocess
import sys
import venv
from pathlib import Path

from bench.table import Row

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / ".bench"
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
"""By the name that they are installed by; the script of each has that name too."""


def peers(names: tuple[str, ...] = PEERS) -> list[Row]:
    """A row for each peer, slowest last; those that cannot be measured here say why."""
    return sorted(map(_row, names), key=lambda row: (row.measured is None, row.measured or 0.0))


def _row(name: str) -> Row:
    print(f"Measuring {name} ...", file=sys.stderr)
    try:
        told = json.loads(_measured(environment(name), name).splitlines()[-1])
    except subprocess.CalledProcessError as error:
        return Row(name, None, note=_last_line(error.stderr))
    except (subprocess.TimeoutExpired, IndexError, ValueError):
        return Row(name, None, note="its script did not answer")
    return Row(f"{name} {told['version']}: {told['path']}", told["ratio"], note="for information")


def environment(name: str) -> Path:
    """The environment's own Python. Once installed, an environment is kept; remove its folder for newer versions."""
    folder = FOLDER / name
    python = folder / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")
    if not (folder / "installed").exists():
        venv.create(folder, clear=True, with_pip=True)
        _run(python, "-m", "pip", "install", "-q", "--disable-pip-version-check", name, seconds=600)
        (folder / "installed").touch()
    return python


def _measured(python: Path, name: str) -> str:
    return _run(python, "-W", "ignore", "-m", f"bench.peers.{name.replace('-', '_')}", seconds=120)


def _run(python: Path, *arguments: str, seconds: float) -> str:
    command = [str(python), *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=seconds, check=True).stdout


def _last_line(text: str) -> str:
    """Without the folder that the project lies in."""
    line = next(reversed(text.strip().splitlines()), "it failed without a word")
    return line.replace(str(ROOT), ".").replace("|", "/")[:120]
