"""Races: another process swaps folders with links to the outside while files are searched.

`python -m tests.builtin.racing_search SECONDS` does it for longer, by ripgrep and by the Python search.
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
from tests.builtin.searching import searching, write_tree

OUTSIDE = "canary-outside-41c7"
"""Stands in every file outside, and nowhere else."""
SECRET = "canary-secret-9b2e"
"""Stands in files that nobody was asked about, and nowhere else."""
_SWAPPER = """
import ctypes, os, sys, threading
libc, swaps, rounds, done = ctypes.CDLL(None), 0, 0, []
pairs = [(os.fsencode(one), os.fsencode(other)) for one, other in zip(sys.argv[1::2], sys.argv[2::2])]
threading.Thread(target=lambda: (sys.stdin.read(), done.append(1)), daemon=True).start()
print("ready", flush=True)
while not done or rounds < 1000:  # it may have been held up meanwhile
    rounds += 1
    for one, other in pairs:
        swaps += libc.renameat2(-100, one, -100, other, 2) == 0
print(swaps)
"""


@dataclass
class Race:
    """What came of it."""

    swaps: int = 0
    calls: int = 0
    leaks: list[str] = field(default_factory=list)
    ended: Counter[str] = field(default_factory=Counter)

    @property
    def done(self) -> int:
        """Those that ended well."""
        return sum(count for what, count in self.ended.items() if what.endswith(" done"))


def lay_out(base: Path) -> Path:
    """A workspace, an outside of the same shape, and the links that are swapped in."""
    names = [f"{folder}/{number}.txt" for folder in ("real", "real/deep") for number in range(20)]
    root = write_tree(base / "allowed", dict.fromkeys(names, "word inside\n"))
    write_tree(base / "outside", {name.removeprefix("real/"): f"word {OUTSIDE}\n" for name in names})
    write_tree(base / "outside", {f"only-{OUTSIDE}.txt": "word\n", ".gitignore": "nothing\n"})
    write_tree(root, {f"secrets/{name.removeprefix('real/')}": f"word {SECRET}\n" for name in names})
    write_tree(root, {"more/a.txt": "word inside\n", "file.txt": "word inside\n"})
    (root / "out").symlink_to("../outside")
    (root / "in").symlink_to("secrets")
    (root / "file_out").symlink_to(base / "outside/1.txt")
    return root


@contextmanager
def swapping(root: Path, race: Race) -> Iterator[None]:
    """The real folder becomes a link that leads outside, or to the secrets, and a folder again."""
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
            race.swaps = int(child.stdout.read())


async def race(base: Path, seconds: float, way: str, *, callers: int = 2) -> Race:
    """Search what is being swapped, and look for what must not be found."""
    found, root = Race(), lay_out(base)
    with swapping(root, found):
        # Ripgrep panics now and then when what it looks at becomes something else; then the walker goes on.
        async with searching(root, "either" if way == "ripgrep" else way) as call:
            until = time.monotonic() + seconds

            async def caller() -> None:
                for name, arguments in cycle(CALLS):
                    outcome = await call(name, **arguments)
                    found.calls += 1
                    found.ended[f"{name} {getattr(outcome, 'code', 'done')}"] += 1
                    told = f"{outcome.text} {outcome.data}"
                    if OUTSIDE in told or SECRET in told or "crashed" in told:
                        found.leaks.append(f"{name} {arguments}: {told[:500]}")
                    if time.monotonic() > until and found.calls > 2 * len(CALLS) and found.done > 3 * seconds:
                        return

            await asyncio.gather(*(caller() for _ in range(callers)))
    return found


CALLS = [
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
    """Both ways, for so many seconds each."""
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 30.0
    for way in ("ripgrep", "walker") if ripgrep.is_available() else ("walker",):
        with TemporaryDirectory(prefix="surehand-") as base:
            found = asyncio.run(race(Path(base), seconds, way))
        print(f"{way}: {found.calls:,} searches, {found.swaps:,} swaps, {len(found.leaks)} leaks")
        print("  " + ", ".join(f"{what}: {count:,}" for what, count in sorted(found.ended.items())))
        for leak in found.leaks[:5]:
            print(f"  {leak}")
        if found.leaks:
            sys.exit(1)


if __name__ == "__main__":
    main()
