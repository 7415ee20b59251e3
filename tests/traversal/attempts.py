"""Calls every file tool with every path, and checks the outside afterwards."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from surehand import Outcome, Runtime, Workspace
from surehand.builtin.files.tools import files
from tests.traversal.grounds import CANARY, MARK, SIZE, Grounds
from tests.traversal.strings import strings

LOOKING: dict[str, Callable[[str], dict[str, Any]]] = {
    "read": lambda path: {"file_path": path},
    "read_file": lambda path: {"path": path, "encoding": "base64"},
    "list": lambda path: {"path": path, "recursive": True, "include_hidden": True, "max_entries": 20},
    "list_files": lambda path: {"path": path, "limit": 20},
    "get_file_info": lambda path: {"path": path},
}
CHANGING: dict[str, Callable[[str], dict[str, Any]]] = {
    "write": lambda path: {"file_path": path, "content": "written"},
    "write_file": lambda path: {"path": path, "content": "written"},
    "edit": lambda path: {"file_path": path, "old_string": "\n", "new_string": " edited\n"},
    "edit_file": lambda path: {"path": path, "edits": [{"insert": "end", "content": "edited"}]},
    "delete_file": lambda path: {"path": path, "recursive": True},
    "move_file": lambda path: {"from": path, "to": "stolen.txt", "overwrite": True},
    "move_file to": lambda path: {"from": "inside.txt", "to": path, "overwrite": True},
}
TOOLS = {**LOOKING, **CHANGING}
_FOREIGN = (CANARY, "Y2FuYXJ5", "root:x:0", "cm9vdDp4", MARK, f"'size': {SIZE}")
"""What is only outside: text, plain and in base64, a name that stands in every folder there, and a size."""


async def yes(wait: Any) -> bool:
    """An approver who is never there to stop anything."""
    return True


async def attempts(grounds: Grounds, name: str, count: int, *, seed: int = 0) -> Counter[str]:
    """How the calls of one tool with so many paths ended; raises `AssertionError` at the first that got outside."""
    ended: Counter[str] = Counter()
    paths = strings(grounds.base, count, seed=seed, harmless=name in CHANGING)
    tools = [tool for tool in files(Workspace(grounds.root)) if tool.name == name.split()[0]]
    async with Runtime(tools, approver=yes, defaults={"max_output": 10_000_000}) as runtime:
        for number, path in enumerate(paths):
            outcome = await runtime.call(name.split()[0], TOOLS[name](path))
            ended[outcome_of(outcome)] += 1
            assert not leaked(outcome), f"{name} {path!r}: {outcome!r}"
            assert "crashed" not in outcome_of(outcome), f"{name} {path!r}: {outcome!r}"
            if name in CHANGING and (outcome.ok or number % 200 == 0):
                assert not grounds.changed(), f"{name} {path!r} changed {grounds.changed()}"
            if (outcome.ok and name in ("delete_file", "move_file")) or number % 200 == 0:
                grounds.restore()
            elif outcome.ok and name == "move_file to":
                grounds.mend()
    assert not grounds.changed(), f"{name} changed {grounds.changed()}"
    return ended


def outcome_of(outcome: Outcome) -> str:
    """Done, or the code of the failure."""
    return "done" if outcome.ok else str(getattr(outcome, "code", "pending"))


def leaked(outcome: Outcome) -> bool:
    """Whether anything of what is outside came in."""
    return outcome.ok and any(word in f"{outcome.text}{outcome.data}" for word in _FOREIGN)
