"""`write` and `write_file`: the whole content of a file at once, all of it or nothing."""

import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from surehand import Done, Failed, Outcome, Pending, Policy, Runtime
from surehand.builtin.files.tools import files
from surehand.workspace import directory_entry

pytestmark = pytest.mark.timeout(30)  # some write large files, which takes long on a busy machine

REWRITING = """
import sys
from surehand.workspace.workspace import Workspace
path = Workspace(sys.argv[1]).resolve("a.txt")
path.write_atomically(b"A" * 500_000)
print("started", flush=True)
while True:
    for letter in (b"B", b"A"):
        path.write_atomically(letter * 500_000)
"""


async def call(where: Path, name: str, /, **arguments: Any) -> Outcome:
    async with Runtime(*(tool for tool in files(where, names="both") if tool.name == name)) as runtime:
        return await runtime.call(name, arguments)


async def write(where: Path, path: str, content: str) -> Outcome:
    return await call(where, "write", file_path=path, content=content)


def failed(outcome: Outcome, code: str) -> Failed:
    assert isinstance(outcome, Failed), outcome
    assert outcome.code == code, outcome
    return outcome


def left_behind(where: Path) -> list[Path]:
    return [path for path in where.rglob("*") if path.name.endswith(".tmp")]


async def test_a_new_file_is_created_with_its_parent_folders(tmp_path: Path) -> None:
    outcome = await write(tmp_path, "a/b/c.txt", "Grüße\n")

    assert isinstance(outcome, Done)
    assert (tmp_path / "a/b/c.txt").read_bytes() == "Grüße\n".encode()
    assert outcome.metadata == {"path": "a/b/c.txt", "bytesWritten": 8, "existedBefore": False}
    assert outcome.title == "Created a/b/c.txt"
    assert outcome.text == "Created a/b/c.txt (8 bytes)."


async def test_existing_content_is_replaced_and_reported(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a longer text than the new one")

    outcome = await write(tmp_path, "a.txt", "new")

    assert isinstance(outcome, Done)
    assert outcome.title == "Overwrote a.txt"
    assert outcome.metadata["existedBefore"] is True
    assert (tmp_path / "a.txt").read_text() == "new"
    assert left_behind(tmp_path) == []


async def test_the_content_is_written_literally(tmp_path: Path) -> None:
    content = "a\r\nb\n\tc \0 $1 \\n \u2028 \U0001f600"

    await write(tmp_path, "a.txt", content)

    assert (tmp_path / "a.txt").read_bytes() == content.encode()


async def test_the_mode_of_a_file_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "run.sh"
    path.write_text("old")
    path.chmod(0o750)

    await write(tmp_path, "run.sh", "new")

    assert stat.S_IMODE(path.stat().st_mode) == 0o750


async def test_write_file_returns_the_documented_fields(tmp_path: Path) -> None:
    made = await call(tmp_path, "write_file", path="a.txt", content="Köln", encoding="latin1")

    assert made.data == {"bytesWritten": 4, "path": "a.txt", "existedBefore": False}
    assert (tmp_path / "a.txt").read_bytes() == b"K\xf6ln"


@pytest.mark.parametrize(
    ("content", "encoding", "written"),
    [
        ("AAEC", "base64", b"\0\1\2"),
        ("a", "utf-16", b"\xff\xfea\0"),
        ("a", "utf-8-sig", b"\xef\xbb\xbfa"),
        ("", None, b""),
    ],
)
async def test_write_file_writes_in_an_encoding(
    tmp_path: Path, content: str, encoding: str | None, written: bytes
) -> None:
    await call(tmp_path, "write_file", path="a", content=content, encoding=encoding)

    assert (tmp_path / "a").read_bytes() == written


@pytest.mark.parametrize(("content", "encoding"), [("a", "base64"), ("→", "latin-1"), ("a", "rot13"), ("a", "nothing")])
async def test_content_that_cannot_be_encoded_leaves_no_file(tmp_path: Path, content: str, encoding: str) -> None:
    outcome = await call(tmp_path, "write_file", path="new/a", content=content, encoding=encoding)

    failed(outcome, "invalid_arguments")
    assert list(tmp_path.iterdir()) == []


async def test_too_large_content_is_refused(tmp_path: Path) -> None:
    failed(await write(tmp_path, "a.txt", "x" * (10 * 1024 * 1024 + 1)), "too_large")

    assert not (tmp_path / "a.txt").exists()


async def test_a_folder_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()

    assert "is a folder" in failed(await write(tmp_path, "src", "x"), "invalid_arguments").message
    failed(await write(tmp_path, ".", "x"), "denied")


async def test_a_file_in_place_of_a_parent_folder_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x")

    failed(await write(tmp_path, "a/b", "x"), "invalid_arguments")


async def test_a_path_that_ends_in_a_slash_is_refused(tmp_path: Path) -> None:
    for path in ("new/", "a/b//"):
        assert "ends in a slash" in failed(await write(tmp_path, path, "x"), "invalid_arguments").message

    assert list(tmp_path.iterdir()) == []


async def test_a_link_stays_and_its_target_is_written(tmp_path: Path) -> None:
    (tmp_path / "real.txt").write_text("old")
    (tmp_path / "link.txt").symlink_to("real.txt")

    await write(tmp_path, "link.txt", "new")

    assert (tmp_path / "link.txt").is_symlink()
    assert (tmp_path / "real.txt").read_text() == "new"


async def test_a_link_to_nothing_is_not_written_through(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    (root / "dangling").symlink_to("missing.txt")
    (root / "outwards").symlink_to(tmp_path / "new.txt")

    assert not (await write(root, "dangling", "x")).ok
    failed(await write(root, "outwards", "x"), "denied")
    assert not (tmp_path / "new.txt").exists()
    assert left_behind(tmp_path) == []


async def test_a_file_with_hard_links_is_not_written(tmp_path: Path) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside.txt"
    root.mkdir()
    outside.write_text("mine")
    os.link(outside, root / "hard.txt")

    assert "2 names" in failed(await write(root, "hard.txt", "x"), "denied").message
    assert outside.read_text() == "mine"


async def test_a_fifo_is_not_written(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")

    failed(await write(tmp_path, "fifo", "x"), "invalid_arguments")
    assert stat.S_ISFIFO((tmp_path / "fifo").stat().st_mode)


async def test_unusual_names_are_written_and_shown_escaped(tmp_path: Path) -> None:
    outcome = await write(tmp_path, "new\nline\x1b[31m\u202e.txt", "x")

    assert outcome.text == "Created new\\nline\\u001b[31m\\u202e.txt (1 byte)."
    assert (tmp_path / "new\nline\x1b[31m\u202e.txt").exists()


@pytest.mark.parametrize("path", ["x" * 256, "/".join(["d" * 200] * 30), "x" * 100_000, "a/" * 2500 + "b"])
async def test_paths_that_are_too_long_are_refused_in_a_few_words(tmp_path: Path, path: str) -> None:
    told = failed(await write(tmp_path, path, "x"), "invalid_arguments")

    assert "too long" in told.message
    assert len(told.message) < 500


async def test_a_very_deep_path_is_created_and_deleted(tmp_path: Path) -> None:
    path = "d/" * 500 + "a.txt"
    async with Runtime(files(tmp_path, names="both")) as runtime:
        assert (await runtime.call("write", {"file_path": path, "content": "deep"})).ok
        assert (await runtime.call("read", {"file_path": path})).text == "     1\tdeep"
        too_deep = await runtime.call("delete_file", {"path": "d", "recursive": True})
        for depth in (250, 1):
            assert (await runtime.call("delete_file", {"path": "d/" * depth, "recursive": True})).ok

    assert "more than 400 deep" in failed(too_deep, "failed").message
    assert list(tmp_path.iterdir()) == []


async def test_a_full_disk_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.txt").write_text("old")

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    outcome = await write(tmp_path, "a.txt", "new")

    assert "no room left" in failed(outcome, "failed").message
    assert (tmp_path / "a.txt").read_text() == "old"
    assert left_behind(tmp_path) == []


@pytest.mark.skipif(not hasattr(os, "O_TMPFILE"), reason="files without a name are Linux's")
async def test_writing_works_without_o_tmpfile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(directory_entry, "_UNNAMED_FILE_FLAG", 0)
    (tmp_path / "a.txt").write_text("old")
    (tmp_path / "a.txt").chmod(0o640)

    assert (await write(tmp_path, "a.txt", "new")).ok
    assert (await write(tmp_path, "b.txt", "new")).ok
    assert stat.S_IMODE((tmp_path / "a.txt").stat().st_mode) == 0o640
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.txt", "b.txt"]


@pytest.mark.long
def test_a_killed_process_leaves_the_old_or_the_new_content(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"A" * 500_000)
    for _ in range(8):
        with subprocess.Popen([sys.executable, "-c", REWRITING, tmp_path], stdout=subprocess.PIPE) as child:
            assert child.stdout is not None
            assert child.stdout.readline() == b"started\n"
            child.kill()
        assert path.read_bytes() in (b"A" * 500_000, b"B" * 500_000)


# Asking


async def test_the_approval_shows_a_diff(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\ntwo\nthree\n")
    async with Runtime(files(tmp_path, names="both"), policy=Policy.default()) as runtime:
        old = await runtime.call("write", {"file_path": "a.txt", "content": "one\n2\nthree\n"})
        new = await runtime.call("write_file", {"path": "b.txt", "content": "x"})
        assert isinstance(old, Pending)
        assert isinstance(new, Pending)
        done = await runtime.approve(old.call_id)

    assert old.message == "Allow to change a.txt?"
    assert old.request["preview"] == {
        "type": "diff",
        "filePath": "a.txt",
        "patch": "--- a/a.txt\n+++ b/a.txt\n@@ -1,3 +1,3 @@\n one\n-two\n+2\n three",
        "isNewFile": False,
    }
    assert new.request["preview"] == {
        "type": "diff",
        "filePath": "b.txt",
        "patch": "--- /dev/null\n+++ b/b.txt\n@@ -0,0 +1,1 @@\n+x\n\\ No newline at end of file",
        "isNewFile": True,
    }
    assert done.ok


@pytest.mark.parametrize("path", ["a.bin", "big.txt"])
async def test_a_file_that_cannot_be_compared_can_be_replaced_and_the_preview_gives_the_reason(
    tmp_path: Path, path: str
) -> None:
    (tmp_path / "a.bin").write_bytes(b"\0")
    (tmp_path / "big.txt").write_bytes(b"x" * 11_000_000)
    async with Runtime(files(tmp_path, names="both"), policy=Policy.default()) as runtime:
        asked = await runtime.call("write", {"file_path": path, "content": "x"})

        large = await runtime.call("write", {"file_path": "new.txt", "content": "x" * 2_000_000})

    assert isinstance(asked, Pending)
    assert asked.request["preview"]["problem"]
    assert isinstance(large, Pending)
    assert "too large to be compared" in large.request["preview"]["problem"]


async def test_sensitive_files_need_approval_even_if_writing_is_allowed(tmp_path: Path) -> None:
    for path in (".env", "deploy/server.PEM", ".ssh/config"):
        asked = await write(tmp_path, path, "x")
        assert isinstance(asked, Pending)
        assert path in asked.message


# Where nothing may be changed


async def test_writing_can_be_switched_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with Runtime(files(tmp_path, names="both", writes=False)) as runtime:
        outcome = await runtime.call("write", {"file_path": "a.txt", "content": "x"})
        shown = [one["function"]["name"] for one in runtime.describe("openai")]

    assert "changing files is switched off" in failed(outcome, "denied").message
    assert "read" in shown
    assert not {"write", "edit", "delete_file", "move_file"} & set(shown)

    monkeypatch.setenv("AGENT_FILESYSTEM_WRITES_ENABLED", "0")
    async with Runtime(files(tmp_path)) as runtime:
        failed(await runtime.call("write", {"file_path": "a.txt", "content": "x"}), "denied")
    assert list(tmp_path.iterdir()) == []
