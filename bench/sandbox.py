"""Sandbox: starting a program in a jail, and through the `bash` tool, against starting it bare."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

from bench.measure import ratio, repeated
from bench.table import Row
from surehand import Runtime, Unavailable
from surehand.builtin.shell.tools import shell
from surehand.sandbox import bubblewrap
from surehand.sandbox.child_process import ChildProcess
from surehand.sandbox.sandbox import UNPROTECTED

_TOLD = "for information"


async def sandbox(*, rounds: int = 15, count: int = 20) -> list[Row]:
    """One `true` after the other."""
    try:
        bubblewrap.check_bubblewrap()
    except Unavailable as error:
        return [Row("start of a sandboxed program / of a bare one", None, note=str(error))]
    with tempfile.TemporaryDirectory(prefix="surehand-bench-") as folder:
        root = Path(folder)
        async with Runtime(*shell(root)) as jailed, Runtime(*shell(root, sandbox=UNPROTECTED)) as free:
            alone, bash = repeated(_bare, count=count), repeated(_bare, "bash", "-c", count=count)
            started = await ratio(repeated(_child, root, count=count), alone, rounds=rounds)
            called = await ratio(repeated(jailed.call, "bash", _TRUE, count=count), bash, rounds=rounds)
            bare = await ratio(repeated(free.call, "bash", _TRUE, count=count), bash, rounds=rounds)
    return [
        Row("start of a sandboxed `true` / of a bare one", started, note=_TOLD),
        Row("a call of `bash` with `true` / bare `bash -c true`", called, note=_TOLD),
        Row("a call of `bash` with `true`, unprotected / bare `bash -c true`", bare, note=_TOLD),
    ]


_TRUE = {"command": "true"}


async def _bare(*before: str) -> None:
    process = await asyncio.create_subprocess_exec(*before, "true", stdin=-3, stdout=-1, stderr=-1)
    await process.communicate()


async def _child(root: Path) -> None:
    shown = [bubblewrap.PathMount(root, writable=True)]
    async with await ChildProcess.start(["true"], cwd=root, folders=shown) as child:
        await child.stdout.read()
        await child.wait()


if __name__ == "__main__":
    from bench.table import table

    print(table(asyncio.run(sandbox(rounds=5))))
