"""`write` and `edit` refuse a file that changed since the session read it."""

import os
from pathlib import Path
from typing import Any

import pytest

from surehand import Policy, Runtime
from surehand.builtin.files import file_versions
from surehand.builtin.files.tools import files

WRITES = {
    "write": {"file_path": "a.txt", "content": "mine\n"},
    "write_file": {"path": "a.txt", "content": "mine\n"},
    "edit": {"file_path": "a.txt", "old_string": "one", "new_string": "mine"},
    "edit_file": {"path": "a.txt", "edits": [{"old": "one", "new": "mine"}]},
}
READS: dict[str, dict[str, Any]] = {"read": {"file_path": "a.txt"}, "read_file": {"path": "a.txt"}}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "a.txt"
    path.write_text("one\ntwo\n")
    return path


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("read", READS)
async def test_a_file_that_changed_since_this_session_read_it_is_refused(file: Path, read: str, write: str) -> None:
    async with Runtime(files(file.parent, names="both")) as runtime:
        session = runtime.scope(user="ada", session="s1")
        await session.call(read, READS[read])
        file.write_text("one\nTWO\n")

        refused = await session.call(write, WRITES[write])
        assert refused.code == "conflict"
        assert "a.txt has changed since it was read. Nothing was changed now. Read it again" in refused.message
        assert file.read_text() == "one\nTWO\n"

        await session.call(read, READS[read])
        assert (await session.call(write, WRITES[write])).ok


@pytest.mark.parametrize("write", WRITES)
async def test_a_file_that_this_session_never_read_may_be_written(file: Path, write: str) -> None:
    async with Runtime(files(file.parent, names="both")) as runtime:
        await runtime.scope(user="ada", session="other").call("read", READS["read"])
        await runtime.scope(user="bob", session="s1").call("read", READS["read"])
        file.write_text("one\nTWO\n")

        assert (await runtime.scope(user="ada", session="s1").call(write, WRITES[write])).ok


async def test_own_changes_are_no_reason_to_read_again(file: Path) -> None:
    async with Runtime(files(file.parent)) as runtime:
        await runtime.call("read", READS["read"])
        for number in range(3):
            assert (await runtime.call("write", {"file_path": "a.txt", "content": f"one {number}\n"})).ok
            edit = {"file_path": "a.txt", "old_string": f"one {number}", "new_string": "two"}
            assert (await runtime.call("edit", edit)).ok

        file.write_text("somebody else's\n")
        assert (await runtime.call("write", WRITES["write"])).code == "conflict"


async def test_a_file_with_the_same_content_has_not_changed(file: Path) -> None:
    async with Runtime(files(file.parent)) as runtime:
        await runtime.call("read", READS["read"])
        file.unlink()
        file.write_text("one\ntwo\n")
        os.utime(file, (1, 1))

        assert (await runtime.call("write", WRITES["write"])).ok


async def test_a_file_that_was_deleted_since_may_be_written_anew(file: Path) -> None:
    async with Runtime(files(file.parent)) as runtime:
        await runtime.call("read", READS["read"])
        file.unlink()

        assert (await runtime.call("write", WRITES["write"])).ok
        assert (await runtime.call("write", WRITES["write"])).ok


async def test_a_large_file_is_told_by_its_status(file: Path) -> None:
    content = "one\n" + "x" * file_versions.MAX_COMPARED_BYTES
    file.write_text(content)
    async with Runtime(files(file.parent)) as runtime:
        await runtime.call("read", READS["read"])
        assert (await runtime.call("edit", WRITES["edit"])).ok
        assert (await runtime.call("edit", {**WRITES["edit"], "old_string": "mine", "new_string": "one"})).ok

        file.write_text(content.replace("one", "two"))
        os.utime(file, (1, 1))
        assert (await runtime.call("write", WRITES["write"])).code == "conflict"


async def test_a_link_and_its_file_are_the_same_file(file: Path) -> None:
    (file.parent / "link.txt").symlink_to("a.txt")
    async with Runtime(files(file.parent)) as runtime:
        await runtime.call("read", {"file_path": "link.txt"})
        file.write_text("changed\n")

        assert (await runtime.call("write", WRITES["write"])).code == "conflict"


async def test_a_file_that_was_moved_by_this_session_may_be_written(file: Path) -> None:
    (file.parent / "b.txt").write_text("another\n")
    async with Runtime(files(file.parent)) as runtime:
        for name in ("a.txt", "b.txt"):
            await runtime.call("read", {"file_path": name})
        await runtime.call("move_file", {"from": "b.txt", "to": "a.txt", "overwrite": True})

        assert (await runtime.call("write", WRITES["write"])).ok


async def test_only_the_latest_versions_are_kept(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_versions, "MAX_VERSIONS", 1)
    (file.parent / "b.txt").write_text("another\n")
    async with Runtime(files(file.parent)) as runtime:
        for name in ("a.txt", "b.txt"):
            await runtime.call("read", {"file_path": name})
        for path in file.parent.iterdir():
            path.write_text("one changed\n")

        assert (await runtime.call("write", WRITES["write"])).ok
        assert (await runtime.call("write", {"file_path": "b.txt", "content": ""})).code == "conflict"


async def test_a_change_while_a_person_decides_is_refused(file: Path) -> None:
    async with Runtime(files(file.parent), policy=Policy.default()) as runtime:
        await runtime.call("read", READS["read"])
        pending = await runtime.call("write", WRITES["write"])
        file.write_text("changed meanwhile\n")

        assert (await runtime.approve(pending.call_id)).code == "conflict"
    assert file.read_text() == "changed meanwhile\n"
