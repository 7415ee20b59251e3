"""The file tools together: their names and schemas; deleting, moving and describing files."""

import os
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from surehand import (
    Catalogue,
    DefinitionError,
    Done,
    Failed,
    Outcome,
    Pending,
    Policy,
    Runtime,
    Workspace,
    files,
    shell,
    web,
)

pytestmark = pytest.mark.timeout(30)  # some of these have much to do, and a busy machine takes its time

PAIRS = {"read": "read_file", "write": "write_file", "edit": "edit_file", "list": "list_files"}
ALONE = {"delete_file", "move_file", "get_file_info"}
WRITING = {"write", "write_file", "edit", "edit_file", "delete_file", "move_file"}


async def call(where: Path | Workspace, name: str, /, **arguments: Any) -> Outcome:
    async with Runtime(*(tool for tool in files(where, names="both") if tool.name == name)) as runtime:
        return await runtime.call(name, arguments)


def failed(outcome: Outcome, code: str) -> str:
    assert isinstance(outcome, Failed), outcome
    assert outcome.code == code, outcome
    return outcome.message


# Which there are


def ours(tools: list[Any]) -> dict[str, Any]:
    return {tool.name: tool for tool in tools if tool.name in {*PAIRS, *PAIRS.values(), *ALONE}}


@pytest.mark.parametrize(
    ("names", "offered"),
    [("short", set(PAIRS)), ("long", set(PAIRS.values())), ("both", {*PAIRS, *PAIRS.values()})],
)
async def test_names_says_exactly_which_tools_there_are(tmp_path: Path, names: Any, offered: set[str]) -> None:
    known = {*PAIRS, *PAIRS.values(), *ALONE}
    async with Runtime(files(tmp_path, names=names)) as runtime:
        described = {one["function"]["name"] for one in runtime.describe("openai")}
        callable_names = {name for name in known if (await runtime.call(name, {"no": 1})).code != "not_found"}

    assert described & known == offered | ALONE
    assert callable_names == offered | ALONE


async def test_with_short_names_write_file_does_not_exist(tmp_path: Path) -> None:
    async with Runtime(files(tmp_path)) as runtime:
        outcome = await runtime.call("write_file", {"path": "a.txt", "content": "x"})

    assert outcome.code == "not_found"
    assert "Did you mean write" in outcome.message


def test_each_tool_declares_its_effects(tmp_path: Path) -> None:
    tools = ours(files(tmp_path, names="both"))

    assert {name for name, tool in tools.items() if tool.effects == {"write"}} == WRITING
    assert {name for name, tool in tools.items() if tool.effects == {"read"}} == tools.keys() - WRITING
    for tool in tools.values():
        assert tool.category == "file"
        assert tool.visible is False
        assert 5 <= len(tool.description.split()) <= 40
        assert all(field.get("description") for field in tool.schema["properties"].values()), tool.name
    listed = {listing.name for listing in Catalogue(*tools.values()).toolset("all_task_tools")}
    assert listed == tools.keys()


def test_the_parameters_match_the_source_documents(tmp_path: Path) -> None:
    tools = ours(files(tmp_path, names="both"))

    schemas = {name: tool.schema for name, tool in tools.items()}
    assert {name: (list(schema["properties"]), schema.get("required", [])) for name, schema in schemas.items()} == {
        "read": (["file_path", "offset", "limit", "line_numbers"], ["file_path"]),
        "read_file": (["path", "encoding", "offset", "limit"], ["path"]),
        "write": (["file_path", "content"], ["file_path", "content"]),
        "write_file": (["path", "content", "encoding"], ["path", "content"]),
        "edit": (["file_path", "old_string", "new_string", "replace_all"], ["file_path", "old_string", "new_string"]),
        "edit_file": (
            ["path", "edits", "whitespace_tolerant", "old_string", "new_string", "replace_all"], ["path"],
        ),
        "list": (["path", "recursive", "include_hidden", "include_ignored", "max_entries"], []),
        "list_files": (["path", "recursive", "pattern", "limit", "include_ignored"], []),
        "delete_file": (["path", "recursive"], ["path"]),
        "move_file": (["from", "to", "overwrite"], ["from", "to"]),
        "get_file_info": (["path"], ["path"]),
    }  # fmt: skip


def test_every_model_api_accepts_the_descriptions(tmp_path: Path) -> None:
    for names in ("short", "long", "both"):
        catalogue = Catalogue(*files(tmp_path, names=names))
        for api in ("openai", "anthropic", "gemini", "mcp"):
            assert catalogue.describe(api)


def test_invalid_options_are_definition_errors(tmp_path: Path) -> None:
    for wrong in (
        lambda: files(tmp_path / "missing"),
        lambda: files(tmp_path, names="all"),  # type: ignore[arg-type]
        lambda: files(Workspace(tmp_path), writes=False),
        lambda: files(tmp_path, extra=[tmp_path / "missing"]),
    ):
        with pytest.raises(DefinitionError):
            wrong()


async def test_a_workspace_can_be_shared(tmp_path: Path) -> None:
    outcome = await call(Workspace(tmp_path), "write", file_path="a.txt", content="x")

    assert outcome.ok
    assert (tmp_path / "a.txt").exists()


async def test_a_tool_runs_without_a_runtime(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("x")
    read = ours(files(tmp_path, names="both"))["read"]

    assert (await read.run({"file_path": "a.txt"})).text == "     1\tx"


# delete_file


async def test_a_file_a_link_and_an_empty_folder_are_deleted(tmp_path: Path) -> None:
    (tmp_path / "a.txt").touch()
    (tmp_path / "folder").mkdir()
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept/file").touch()
    (tmp_path / "link").symlink_to("kept")

    for name in ("a.txt", "folder", "link"):
        assert (await call(tmp_path, "delete_file", path=name)).data == {"deleted": True, "path": name}

    assert [path.name for path in sorted(tmp_path.rglob("*"))] == ["kept", "file"]


async def test_a_folder_with_content_is_deleted_only_with_recursive(tmp_path: Path) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside"
    (root / "folder/deep").mkdir(parents=True)
    (root / "folder/deep/file").touch()
    outside.mkdir()
    (outside / "mine").touch()
    (root / "folder/out").symlink_to(outside)

    refused = failed(await call(root, "delete_file", path="folder"), "conflict")
    before = (root / "folder/deep/file").exists()
    outcome = await call(root, "delete_file", path="folder", recursive=True)

    assert "not empty" in refused
    assert "recursive=true" in refused
    assert before
    assert outcome.ok
    assert list(root.iterdir()) == []
    assert (outside / "mine").exists()


@pytest.mark.parametrize(
    ("path", "code"), [("missing", "not_found"), (".", "denied"), ("/", "denied"), ("..", "denied"), ("/tmp", "denied")]
)
async def test_missing_and_outside_paths_are_not_deleted(tmp_path: Path, path: str, code: str) -> None:
    failed(await call(tmp_path, "delete_file", path=path, recursive=True), code)
    failed(await call(tmp_path, "delete_file", path=str(tmp_path), recursive=True), "denied")


async def test_deleting_a_folder_with_sensitive_files_needs_approval(tmp_path: Path) -> None:
    (tmp_path / "conf/deep").mkdir(parents=True)
    (tmp_path / "conf/deep/server.pem").touch()

    for path in ("conf", "conf/deep"):
        assert isinstance(await call(tmp_path, "delete_file", path=path, recursive=True), Pending)
    (tmp_path / "conf/deep/server.pem").unlink()
    assert (await call(tmp_path, "delete_file", path="conf", recursive=True)).ok


# move_file


async def test_files_and_folders_are_moved_and_bytes_stay(tmp_path: Path) -> None:
    (tmp_path / "a.bin").write_bytes(bytes(range(256)))
    inode = (tmp_path / "a.bin").stat().st_ino

    outcome = await call(tmp_path, "move_file", **{"from": "a.bin", "to": "new/b.bin"})
    folder = await call(tmp_path, "move_file", **{"from": "new", "to": "newer"})

    assert outcome.data == {"from": "a.bin", "to": "new/b.bin", "moved": True, "success": True}
    assert folder.ok
    assert (tmp_path / "newer/b.bin").read_bytes() == bytes(range(256))
    assert (tmp_path / "newer/b.bin").stat().st_ino == inode


async def test_an_existing_destination_stays_without_overwrite(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("a")
    (tmp_path / "b").write_text("b")

    refused = failed(await call(tmp_path, "move_file", **{"from": "a", "to": "b"}), "conflict")
    kept = (tmp_path / "b").read_text()
    outcome = await call(tmp_path, "move_file", **{"from": "a", "to": "b", "overwrite": True})

    assert "overwrite=true" in refused
    assert kept == "b"
    assert outcome.ok
    assert (tmp_path / "b").read_text() == "a"
    assert not (tmp_path / "a").exists()


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        ("missing", "x", "not_found"),
        ("folder", "folder/inside", "invalid_arguments"),
        ("a", "a", "invalid_arguments"),
        (".", "x", "denied"),
        ("a", ".", "denied"),
        ("a", "../x", "denied"),
        ("/etc/hostname", "x", "denied"),
        ("a", "/tmp/x", "denied"),
        ("a", "folder", "conflict"),
        ("a", "a/b", "invalid_arguments"),
    ],
)
async def test_a_failed_move_changes_nothing(tmp_path: Path, old: str, new: str, code: str) -> None:
    (tmp_path / "a").write_text("a")
    (tmp_path / "folder").mkdir()

    failed(await call(tmp_path, "move_file", **{"from": old, "to": new}), code)

    assert sorted(path.name for path in tmp_path.rglob("*")) == ["a", "folder"]


async def test_a_file_is_copied_to_another_file_system(tmp_path: Path) -> None:
    other = Path("/dev/shm")
    if not other.is_dir() or other.stat().st_dev == tmp_path.stat().st_dev:
        pytest.skip("there is no second file system here")
    elsewhere = other / f"surehand-{os.getpid()}"
    elsewhere.mkdir()
    try:
        (tmp_path / "a").write_bytes(b"\0\1")
        (tmp_path / "a").chmod(0o640)
        (tmp_path / "folder").mkdir()
        space = Workspace(tmp_path, extra=[elsewhere])
        moved = await call(space, "move_file", **{"from": "a", "to": f"{elsewhere}/new/a"})
        folder = await call(space, "move_file", **{"from": "folder", "to": f"{elsewhere}/folder"})
        (tmp_path / "a").write_text("second")
        taken = await call(space, "move_file", **{"from": "a", "to": f"{elsewhere}/new/a"})

        assert moved.ok, moved
        assert (elsewhere / "new/a").read_bytes() == b"\0\1"
        assert (elsewhere / "new/a").stat().st_mode & 0o777 == 0o640
        assert "only files can be moved" in failed(folder, "invalid_arguments")
        failed(taken, "conflict")
        assert (tmp_path / "a").read_text() == "second"
    finally:
        for path in sorted(elsewhere.rglob("*"), reverse=True):
            path.rmdir() if path.is_dir() else path.unlink()
        elsewhere.rmdir()


async def test_moving_a_sensitive_file_needs_approval(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("TOKEN=1")

    out = await call(tmp_path, "move_file", **{"from": ".env", "to": "notes.txt"})
    (tmp_path / "notes.txt").write_text("x")
    over = await call(tmp_path, "move_file", **{"from": "notes.txt", "to": ".env", "overwrite": True})

    assert isinstance(out, Pending)
    assert out.message == "Allow to move .env to notes.txt: .env looks like keys or credentials?"
    assert isinstance(over, Pending)


# get_file_info


async def test_get_file_info_describes_files_and_folders(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("four")
    os.utime(tmp_path / "a.txt", (1_700_000_000.5, 1_700_000_000.5))
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "fifo")

    file, folder, fifo = [await call(tmp_path, "get_file_info", path=name) for name in ("a.txt", "folder", "fifo")]

    assert file.data == {
        "exists": True, "size": 4, "modified": "2023-11-14T22:13:20.500+00:00", "isDirectory": False, "isFile": True,
        "path": "a.txt",
    }  # fmt: skip
    assert datetime.fromisoformat(file.data["modified"]).timestamp() == 1_700_000_000.5
    assert (folder.data["isDirectory"], folder.data["isFile"]) == (True, False)
    assert (fifo.data["isDirectory"], fifo.data["isFile"]) == (False, False)


async def test_a_missing_path_fails_with_exists_false_in_data(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    for path in ("missing", "missing/deep", "file/below"):
        outcome = await call(tmp_path, "get_file_info", path=path)
        assert "not found" in failed(outcome, "not_found")
        assert outcome.data == {"exists": False}


# The contract of the source documents


async def test_missing_and_outside_files_fail_with_the_documented_errors(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("hello")

    read = await call(tmp_path, "read_file", path="a.txt")
    missing = await call(tmp_path, "read_file", path="missing.txt")
    outside = await call(tmp_path, "read_file", path="/etc/passwd")

    assert isinstance(read, Done)
    assert read.data["content"] == "hello"
    assert "not found" in failed(missing, "not_found")
    assert "Permission denied" in failed(outside, "denied")


@pytest.mark.parametrize(
    ("name", "arguments", "question"),
    [
        ("delete_file", {"path": "d", "recursive": True}, "Allow to delete d and all that is in it?"),
        ("delete_file", {"path": "a.txt"}, "Allow to delete a.txt?"),
        ("move_file", {"from": "a.txt", "to": "b.txt"}, "Allow to move a.txt to b.txt?"),
        ("move_file", {"from": "a", "to": "b", "overwrite": True}, "Allow to move a to b, replacing what is there?"),
        ("write", {"file_path": "a.txt", "content": ""}, "Allow to change a.txt?"),
    ],
)
async def test_the_approval_question_describes_the_change(tmp_path: Path, name, arguments, question) -> None:
    (tmp_path / "d").mkdir()
    for file in ("a.txt", "a", "b"):
        (tmp_path / file).write_text("x")
    async with Runtime(files(tmp_path, names="both"), policy=Policy.default()) as runtime:
        assert (await runtime.call(name, arguments)).message == question


@pytest.mark.parametrize("option", ["extra", "read_only"])
async def test_a_single_extra_folder_needs_no_list(tmp_path: Path, option) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()

    async with Runtime(files(tmp_path / "a", **{option: str(tmp_path / "b")})) as runtime:
        assert (await runtime.call("list", {"path": str(tmp_path / "b")})).ok


@pytest.mark.parametrize("factory", [files, shell, web])
def test_a_factory_that_was_not_called_is_a_definition_error(factory) -> None:
    with pytest.raises(DefinitionError, match="is a factory of tools, not a tool"):
        Runtime(factory)
