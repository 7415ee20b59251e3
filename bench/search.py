"""Search: our search tools over many files, against ripgrep doing the same by itself."""

from __future__ import annotations

import asyncio
import random
import subprocess
import tempfile
from pathlib import Path
from time import perf_counter
from typing import Any

from bench.measure import Timed, ratio
from bench.table import Row
from surehand import Runtime, Workspace
from surehand.builtin.search import ripgrep
from surehand.builtin.search.search_scope import MAX_FILE_BYTES
from surehand.builtin.search.tools import search_tools

NEEDLE = "the one line in a thousand files"
_WORDS = ("alpha", "beta", "gamma", "delta", "import", "return", "class", "value", "stream", "future", "(x)", "=")
_IGNORED = "*.pyc\nnode_modules/\nbuild/\n/dist\n.cache\n"


async def search(*, rounds: int = 9, count: int = 50_000) -> list[Row]:
    """A tree is made once. Ripgrep is asked the same: no file over 50 MB is searched, and names come newest first."""
    names = (f"grep in {count:,} files / ripgrep", f"glob in {count:,} files, newest first / ripgrep")
    if not ripgrep.is_available():
        return [Row(name, None, note="there is no ripgrep, or no sandbox for it") for name in names]
    with tempfile.TemporaryDirectory(prefix="surehand-bench-") as folder:
        _grow(Path(folder), count)
        async with Runtime(*search_tools(Workspace(folder))) as runtime:
            grep = await ratio(
                _tool(runtime, "grep", pattern=NEEDLE, max_matches=200),
                _alone(folder, "--line-number", f"--max-filesize={MAX_FILE_BYTES}", "--fixed-strings", NEEDLE),
                rounds=rounds,
            )
            glob = await ratio(
                _tool(runtime, "glob", pattern="**/*.py"),
                _alone(folder, "--files", "--sortr=modified", "--glob=*.py"),
                rounds=rounds,
            )
    return [Row(names[0], grep, 1.3), Row(names[1], glob, 1.3)]


def _grow(root: Path, count: int) -> None:
    """Folders of fifty files of some dozens of lines; a quarter of them are Python."""
    chance = random.Random(1)
    (root / ".gitignore").write_text(_IGNORED)
    for number in range(count):
        folder = root / f"package{number // 1000}" / f"module{number // 50 % 20}"
        if number % 50 == 0:
            folder.mkdir(parents=True)
        lines = [" ".join(chance.choices(_WORDS, k=8)) for _ in range(chance.randint(5, 60))]
        lines += [NEEDLE] if number % 1000 == 500 else []
        (folder / f"file{number % 50}.{('py', 'ts', 'md', 'txt')[number % 4]}").write_text("\n".join(lines))


def _tool(runtime: Runtime, name: str, **arguments: Any) -> Timed:
    async def timed() -> float:
        began = perf_counter()
        (await runtime.call(name, arguments)).unwrap()
        return perf_counter() - began

    return timed


def _alone(folder: str, *options: str) -> Timed:
    command = [ripgrep.find_program() or "", "--no-config", "--no-require-git", *options, "./"]

    async def timed() -> float:
        began = perf_counter()
        subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, check=True)  # noqa: ASYNC221 - nothing else runs
        return perf_counter() - began

    return timed


if __name__ == "__main__":
    from bench.table import table

    print(table(asyncio.run(search(rounds=9))))
