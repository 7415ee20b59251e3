"""No path, pattern or race leads a search out of the workspace."""

from collections import Counter
from pathlib import Path

import pytest

from tests.builtin.racing_search import race
from tests.builtin.searching import both_ways, searching, yes
from tests.traversal.grounds import CANARY, MARK, Grounds
from tests.traversal.strings import strings

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
def grounds(tmp_path: Path) -> Grounds:
    made = Grounds(tmp_path)
    (made.root / "hard").unlink()  # a second name inside is a name inside
    return made


@both_ways
@pytest.mark.parametrize(("name", "argument", "more"), ARGUMENTS)
@pytest.mark.parametrize("times", [1, pytest.param(4, marks=pytest.mark.long)])
async def test_no_path_leads_a_search_outside(
    grounds: Grounds, way: str, name: str, argument: str, more: dict[str, str], times: int
) -> None:
    ended: Counter[str] = Counter()
    count = COUNT[way] * times

    async with searching(grounds.root, way, approver=yes) as call:
        for text in strings(grounds.base, count, seed=len(name + argument)):
            outcome = await call(name, **{**more, argument: text[:900]})
            ended["done" if outcome.ok else outcome.code] += 1

            told = f"{outcome.text} {outcome.data}".replace(str(more), "").replace(repr(more.get("pattern"))[1:-1], "")
            assert CANARY not in told, (text, outcome)
            assert MARK not in told, (text, outcome)
            assert "crashed" not in told, (text, outcome)

    assert ended.total() == count
    assert grounds.changed() == []


@both_ways
@pytest.mark.parametrize("seconds", [0.4, pytest.param(1.0, marks=pytest.mark.long)])
async def test_no_race_leads_outside(tmp_path: Path, way: str, seconds: float) -> None:
    found = await race(tmp_path, seconds, way)

    assert found.leaks == []
    assert found.swaps > 200 * seconds
    assert found.calls > 9 * seconds
    assert found.done > 3 * seconds
