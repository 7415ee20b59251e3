"""`list` and `list_files`: the entries of a folder, folders first, within the limit."""

import os
import time
from pathlib import Path
from typing import Any

import pytest

from surehand import Done, Failed, Outcome, Pending, Runtime
from surehand.builtin.files import list_directory
from surehand.builtin.files.tools import files

pytestmark = pytest.mark.timeout(30)  # some of these have much to do, and a busy machine takes its time


async def call(where: Path, name: str = "list", /, **arguments: Any) -> Outcome:
    async with Runtime(*(tool for tool in files(where, names="both") if tool.name == name)) as runtime:
        return await runtime.call(name, arguments)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for name in ("src/app/main.py", "src/app/test_main.py", "src/util.py", "README.md", ".git/config", ".hidden"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    (tmp_path / "empty").mkdir()
    (tmp_path / "link").symlink_to("src")
    return tmp_path


async def test_folders_come_first_and_files_have_sizes(project: Path) -> None:
    outcome = await call(project)

    assert isinstance(outcome, Done)
    assert outcome.text == "empty/\nsrc/\nREADME.md  9 bytes\nlink  (link)"
    assert outcome.data == outcome.text
    assert outcome.metadata == {"path": ".", "entryCount": 4, "truncated": False}


async def test_hidden_names_are_listed_on_request(project: Path) -> None:
    outcome = await call(project, include_hidden=True)

    assert outcome.text == ".git/\nempty/\nsrc/\n.hidden  7 bytes\nREADME.md  9 bytes\nlink  (link)"


async def test_subfolders_follow_and_links_are_not_entered(project: Path) -> None:
    outcome = await call(project, recursive=True)

    assert outcome.text.split("\n") == [
        "empty/", "src/", "README.md  9 bytes", "link  (link)", "src/app/", "src/util.py  11 bytes",
        "src/app/main.py  15 bytes", "src/app/test_main.py  20 bytes",
    ]  # fmt: skip


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    for name in ("build/out.o", "src/main.py", "src/main.pyc", "src/gen/code.py", "src/keep.pyc", "a.log", ".git/HEAD"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    (tmp_path / ".gitignore").write_text("/build/\n*.pyc\n*.log\n")
    (tmp_path / "src/.gitignore").write_text("gen/\n!keep.pyc\n")
    return tmp_path


async def test_list_recursive_skips_what_git_ignores(repository: Path) -> None:
    outcome = await call(repository, recursive=True)
    below = await call(repository, path="src", recursive=True)
    records = await call(repository, "list_files", recursive=True)

    note = "\n\n({} left out that git ignores. Set include_ignored=true to list them.)"
    assert outcome.text == "src/\nsrc/keep.pyc  0 bytes\nsrc/main.py  0 bytes" + note.format(4)
    assert below.text == "keep.pyc  0 bytes\nmain.py  0 bytes" + note.format(2)
    assert [record["path"] for record in records.data["files"]] == [
        ".git", "src", ".gitignore", "src/.gitignore", "src/keep.pyc", "src/main.py"
    ]  # fmt: skip
    assert records.data["ignored"] == 4


async def test_what_git_ignores_is_listed_on_request_and_in_the_folder_itself(repository: Path) -> None:
    everything = await call(repository, recursive=True, include_ignored=True)
    one_folder = await call(repository)
    ignored_folder = await call(repository, path="build", recursive=True)
    hidden = await call(repository, recursive=True, include_hidden=True)

    assert {"build/out.o  0 bytes", "src/gen/code.py  0 bytes", "a.log  0 bytes"} <= set(everything.text.split("\n"))
    assert one_folder.text == "build/\nsrc/\na.log  0 bytes"
    assert ignored_folder.text == "out.o  0 bytes"
    assert ".git/" in hidden.text
    assert "HEAD" not in hidden.text


async def test_ignored_names_do_not_count_against_the_limit(tmp_path: Path) -> None:
    (tmp_path / ".gitignore").write_text("*.log\n")
    for number in range(50):
        (tmp_path / f"{number}.log").touch()
    (tmp_path / "z.txt").touch()

    outcome = await call(tmp_path, recursive=True, max_entries=1)

    assert outcome.text.startswith("z.txt  0 bytes\n")
    assert outcome.metadata["truncated"] is False


async def test_paths_are_relative_to_the_listed_folder(project: Path) -> None:
    assert (await call(project, path="")).text == (await call(project)).text
    for path in ("src", "./src/", str(project / "src"), "link"):
        assert (await call(project, path=path)).text == "app/\nutil.py  11 bytes"


async def test_an_empty_folder_says_so(project: Path) -> None:
    assert (await call(project, path="empty")).text == "(the folder is empty)"


async def test_a_long_list_is_cut_and_says_so(tmp_path: Path) -> None:
    for number in range(510):
        (tmp_path / f"{number:03}").touch()

    (tmp_path / "zz").mkdir()

    usual, few, many = await call(tmp_path), await call(tmp_path, max_entries=3), await call(tmp_path, max_entries=9999)

    assert isinstance(usual, Done)
    assert usual.metadata == {"path": ".", "entryCount": 200, "truncated": True}
    assert few.text.startswith("zz/\n000  0 bytes\n001  0 bytes\n\n(cut after 3 entries.")
    assert isinstance(many, Done)
    assert many.metadata["entryCount"] == 500


async def test_a_path_that_cannot_be_listed_is_an_error(project: Path) -> None:
    file, missing, outside = (
        await call(project, path="README.md"), await call(project, path="srcs"), await call(project, path="/etc")
    )  # fmt: skip

    assert isinstance(file, Failed)
    assert "is a file, not a folder" in file.message
    assert isinstance(missing, Failed)
    assert missing.code == "not_found"
    assert "Did you mean src?" in missing.message
    assert isinstance(outside, Failed)
    assert outside.code == "denied"


async def test_a_sensitive_folder_needs_approval_but_sensitive_names_are_listed(tmp_path: Path) -> None:
    (tmp_path / ".ssh").mkdir()
    (tmp_path / "secrets.txt").touch()

    assert (await call(tmp_path, include_hidden=True)).text == ".ssh/\nsecrets.txt  0 bytes"
    assert isinstance(await call(tmp_path, path=".ssh"), Pending)


async def test_strange_names_are_shown_escaped(tmp_path: Path) -> None:
    (tmp_path / "a\nb\t\x1b[0m").touch()
    (tmp_path / "\u202egnp\u3164.exe").touch()
    os.close(os.open(os.fsencode(tmp_path) + b"/\xff\xfe", os.O_CREAT | os.O_WRONLY))

    lines = (await call(tmp_path)).text.split("\n")
    records = (await call(tmp_path, "list_files")).data["files"]

    assert sorted(lines) == ["\\u202egnp\\u3164.exe  0 bytes", "\\udcff\\udcfe  0 bytes", "a\\nb\\t\\u001b[0m  0 bytes"]
    assert {record["name"] for record in records} == {"a\\nb\\t\\u001b[0m", "\\u202egnp\\u3164.exe", "\\udcff\\udcfe"}


async def test_an_unreadable_folder_is_skipped_or_refused(tmp_path: Path) -> None:
    (tmp_path / "closed").mkdir()
    (tmp_path / "closed").chmod(0)
    try:
        os.listdir(tmp_path / "closed")
    except PermissionError:
        assert "Permission denied" in (await call(tmp_path, path="closed")).text
    assert (await call(tmp_path, recursive=True)).text == "closed/"


# list_files


async def test_list_files_gives_records(project: Path) -> None:
    outcome = await call(project, "list_files", path="src")

    assert outcome.data == {
        "files": [
            {"name": "app", "path": "src/app", "isDir": True, "size": 0},
            {"name": "util.py", "path": "src/util.py", "isDir": False, "size": 11},
        ],
        "path": "src",
        "recursive": False,
        "count": 2,
        "truncated": False,
    }


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("*.py", ["src/util.py", "src/app/main.py", "src/app/test_main.py"]),
        ("test_*", ["src/app/test_main.py"]),
        ("src/*.py", ["src/util.py"]),
        ("src/**/*.py", ["src/util.py", "src/app/main.py", "src/app/test_main.py"]),
        ("**/app", ["src/app"]),
        ("*.{md,txt}", ["README.md"]),
        ("nothing", []),
    ],
)
async def test_list_files_takes_a_glob_not_a_regular_expression(project: Path, pattern: str, found: list[str]) -> None:
    outcome = await call(project, "list_files", recursive=True, pattern=pattern)

    assert [record["path"] for record in outcome.data["files"]] == found


async def test_list_files_shows_hidden_folders_without_entering_them(project: Path) -> None:
    outcome = await call(project, "list_files", recursive=True)

    paths = [record["path"] for record in outcome.data["files"]]
    assert ".git" in paths
    assert ".git/config" not in paths
    assert "link/util.py" not in paths


async def test_list_files_has_a_maximum(tmp_path: Path) -> None:
    for number in range(300):
        (tmp_path / f"{number}").touch()

    usual, all_of_them = await call(tmp_path, "list_files"), await call(tmp_path, "list_files", limit=100_000)

    assert (usual.data["count"], usual.data["truncated"]) == (200, True)
    assert (all_of_them.data["count"], all_of_them.data["truncated"]) == (300, False)


async def test_a_truncated_listing_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(list_directory, "_MAX_ENTRIES_MATCHED", 5)
    for number in range(9):
        (tmp_path / f"{number}").touch()

    outcome = await call(tmp_path, "list_files", pattern="8")

    assert outcome.data["files"] == []
    assert outcome.data["truncated"] is True


async def test_a_hostile_pattern_is_matched_quickly(tmp_path: Path) -> None:
    for number in range(50):
        (tmp_path / ("a" * 200 + f"{number}")).touch()
    began = time.process_time()

    outcome = await call(tmp_path, "list_files", pattern="*a" * 100 + "b")

    assert outcome.data["count"] == 0
    assert time.process_time() - began < 3


async def test_a_missing_folder_is_not_an_empty_one(tmp_path: Path) -> None:
    outcome = await call(tmp_path, "list_files", path="missing")

    assert isinstance(outcome, Failed)
    assert outcome.code == "not_found"
