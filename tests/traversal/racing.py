"""Races: another process swaps folders with links to the outside while the tools work."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from surehand import Runtime, ToolError, Workspace
from surehand.builtin.files.tools import files
from surehand.workspace.path import WorkspacePath
from tests.traversal.attempts import leaked, outcome_of, yes
from tests.traversal.grounds import CANARY, Grounds

_SWAPPER = """
import ctypes, os, sys, threading
libc = ctypes.CDLL(None, use_errno=True)
pairs = [(os.fsencode(one), os.fsencode(other)) for one, other in zip(sys.argv[1::2], sys.argv[2::2])]
threading.Thread(target=lambda: (sys.stdin.read(), done.append(1)), daemon=True).start()
done, swaps, rounds = [], 0, 0
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
    ended: Counter[str] = field(default_factory=Counter)
    """By tool and outcome."""

    @property
    def calls(self) -> int:
        """All calls."""
        return self.ended.total()

    @property
    def done(self) -> int:
        """Those that ended well."""
        return sum(count for what, count in self.ended.items() if what.endswith(" done"))


async def race(grounds: Grounds, seconds: float, *, callers: int = 4, least: float = 0) -> Race:
    """Let the tools run on what is being swapped; raises `AssertionError` at the first leak.

    On a busy machine it takes longer, until so many calls have ended well.
    """
    found, folder = Race(), grounds.root / "race"
    _lay_out(grounds, folder)
    grounds.before = grounds.outside()
    with _swapping(folder, found):
        async with Runtime(files(Workspace(grounds.root)), approver=yes) as runtime:
            until = time.monotonic() + seconds
            await asyncio.gather(
                *(
                    _caller(runtime, number, found, lambda: time.monotonic() < until or found.done <= least)
                    for number in range(callers)
                )
            )
    assert not grounds.changed(), grounds.changed()
    return found


def opens(grounds: Grounds, seconds: float) -> Race:
    """The same without tools around it: as many openings as there can be."""
    found, folder = Race(), grounds.root / "race"
    _lay_out(grounds, folder)
    space = Workspace(grounds.root)
    spots = [space.resolve(f"race/{name}") for name in ("real/file.txt", "link/deep/file.txt", "file.txt", "file_link")]
    with _swapping(folder, found):
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            for _ in range(50):
                for spot in spots:
                    found.ended[f"open {_opened(spot)}"] += 1
    return found


def _opened(spot: WorkspacePath) -> str:
    try:
        with spot.open_reader() as file:
            assert CANARY.encode() not in file.read(100), spot.display_path
    except ToolError as error:
        return error.code
    return "done"


def _lay_out(grounds: Grounds, folder: Path) -> None:
    (folder / "real/deep").mkdir(parents=True)
    for name in ("real/file.txt", "real/deep/file.txt", "file.txt"):
        (folder / name).write_text("inside\n")
    (folder / "link").symlink_to(grounds.base / "outside")
    (folder / "file_link").symlink_to(grounds.base / "outside/secret.txt")
    for name in ("file.txt", "deep/file.txt"):
        (grounds.base / "outside" / name).write_text(f"{CANARY} inside\n")


async def _caller(runtime: Runtime, number: int, found: Race, goes_on: Callable[[], bool]) -> None:
    turn = 0
    while goes_on():
        turn += 1
        for name, arguments in _calls(number, turn):
            outcome = await runtime.call(name, arguments)
            found.ended[f"{name} {outcome_of(outcome)}"] += 1
            assert not leaked(outcome), f"{name} {arguments}: {outcome!r}"
            assert outcome_of(outcome) != "crashed", f"{name} {arguments}: {outcome!r}"


def _calls(number: int, turn: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """Through the folder that is a link at times, whichever of the two names it has."""
    for where in ("race/real", "race/link"):
        own = f"{where}/own-{number}.txt"
        yield "read", {"file_path": f"{where}/file.txt"}
        yield "read_file", {"path": f"{where}/deep/file.txt"}
        yield "list", {"path": where, "recursive": True}
        yield "get_file_info", {"path": f"{where}/secret.txt"}
        yield "write", {"file_path": own, "content": f"turn {turn}\n"}
        yield "edit", {"file_path": own, "old_string": f"turn {turn}", "new_string": "edited"}
        yield "write", {"file_path": f"{where}/new-{number}/deep.txt", "content": "x"}
        yield "move_file", {"from": own, "to": f"{where}/moved-{number}.txt", "overwrite": True}
        yield "delete_file", {"path": f"{where}/moved-{number}.txt"}
        yield "delete_file", {"path": f"{where}/new-{number}", "recursive": True}
        yield "edit", {"file_path": f"{where}/file.txt", "old_string": "inside", "new_string": "inside"[::-1]}
        yield "edit", {"file_path": f"{where}/file.txt", "old_string": "inside"[::-1], "new_string": "inside"}
    for name in ("race/file.txt", "race/file_link"):
        yield "read", {"file_path": name}
        yield "edit_file", {"path": name, "edits": [{"insert": "start", "content": "x"}]}
        yield "write", {"file_path": name, "content": "inside\n"}


@contextmanager
def _swapping(folder: Path, found: Race) -> Iterator[None]:
    pairs = [folder / "real", folder / "link", folder / "file.txt", folder / "file_link"]
    command = [sys.executable, "-c", _SWAPPER, *map(str, pairs)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        try:
            yield
        finally:
            child.stdin.close()
            found.swaps = int(child.stdout.read())
