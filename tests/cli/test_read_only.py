"""The commands that list and show work on a read-only copy of a store, and change nothing."""

from __future__ import annotations

import asyncio
import hashlib
import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from surehand import Runtime, tool
from surehand.store.database import StoreUnavailable
from surehand.store.store import Store


@tool(confirm=True)
async def pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount}"


async def fill(runtime: Runtime, count: int = 3) -> None:
    """Calls that wait, and one that was approved and ended."""
    for number in range(count):
        await runtime.call("pay", {"amount": number}, call_id=f"waiting-{number}")
    await runtime.call("pay", {"amount": 9}, call_id="done")
    assert (await runtime.approve("done")).ok


def digests(folder: Path) -> dict[str, str]:
    return {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in folder.iterdir()}


async def make_copy(folder: Path, *, with_log: bool, mode: int = 0o444, folder_mode: int = 0o555) -> Path:
    """A copy of a store in a folder that cannot be written; with its log if it was taken while a runtime was open."""
    original = folder / "original.db"
    copied = folder / "copy" / "store.db"
    copied.parent.mkdir()
    async with Runtime(pay, store=original) as runtime:
        await fill(runtime)
        if with_log:
            for suffix in ("", "-wal"):
                shutil.copy(f"{original}{suffix}", f"{copied}{suffix}")
    if not with_log:
        shutil.copy(original, copied)
    for file in copied.parent.iterdir():
        file.chmod(mode)
    copied.parent.chmod(folder_mode)
    return copied


@pytest.fixture(autouse=True)
def removable_folders(tmp_path: Path) -> Iterator[None]:
    yield
    for folder in tmp_path.iterdir():
        if folder.is_dir():
            folder.chmod(0o755)


@pytest.mark.parametrize("with_log", [False, True])
@pytest.mark.parametrize(("mode", "folder_mode"), [(0o444, 0o555), (0o444, 0o755), (0o644, 0o555)])
def test_reading_commands_work_on_a_read_only_copy_and_change_nothing(run, tmp_path, with_log, mode, folder_mode):
    copied = asyncio.run(make_copy(tmp_path, with_log=with_log, mode=mode, folder_mode=folder_mode))
    before = digests(copied.parent)
    store = ("--store", str(copied))

    verified = run("audit", "verify", *store)
    pending = run("pending", *store)
    shown = run("show", "done", *store)
    calls = run("calls", *store)
    audit = run("audit", "show", "done", *store)

    assert (verified.code, verified.lines[0]["sound"], verified.lines[0]["rows"] > 0) == (0, True, True)
    assert [line["call_id"] for line in pending.lines] == ["waiting-0", "waiting-1", "waiting-2"]
    assert (shown.lines[0]["state"], shown.lines[0]["arguments"]) == ("ended", {"amount": 9})
    assert {line["call_id"] for line in calls.lines} == {"waiting-0", "waiting-1", "waiting-2", "done"}
    assert audit.code == 0
    assert digests(copied.parent) == before


@pytest.mark.parametrize(("version", "words"), [(2, "read-only: copy it to a folder"), (99, "Use a newer surehand")])
def test_a_read_only_copy_of_another_schema_version_is_refused_with_the_reason(run, tmp_path, version, words):
    copied = asyncio.run(make_copy(tmp_path, with_log=False, mode=0o644, folder_mode=0o755))
    with sqlite3.connect(copied) as connection:
        connection.execute("DELETE FROM schema_versions")
        connection.execute("INSERT INTO schema_versions (version) VALUES (?)", (version,))
    connection.close()
    copied.chmod(0o444)

    refused = run("pending", "--store", str(copied))

    assert refused.code == 2
    assert words in refused.err
    assert f"schema version {version}" in refused.err


def test_a_read_only_file_that_is_no_store_is_refused(run, tmp_path):
    file = tmp_path / "other.db"
    sqlite3.connect(file).close()
    file.chmod(0o444)

    refused = run("pending", "--store", str(file))

    assert refused.code == 2
    assert "not a store of surehand" in refused.err


async def test_a_read_only_store_refuses_writes_and_calls_that_must_be_stored(tmp_path):
    copied = await make_copy(tmp_path, with_log=False)

    async with Store.open(copied, read_only=True) as store:
        with pytest.raises(StoreUnavailable, match="read-only"):
            await store.grants.revoke("pay")
        async with Runtime(pay, store=store) as runtime:
            outcome = await runtime.call("pay", {"amount": 1})

    assert outcome.code == "unavailable"


def test_pending_calls_are_listed_in_pages(run, tmp_path):
    async def create() -> None:
        async with Runtime(pay, store=tmp_path / "store.db") as runtime:
            await fill(runtime, 5)

    asyncio.run(create())
    store = ("--store", str(tmp_path / "store.db"))

    first = run("pending", "--limit", "2", *store)
    second = run("pending", "--limit", "2", "--after", first.lines[-1]["cursor"], *store)
    third = run("pending", "--limit", "2", "--after", second.lines[-1]["cursor"], *store)

    pages = [[line["call_id"] for line in page.lines] for page in (first, second, third)]
    assert pages == [["waiting-0", "waiting-1"], ["waiting-2", "waiting-3"], ["waiting-4"]]
    assert f"--after {first.lines[-1]['cursor']}" in first.err
    assert third.err == ""
    assert "is not a cursor" in run("pending", "--after", "nonsense", *store).err
