"""Races: another process swaps folders and links that lead outside the workspace while files are searched.

`python -m tests.builtin.search_races SECONDS` races for longer, with ripgrep and with the Python search.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import cycle
from pathlib import Path
from tempfile import TemporaryDirectory

from surehand.builtin.search import ripgrep
from tests.builtin.search_runtime import open_search, write_tree

OUTSIDE_TEXT = "canary-outside-41c7"
"""Text of every file outside, and of no other file."""
SECRET_TEXT = "canary-secret-9b2e"
"""Text of protected files inside, and of no other file."""
_SWAPPER = """
import ctypes, os, sys, threading
libc, swaps, rounds, done = ctypes.CDLL(None), 0, 0, []
pairs = [(os.fsencode(one), os.fsencode(other)) for one, other in zip(sys.argv[1::2], sys.argv[2::2])]
threading.Thread(target=lambda: (sys.stdin.read(), done.append(1)), daemon=True).start()
print("ready", flush=True)
while not done or rounds < 1000:  # at least this many, should it have been suspended meanwhile
    rounds += 1
    for one, other in pairs:
        swaps += libc.renameat2(-100, one, -100, other, 2) == 0
print(swaps)
"""


@dataclass
class SearchRace:
    """The results of a race."""

    swaps: int = 0
    calls: int = 0
    leaks: list[str] = field(default_factory=list)
    outcomes: Counter[str] = field(default_factory=Counter)

    @property
    def done(self) -> int:
        """The number of searches that succeeded."""
        return sum(count for what, count in self.outcomes.items() if what.endswith(" done"))


def write_workspace(base: Path) -> Path:
    """Write a workspace, files outside of the same shape, and the links that are swapped in."""
    names = [f"{folder}/{number}.txt" for folder in ("real", "real/deep") for number in range(20)]
    root = write_tree(base / "allowed", dict.fromkeys(names, "word inside\n"))
    write_tree(base / "outside", {name.removeprefix("real/"): f"word {OUTSIDE_TEXT}\n" for name in names})
    write_tree(base / "outside", {f"only-{OUTSIDE_TEXT}.txt": "word\n", ".gitignore": "nothing\n"})
    write_tree(root, {f"secrets/{name.removeprefix('real/')}": f"word {SECRET_TEXT}\n" for name in names})
    write_tree(root, {"more/a.txt": "word inside\n", "file.txt": "word inside\n"})
    (root / "out").symlink_to("../outside")
    (root / "in").symlink_to("secrets")
    (root / "file_out").symlink_to(base / "outside/1.txt")
    return root


@contextmanager
def swap_files(root: Path, race_search: SearchRace) -> Iterator[None]:
    """Swap the real folder with a link that leads outside or to the secrets, again and again."""
    pairs = [root / one for one in ("real", "out", "more", "in", "file.txt", "file_out")]
    command = [sys.executable, "-c", _SWAPPER, *map(str, pairs)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        try:
            yield
        finally:
            child.stdin.close()
            race_search.swaps = int(child.stdout.read())


async def race_search(base: Path, seconds: float, engine: str, *, callers: int = 2) -> SearchRace:
    """Search files that are being swapped, and collect every result that must not be found."""
    found, root = SearchRace(), write_workspace(base)
    with swap_files(root, found):
        # Ripgrep sometimes panics when a file changes its type; the Python search then takes over.
        async with open_search(root, "either" if engine == "ripgrep" else engine) as call:
            deadline = time.monotonic() + seconds

            async def caller() -> None:
                for name, arguments in cycle(SEARCHES):
                    outcome = await call(name, **arguments)
                    found.calls += 1
                    found.outcomes[f"{name} {getattr(outcome, 'code', 'done')}"] += 1
                    result = f"{outcome.text} {outcome.data}"
                    if OUTSIDE_TEXT in result or SECRET_TEXT in result or "crashed" in result:
                        found.leaks.append(f"{name} {arguments}: {result[:500]}")
                    if time.monotonic() > deadline and found.calls > 2 * len(SEARCHES) and found.done > 3 * seconds:
                        return

            await asyncio.gather(*(caller() for _ in range(callers)))
    return found


SEARCHES = [
    ("grep", {"pattern": "word"}),
    ("grep", {"pattern": "word", "path": "real", "context": 1}),
    ("grep_files", {"pattern": "w.rd", "path": "out"}),
    ("grep_files", {"pattern": "d\\s.*\\n", "multiline": True, "include": "{real,more,out,in}/**"}),
    ("grep", {"pattern": "word", "path": "file.txt"}),
    ("grep", {"pattern": "word", "include": "out/deep/*.txt", "output_mode": "count"}),
    ("glob", {"pattern": "**/*"}),
    ("glob_files", {"pattern": "*.txt", "cwd": "real/deep"}),
    ("glob", {"pattern": "out/**"}),
]


def main() -> None:
    """Race each engine for the given seconds."""
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 30.0
    for engine in ("ripgrep", "walker") if ripgrep.is_available() else ("walker",):
        with TemporaryDirectory(prefix="surehand-") as base:
            found = asyncio.run(race_search(Path(base), seconds, engine))
        print(f"{engine}: {found.calls:,} searches, {found.swaps:,} swaps, {len(found.leaks)} leaks")
        print("  " + ", ".join(f"{what}: {count:,}" for what, count in sorted(found.outcomes.items())))
        for leak in found.leaks[:5]:
            print(f"  {leak}")
        if found.leaks:
            sys.exit(1)


if __name__ == "__main__":
    main()
