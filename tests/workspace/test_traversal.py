"""No path and no race leads out of a workspace. `scripts/traversal` tries for longer."""

import asyncio
import gc
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from surehand import Workspace
from surehand.core.errors import Denied
from surehand.workspace import beneath
from surehand.workspace import path as spot
from tests.traversal.guarded_tree import CANARY, GuardedTree
from tests.traversal.hostile_paths import hostile_paths
from tests.traversal.symlink_races import race_tools
from tests.traversal.tool_calls import READING_TOOLS, TOOLS, try_paths

pytestmark = pytest.mark.timeout(120)  # some of these have much to do, and a busy machine takes its time


@pytest.fixture(params=["kernel", "step by step"])
def method(request: pytest.FixtureRequest) -> Iterator[str]:
    """How files are opened: as the kernel offers it, or as it is done where the kernel does not."""
    before = beneath._has_openat2[0]
    if request.param == "kernel" and before is False:
        pytest.skip("this kernel has no openat2")
    beneath._has_openat2[0] = None if request.param == "kernel" else False
    yield request.param
    beneath._has_openat2[0] = before


@pytest.fixture
def tree(tmp_path: Path) -> Iterator[GuardedTree]:
    """In memory where that can be had: thousands of files are made and taken away."""
    memory = Path("/dev/shm")
    with TemporaryDirectory(prefix="surehand-", dir=memory if os.access(memory, os.W_OK) else tmp_path) as folder:
        yield GuardedTree(Path(folder))


def test_the_paths_are_many_and_different(tmp_path: Path) -> None:
    results = hostile_paths(tmp_path, 3000)

    assert len(set(results)) == 3000
    assert sum(".." in path for path in results) > 500
    assert results == hostile_paths(tmp_path, 3000)


def test_the_outside_is_watched_closely(tree: GuardedTree) -> None:
    assert CANARY in (tree.root / "out/secret.txt").read_text()
    assert tree.changed_outside() == []

    (tree.base / "outside/deep/new").touch()

    assert tree.changed_outside() == ["outside/deep", "outside/deep/new"]


async def test_these_tests_catch_a_workspace_that_only_compares_strings(
    tree: GuardedTree, monkeypatch: pytest.MonkeyPatch
) -> None:
    def trusting(folder: int, parts: tuple[str, ...], flags: int = os.O_RDONLY, mode: int = 0, **more: bool) -> int:
        return os.open("/".join(parts) or ".", flags | os.O_NONBLOCK, mode, dir_fd=folder)

    monkeypatch.setattr(spot, "open_beneath", trusting)

    for name in READING_TOOLS:
        with pytest.raises(AssertionError, match=name):
            await try_paths(tree, name, 300)


@pytest.mark.parametrize("name", TOOLS)
@pytest.mark.parametrize("count", [60, pytest.param(200, marks=pytest.mark.long)])
async def test_no_path_leads_outside(tree: GuardedTree, method: str, name: str, count: int) -> None:
    outcomes = await try_paths(tree, name, count, seed=list(TOOLS).index(name))

    assert outcomes["denied"] > count // 10
    assert outcomes.total() == count


@pytest.mark.parametrize("seconds", [0.25, pytest.param(1.0, marks=pytest.mark.long)])
async def test_no_race_leads_outside(tree: GuardedTree, method: str, seconds: float) -> None:
    results = await race_tools(tree, seconds, min_done=20 * seconds)

    assert results.swaps > 200 * seconds
    assert results.done > 20 * seconds


async def test_paths_are_confined_without_openat2_too(tree: GuardedTree, monkeypatch: pytest.MonkeyPatch) -> None:
    def forbidden(*given: object) -> int:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(beneath, "_has_openat2", [None])
    monkeypatch.setattr(beneath, "_openat2", forbidden)

    outcomes = await try_paths(tree, "get_file_info", 400)

    assert beneath._has_openat2 == [False]
    assert outcomes["done"] > 0


async def test_links_are_not_followed_if_the_system_cannot_tell_their_target(
    tree: GuardedTree, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spot, "descriptor_path", lambda descriptor: None)
    (tree.root / ".env").write_text("TOKEN=1")
    (tree.root / "notes.txt").symlink_to(".env")

    space = Workspace(tree.root)
    for path in ("notes.txt", "in/inside.txt", "dot/.env"):
        with pytest.raises(Denied, match="goes through a link"):
            space.resolve(path).open_descriptor()
        with pytest.raises(Denied, match=r"is a link|goes through a link"):
            space.resolve(path).write_atomically(b"x")
    for name in ("read", "list", "get_file_info", "write", "edit", "delete_file", "move_file"):
        await try_paths(tree, name, 60, seed=3)


async def test_no_descriptor_is_left_open(tree: GuardedTree, method: str) -> None:
    counts, threads = [], set(threading.enumerate())
    for _ in range(3):
        for name in ("read", "list", "get_file_info", "write", "edit", "delete_file", "move_file"):
            await try_paths(tree, name, 15, seed=7)
        while any(thread.name == "surehand" for thread in set(threading.enumerate()) - threads):  # noqa: ASYNC110
            await asyncio.sleep(0.001)
        gc.collect()
        counts.append(len(os.listdir("/dev/fd")))

    assert counts[2] < counts[0] + 7  # a thread that previews were made in may still hold a workspace for each tool
