"""Files: a page of a large file against counting its lines, and an edit against doing it by hand."""

from __future__ import annotations

import asyncio
import os
import tempfile
from pathlib import Path

from bench.measure import once, ratio, repeated
from bench.table import Row
from surehand import Runtime
from surehand import files as file_tools

BLOCK = 1 << 20
LINE = "a line of text, of about as many characters as lines of programs have: {:>12}\n"


async def files(*, rounds: int = 9, megabytes: int = 200, count: int = 10) -> list[Row]:
    """In a folder of its own."""
    with tempfile.TemporaryDirectory(prefix="surehand-bench-") as folder:
        async with Runtime(file_tools(folder)) as runtime:
            paged = await _pages(runtime, Path(folder) / "large.txt", megabytes, rounds)
            edited = await _edits(runtime, Path(folder) / "small.txt", count, rounds)
    return [
        Row(f"a page of a file of {megabytes} MB / counting newlines in blocks", paged, 1.5),
        Row("an edit of a file of 1 MB / reading, replacing and writing it by hand, with the same sync", edited, 2),
    ]


async def _pages(runtime: Runtime, path: Path, megabytes: int, rounds: int) -> float:
    block = "".join(LINE.format(number) for number in range(10_000))
    lines = 0
    with path.open("w") as file:
        while file.tell() < megabytes * 1_000_000:
            file.write(block)
            lines += 10_000
    read = repeated(runtime.call, "read", {"file_path": path.name, "offset": lines // 2}, count=1)
    return await ratio(read, once(lambda: _counted(path)), rounds=rounds)


def _counted(path: Path) -> int:
    lines = 0
    with path.open("rb", buffering=0) as file:
        while block := file.read(BLOCK):
            lines += block.count(b"\n")
    return lines


async def _edits(runtime: Runtime, path: Path, count: int, rounds: int) -> float:
    _write(path)
    texts = [LINE.format(5000), LINE.format("changed")]

    async def tool() -> None:
        outcome = await runtime.call("edit", {"file_path": path.name, "old_string": texts[0], "new_string": texts[1]})
        assert outcome.ok, outcome
        texts.reverse()

    async def by_hand() -> None:
        await asyncio.to_thread(_by_hand, path, *texts)
        texts.reverse()

    return await ratio(repeated(tool, count=count), repeated(by_hand, count=count), rounds=rounds)


def _write(path: Path) -> None:
    path.write_text("".join(LINE.format(number) for number in range(1_000_000 // len(LINE.format(0)))))


def _by_hand(path: Path, old: str, new: str) -> None:
    data = path.read_bytes()
    assert data.count(old.encode()) == 1
    beside = path.with_suffix(".new")
    with beside.open("wb") as file:
        file.write(data.replace(old.encode(), new.encode()))
        file.flush()
        os.fsync(file.fileno())
    beside.rename(path)


if __name__ == "__main__":
    from bench.table import table

    print(table(asyncio.run(files(rounds=5))))
