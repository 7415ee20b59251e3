"""Races: another process swaps folders and links that lead outside, as fast as it can, while the file tools run."""

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
from tests.traversal.guarded_tree import CANARY, GuardedTree
from tests.traversal.tool_calls import approve_everything, has_leaked, outcome_code

_SWAPPER = """
import ctypes, os, sys, threading
libc = ctypes.CDLL(None, use_errno=True)
pairs = [(os.fsencode(one), os.fsencode(other)) for one, other in zip(sys.argv[1::2], sys.argv[2::2])]
threading.Thread(target=lambda: (sys.stdin.read(), done.append(1)), daemon=True).start()
done, swaps, rounds = [], 0, 0
print("ready", flush=True)
while not done or rounds < 1000:  # at least this many, should it have been suspended meanwhile
    rounds += 1
    for one, other in pairs:
        swaps += libc.renameat2(-100, one, -100, other, 2) == 0
print(swaps)
"""


@dataclass
class Race:
    """The results of a race."""

    swaps: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    """Number of calls by tool and outcome."""

    @property
    def calls(self) -> int:
        """The number of all calls."""
        return self.outcomes.total()

    @property
    def done(self) -> int:
        """The number of calls that succeeded."""
        return sum(count for what, count in self.outcomes.items() if what.endswith(" done"))


async def race_tools(tree: GuardedTree, seconds: float, *, callers: int = 4, min_done: float = 0) -> Race:
    """Run the tools on files that are being swapped; raises `AssertionError` at the first leak.

    It runs longer on a busy machine, until more than `min_done` calls have succeeded.
    """
    race = Race()
    folder = tree.root / "race"
    _write_files(tree, folder)
    tree.expected_outside = tree.snapshot_outside()
    with _swap_files(folder, race):
        async with Runtime(files(Workspace(tree.root), names="both"), approver=approve_everything) as runtime:
            deadline = time.monotonic() + seconds
            await asyncio.gather(
                *(
                    _make_calls(runtime, number, race, lambda: time.monotonic() < deadline or race.done <= min_done)
                    for number in range(callers)
                )
            )
    assert not tree.changed_outside(), tree.changed_outside()
    return race


def race_opens(tree: GuardedTree, seconds: float) -> Race:
    """Open files directly instead of through tools, as often as possible."""
    race = Race()
    folder = tree.root / "race"
    _write_files(tree, folder)
    space = Workspace(tree.root)
    paths = [space.resolve(f"race/{name}") for name in ("real/file.txt", "link/deep/file.txt", "file.txt", "file_link")]
    with _swap_files(folder, race):
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            for _ in range(50):
                for path in paths:
                    race.outcomes[f"open {_try_open(path)}"] += 1
    return race


def _try_open(path: WorkspacePath) -> str:
    try:
        with path.open_reader() as file:
            assert CANARY.encode() not in file.read(100), path.display_path
    except ToolError as error:
        return error.code
    return "done"


def _write_files(tree: GuardedTree, folder: Path) -> None:
    (folder / "real/deep").mkdir(parents=True)
    for name in ("real/file.txt", "real/deep/file.txt", "file.txt"):
        (folder / name).write_text("inside\n")
    (folder / "link").symlink_to(tree.base / "outside")
    (folder / "file_link").symlink_to(tree.base / "outside/secret.txt")
    for name in ("file.txt", "deep/file.txt"):
        (tree.base / "outside" / name).write_text(f"{CANARY} inside\n")


async def _make_calls(runtime: Runtime, number: int, race: Race, should_continue: Callable[[], bool]) -> None:
    turn = 0
    while should_continue():
        turn += 1
        for name, arguments in _tool_calls(number, turn):
            outcome = await runtime.call(name, arguments)
            race.outcomes[f"{name} {outcome_code(outcome)}"] += 1
            assert not has_leaked(outcome), f"{name} {arguments}: {outcome!r}"
            assert outcome_code(outcome) != "crashed", f"{name} {arguments}: {outcome!r}"


def _tool_calls(number: int, turn: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """The calls of one turn: through both names of the folder, of which one is a link at any moment."""
    for folder in ("race/real", "race/link"):
        own = f"{folder}/own-{number}.txt"
        yield "read", {"file_path": f"{folder}/file.txt"}
        yield "read_file", {"path": f"{folder}/deep/file.txt"}
        yield "list", {"path": folder, "recursive": True}
        yield "get_file_info", {"path": f"{folder}/secret.txt"}
        yield "write", {"file_path": own, "content": f"turn {turn}\n"}
        yield "edit", {"file_path": own, "old_string": f"turn {turn}", "new_string": "edited"}
        yield "write", {"file_path": f"{folder}/new-{number}/deep.txt", "content": "x"}
        yield "move_file", {"from": own, "to": f"{folder}/moved-{number}.txt", "overwrite": True}
        yield "delete_file", {"path": f"{folder}/moved-{number}.txt"}
        yield "delete_file", {"path": f"{folder}/new-{number}", "recursive": True}
        yield "edit", {"file_path": f"{folder}/file.txt", "old_string": "inside", "new_string": "inside"[::-1]}
        yield "edit", {"file_path": f"{folder}/file.txt", "old_string": "inside"[::-1], "new_string": "inside"}
    for name in ("race/file.txt", "race/file_link"):
        yield "read", {"file_path": name}
        yield "edit_file", {"path": name, "edits": [{"insert": "start", "content": "x"}]}
        yield "write", {"file_path": name, "content": "inside\n"}


@contextmanager
def _swap_files(folder: Path, race: Race) -> Iterator[None]:
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
            race.swaps = int(child.stdout.read())
