"""Benchmark of the file tools: a page of a large file against counting its lines, an edit against doing it by hand."""

from __future__ import annotations

import asyncio
import os
import tempfile
from pathlib import Path

from bench.measure import measure_ratio, time_calls, time_function
from bench.table import Row
from surehand import Runtime
from surehand import files as file_tools

BLOCK_BYTES = 1 << 20
LINE = "a line of text, of about as many characters as lines of programs have: {:>12}\n"


async def measure_files(*, rounds: int = 9, megabytes: int = 200, count: int = 10) -> list[Row]:
    """Measure reads and edits in a temporary folder."""
    with tempfile.TemporaryDirectory(prefix="surehand-bench-") as folder:
        async with Runtime(file_tools(folder)) as runtime:
            paged = await _measure_page(runtime, Path(folder) / "large.txt", megabytes, rounds)
            edited = await _measure_edit(runtime, Path(folder) / "small.txt", count, rounds)
    return [
        Row(f"a page of a file of {megabytes} MB / counting newlines in blocks", paged, 1.5),
        Row("an edit of a file of 1 MB / reading, replacing and writing it by hand, with the same sync", edited, 2),
    ]


async def _measure_page(runtime: Runtime, path: Path, megabytes: int, rounds: int) -> float:
    block = "".join(LINE.format(number) for number in range(10_000))
    lines = 0
    with path.open("w") as file:
        while file.tell() < megabytes * 1_000_000:
            file.write(block)
            lines += 10_000
    read = time_calls(runtime.call, "read", {"file_path": path.name, "offset": lines // 2}, count=1)
    return await measure_ratio(read, time_function(lambda: _count_lines(path)), rounds=rounds)


def _count_lines(path: Path) -> int:
    lines = 0
    with path.open("rb", buffering=0) as file:
        while block := file.read(BLOCK_BYTES):
            lines += block.count(b"\n")
    return lines


async def _measure_edit(runtime: Runtime, path: Path, count: int, rounds: int) -> float:
    _write_megabyte(path)
    texts = [LINE.format(5000), LINE.format("changed")]

    async def edit_with_tool() -> None:
        outcome = await runtime.call("edit", {"file_path": path.name, "old_string": texts[0], "new_string": texts[1]})
        assert outcome.ok, outcome
        texts.reverse()

    async def edit_by_hand() -> None:
        await asyncio.to_thread(_edit_by_hand, path, *texts)
        texts.reverse()

    return await measure_ratio(
        time_calls(edit_with_tool, count=count), time_calls(edit_by_hand, count=count), rounds=rounds
    )


def _write_megabyte(path: Path) -> None:
    path.write_text("".join(LINE.format(number) for number in range(1_000_000 // len(LINE.format(0)))))


def _edit_by_hand(path: Path, old: str, new: str) -> None:
    data = path.read_bytes()
    assert data.count(old.encode()) == 1
    new_file = path.with_suffix(".new")
    with new_file.open("wb") as file:
        file.write(data.replace(old.encode(), new.encode()))
        file.flush()
        os.fsync(file.fileno())
    new_file.rename(path)


if __name__ == "__main__":
    from bench.table import format_table

    print(format_table(asyncio.run(measure_files(rounds=5))))
