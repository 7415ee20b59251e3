"""No path, pattern or race leads a search out of the workspace."""

from collections import Counter
from pathlib import Path

import pytest

from tests.builtin.search_races import race_search
from tests.builtin.search_runtime import approve_everything, open_search, with_both_engines
from tests.traversal.guarded_tree import CANARY, OUTSIDE_FILE_NAME, GuardedTree
from tests.traversal.hostile_paths import hostile_paths

pytestmark = pytest.mark.timeout(30)  # some of these have much to do, and a busy machine takes its time

COUNT = {"ripgrep": 4, "walker": 40}
"""Strings for each argument of each tool. Most paths are refused at once; a pattern costs a process."""
ARGUMENTS = [
    ("glob", "path", {"pattern": "**/*"}),
    ("glob", "pattern", {}),
    ("glob_files", "cwd", {"pattern": "*"}),
    ("glob_files", "pattern", {}),
    ("grep", "path", {"pattern": CANARY[:-1]}),
    ("grep", "include", {"pattern": CANARY[:-1]}),
    ("grep", "pattern", {}),
    ("grep_files", "path", {"pattern": r"canary.\w+"}),
    ("grep_files", "include", {"pattern": r"canary.\w+", "output_mode": "count"}),
    ("grep_files", "pattern", {"multiline": True}),
]


@pytest.fixture
def tree(tmp_path: Path) -> GuardedTree:
    made = GuardedTree(tmp_path)
    (made.root / "hard").unlink()  # a second name inside is a name inside
    return made


@with_both_engines
@pytest.mark.parametrize(("name", "argument", "more"), ARGUMENTS)
@pytest.mark.parametrize("times", [1, pytest.param(4, marks=pytest.mark.long)])
async def test_no_path_leads_a_search_outside(
    tree: GuardedTree, engine: str, name: str, argument: str, more: dict[str, str], times: int
) -> None:
    outcomes: Counter[str] = Counter()
    count = COUNT[engine] * times

    async with open_search(tree.root, engine, approver=approve_everything) as call:
        for text in hostile_paths(tree.base, count, seed=len(name + argument)):
            outcome = await call(name, **{**more, argument: text[:900]})
            outcomes["done" if outcome.ok else outcome.code] += 1

            result = f"{outcome.text} {outcome.data}".replace(str(more), "").replace(
                repr(more.get("pattern"))[1:-1], ""
            )
            assert CANARY not in result, (text, outcome)
            assert OUTSIDE_FILE_NAME not in result, (text, outcome)
            assert "crashed" not in result, (text, outcome)

    assert outcomes.total() == count
    assert tree.changed_outside() == []


@with_both_engines
@pytest.mark.parametrize("seconds", [0.4, pytest.param(1.0, marks=pytest.mark.long)])
async def test_no_race_leads_outside(tmp_path: Path, engine: str, seconds: float) -> None:
    found = await race_search(tmp_path, seconds, engine)

    assert found.leaks == []
    assert found.swaps > 200 * seconds
    assert found.calls > 9 * seconds
    assert found.done > 3 * seconds
