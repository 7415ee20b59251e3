"""A process that starts commands and is then killed: `python parent.py <folder> <word> <sandbox|unprotected>`."""

import asyncio
import sys
from pathlib import Path

from surehand.sandbox import bubblewrap
from surehand.sandbox.child_process import ChildProcess
from surehand.sandbox.sandbox import UNPROTECTED, Sandbox
from tests.sandbox.remains import HOSTILE


async def main(folder: str, word: str, kind: str) -> None:
    bubblewrap.check_bubblewrap()
    shown = [bubblewrap.PathMount(Path(folder), writable=True)]
    sandbox = Sandbox() if kind == "sandbox" else UNPROTECTED
    print("waiting", flush=True)
    sys.stdin.readline()
    command = ["bash", "-c", HOSTILE.format(word=word)]
    starts = (ChildProcess.start(command, cwd=folder, folders=shown, sandbox=sandbox) for _ in range(3))
    for child in await asyncio.gather(*starts):
        await child.stdout.readline()
    print("started", flush=True)
    await asyncio.sleep(60)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
