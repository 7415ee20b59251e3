"""Benchmark of starting a program in a sandbox, and through the `bash` tool, compared with starting it directly."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

from bench.measure import measure_ratio, time_calls
from bench.table import Row
from surehand import Runtime, Unavailable
from surehand.builtin.shell.tools import shell
from surehand.sandbox import bubblewrap
from surehand.sandbox.child_process import ChildProcess
from surehand.sandbox.sandbox import UNPROTECTED

_INFORMATION = "for information"


async def measure_sandbox(*, rounds: int = 15, count: int = 20) -> list[Row]:
    """Run `true` repeatedly, one process after the other."""
    try:
        bubblewrap.check_bubblewrap()
    except Unavailable as error:
        return [Row("start of a sandboxed program / of a bare one", None, note=str(error))]
    with tempfile.TemporaryDirectory(prefix="surehand-bench-") as folder:
        root = Path(folder)
        async with Runtime(*shell(root)) as sandboxed, Runtime(*shell(root, sandbox=UNPROTECTED)) as unprotected:
            direct, bash = time_calls(_run_directly, count=count), time_calls(_run_directly, "bash", "-c", count=count)
            started = await measure_ratio(time_calls(_run_in_sandbox, root, count=count), direct, rounds=rounds)
            called = await measure_ratio(
                time_calls(sandboxed.call, "bash", _TRUE_ARGUMENTS, count=count), bash, rounds=rounds
            )
            bare = await measure_ratio(
                time_calls(unprotected.call, "bash", _TRUE_ARGUMENTS, count=count), bash, rounds=rounds
            )
    return [
        Row("start of a sandboxed `true` / of a bare one", started, note=_INFORMATION),
        Row("a call of `bash` with `true` / bare `bash -c true`", called, note=_INFORMATION),
        Row("a call of `bash` with `true`, unprotected / bare `bash -c true`", bare, note=_INFORMATION),
    ]


_TRUE_ARGUMENTS = {"command": "true"}


async def _run_directly(*prefix: str) -> None:
    process = await asyncio.create_subprocess_exec(*prefix, "true", stdin=-3, stdout=-1, stderr=-1)
    await process.communicate()


async def _run_in_sandbox(root: Path) -> None:
    mounts = [bubblewrap.PathMount(root, writable=True)]
    async with await ChildProcess.start(["true"], cwd=root, folders=mounts) as child:
        await child.stdout.read()
        await child.wait()


if __name__ == "__main__":
    from bench.table import format_table

    print(format_table(asyncio.run(measure_sandbox(rounds=5))))
