"""Benchmark of `grep` and `glob` over many files, compared with ripgrep alone."""

from __future__ import annotations

import asyncio
import random
import subprocess
import tempfile
from pathlib import Path
from time import perf_counter
from typing import Any

from bench.measure import TimedRound, measure_ratio
from bench.table import Row
from surehand import Runtime, Workspace
from surehand.builtin.search import ripgrep
from surehand.builtin.search.search_scope import MAX_FILE_BYTES
from surehand.builtin.search.tools import search_tools

NEEDLE = "the one line in a thousand files"
_WORDS = ("alpha", "beta", "gamma", "delta", "import", "return", "class", "value", "stream", "future", "(x)", "=")
_GITIGNORE = "*.pyc\nnode_modules/\nbuild/\n/dist\n.cache\n"


async def measure_search(*, rounds: int = 9, count: int = 50_000) -> list[Row]:
    """Compare both tools with ripgrep on one tree, with the same rules: no file over 50 MB, and names newest first."""
    names = (f"grep in {count:,} files / ripgrep", f"glob in {count:,} files, newest first / ripgrep")
    if not ripgrep.is_available():
        return [Row(name, None, note="ripgrep or its sandbox is not available") for name in names]
    with tempfile.TemporaryDirectory(prefix="surehand-bench-") as folder:
        _write_tree(Path(folder), count)
        async with Runtime(*search_tools(Workspace(folder))) as runtime:
            grep = await measure_ratio(
                _time_tool(runtime, "grep", pattern=NEEDLE, max_matches=200),
                _time_ripgrep(folder, "--line-number", f"--max-filesize={MAX_FILE_BYTES}", "--fixed-strings", NEEDLE),
                rounds=rounds,
            )
            glob = await measure_ratio(
                _time_tool(runtime, "glob", pattern="**/*.py"),
                _time_ripgrep(folder, "--files", "--sortr=modified", "--glob=*.py"),
                rounds=rounds,
            )
    return [Row(names[0], grep, 1.3), Row(names[1], glob, 1.3)]


def _write_tree(root: Path, count: int) -> None:
    """Write folders of fifty files with a few dozen lines each; a quarter of the files are Python."""
    generator = random.Random(1)
    (root / ".gitignore").write_text(_GITIGNORE)
    for number in range(count):
        folder = root / f"package{number // 1000}" / f"module{number // 50 % 20}"
        if number % 50 == 0:
            folder.mkdir(parents=True)
        lines = [" ".join(generator.choices(_WORDS, k=8)) for _ in range(generator.randint(5, 60))]
        lines += [NEEDLE] if number % 1000 == 500 else []
        (folder / f"file{number % 50}.{('py', 'ts', 'md', 'txt')[number % 4]}").write_text("\n".join(lines))


def _time_tool(runtime: Runtime, name: str, **arguments: Any) -> TimedRound:
    async def run_round() -> float:
        started_at = perf_counter()
        (await runtime.call(name, arguments)).unwrap()
        return perf_counter() - started_at

    return run_round


def _time_ripgrep(folder: str, *options: str) -> TimedRound:
    command = [ripgrep.find_program() or "", "--no-config", "--no-require-git", *options, "./"]

    async def run_round() -> float:
        started_at = perf_counter()
        subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, check=True)  # noqa: ASYNC221 - nothing else runs
        return perf_counter() - started_at

    return run_round


if __name__ == "__main__":
    from bench.table import format_table

    print(format_table(asyncio.run(measure_search(rounds=9))))
