"""Runs one command in a sandbox and returns its output."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from surehand.sandbox.child_process import ChildProcess
from tests.sandbox.conftest import Place


@dataclass(frozen=True)
class CommandOutput:
    code: int
    out: str
    err: str


async def run_in_sandbox(place: Place, command: str, **options: Any) -> CommandOutput:
    """Run a command in the writable workspace."""
    options = {"folders": place.workspace.roots, "cwd": place.root, **options}
    async with await ChildProcess.start(["bash", "-c", "--", command], **options) as child:
        out, err = await child.stdout.read(), await child.stderr.read()
        return CommandOutput(await child.wait(), out.decode(errors="replace"), err.decode(errors="replace"))
