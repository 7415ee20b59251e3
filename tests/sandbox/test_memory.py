"""`memory=` of a sandbox, for shared memory and for all processes of a command together."""

from pathlib import Path

import pytest

from surehand import Runtime, Sandbox, shell
from surehand.sandbox.cgroup import ControlGroup
from tests.requirements import needs

pytestmark = [pytest.mark.timeout(60), needs("bubblewrap"), needs("python in /usr")]
MEBIBYTE = 1 << 20
SHARED = "import mmap; m = mmap.mmap(-1, {size}); m.write(b'x' * {size}); print('held')"
ANONYMOUS_FILE = (
    "import os; f = os.memfd_create('x'); [os.write(f, b'x' * 1048576) for _ in range({count})]; print('held')"
)
PROCESSES = 6
# Each keeps its memory until all others have theirs, or were killed: on a busy machine they would take turns.
TOGETHER = (
    "import glob, os, time; b = b'x' * {size}; os.system('touch held-{number}'); "
    "[time.sleep(0.05) for _ in iter(lambda: len(glob.glob('held-*') + glob.glob('ended-*')) < {processes}, False)]"
)


def has_memory_groups() -> bool:
    group = ControlGroup.try_create(10)
    if group is None:
        return False
    is_limited = group.limit_memory(100 * MEBIBYTE)
    group.remove()
    return is_limited


with_memory_groups = pytest.mark.skipif(not has_memory_groups(), reason="NOT RUN: no control group for memory here")


async def run(folder: Path, command: str, memory: int) -> str:
    async with Runtime(shell(folder, sandbox=Sandbox(memory=memory))) as runtime:
        return (await runtime.call("bash", {"command": command, "timeout": 30_000})).text


@with_memory_groups
@pytest.mark.parametrize(
    "program", [SHARED.format(size=300 * MEBIBYTE), ANONYMOUS_FILE.format(count=300)], ids=["shared", "memfd"]
)
async def test_shared_memory_counts(tmp_path: Path, program: str) -> None:
    assert "held" not in await run(tmp_path, f'python3 -c "{program}"', 100 * MEBIBYTE)
    assert "held" in await run(tmp_path, f'python3 -c "{program}"', 1000 * MEBIBYTE)


@with_memory_groups
async def test_all_processes_together_have_no_more(tmp_path: Path) -> None:
    programs = [TOGETHER.format(size=60 * MEBIBYTE, number=number, processes=PROCESSES) for number in range(PROCESSES)]
    commands = (f'(python3 -c "{program}"; touch ended-{number}) &' for number, program in enumerate(programs))
    command = " ".join(commands) + " wait"

    await run(tmp_path, command, 150 * MEBIBYTE)

    assert len(list(tmp_path.glob("held-*"))) < 4


async def test_the_temporary_folders_hold_no_more(tmp_path: Path) -> None:
    for folder in ("/tmp", "/dev/shm"):
        command = f"head -c {200 * MEBIBYTE} /dev/zero > {folder}/x || echo full; stat -c %s {folder}/x"
        text = await run(tmp_path, command, 100 * MEBIBYTE)
        assert str(200 * MEBIBYTE) not in text, text
