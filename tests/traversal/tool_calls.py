"""Calls every file tool with hostile paths, and checks that nothing outside the workspace is read or changed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from surehand import Outcome, Runtime, Workspace
from surehand.builtin.files.tools import files
from tests.traversal.guarded_tree import CANARY, OUTSIDE_FILE_BYTES, OUTSIDE_FILE_NAME, GuardedTree
from tests.traversal.hostile_paths import hostile_paths

READING_TOOLS: dict[str, Callable[[str], dict[str, Any]]] = {
    "read": lambda path: {"file_path": path},
    "read_file": lambda path: {"path": path, "encoding": "base64"},
    "list": lambda path: {"path": path, "recursive": True, "include_hidden": True, "max_entries": 20},
    "list_files": lambda path: {"path": path, "limit": 20},
    "get_file_info": lambda path: {"path": path},
}
WRITING_TOOLS: dict[str, Callable[[str], dict[str, Any]]] = {
    "write": lambda path: {"file_path": path, "content": "written"},
    "write_file": lambda path: {"path": path, "content": "written"},
    "edit": lambda path: {"file_path": path, "old_string": "\n", "new_string": " edited\n"},
    "edit_file": lambda path: {"path": path, "edits": [{"insert": "end", "content": "edited"}]},
    "delete_file": lambda path: {"path": path, "recursive": True},
    "move_file": lambda path: {"from": path, "to": "stolen.txt", "overwrite": True},
    "move_file to": lambda path: {"from": "inside.txt", "to": path, "overwrite": True},
}
TOOLS = {**READING_TOOLS, **WRITING_TOOLS}
_OUTSIDE_MARKS = (CANARY, "Y2FuYXJ5", "root:x:0", "cm9vdDp4", OUTSIDE_FILE_NAME, f"'size': {OUTSIDE_FILE_BYTES}")
"""Occur only outside: texts (plain and in base64), the name of a file in every folder, and a file size."""


async def approve_everything(wait: Any) -> bool:
    """An approver that approves every call."""
    return True


async def try_paths(tree: GuardedTree, name: str, count: int, *, seed: int = 0) -> Counter[str]:
    """Call one tool with `count` paths and count the outcomes; the first that gets outside raises `AssertionError`."""
    outcomes: Counter[str] = Counter()
    paths = hostile_paths(tree.base, count, seed=seed, harmless=name in WRITING_TOOLS)
    tools = [tool for tool in files(Workspace(tree.root), names="both") if tool.name == name.split()[0]]
    async with Runtime(tools, approver=approve_everything, defaults={"max_output": 10_000_000}) as runtime:
        for number, path in enumerate(paths):
            outcome = await runtime.call(name.split()[0], TOOLS[name](path))
            outcomes[outcome_code(outcome)] += 1
            assert not has_leaked(outcome), f"{name} {path!r}: {outcome!r}"
            assert "crashed" not in outcome_code(outcome), f"{name} {path!r}: {outcome!r}"
            if name in WRITING_TOOLS and (outcome.ok or number % 200 == 0):
                assert not tree.changed_outside(), f"{name} {path!r} changed {tree.changed_outside()}"
            if (outcome.ok and name in ("delete_file", "move_file")) or number % 200 == 0:
                tree.restore()
            elif outcome.ok and name == "move_file to":
                tree.restore_moved_file()
    assert not tree.changed_outside(), f"{name} changed {tree.changed_outside()}"
    return outcomes


def outcome_code(outcome: Outcome) -> str:
    """Either "done" or the code of the failure."""
    return "done" if outcome.ok else str(getattr(outcome, "code", "pending"))


def has_leaked(outcome: Outcome) -> bool:
    """Whether the outcome contains anything from outside the workspace."""
    return outcome.ok and any(word in f"{outcome.text}{outcome.data}" for word in _OUTSIDE_MARKS)
