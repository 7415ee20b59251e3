"""Allowed paths: a workspace whose tools can touch some folders of the root, and nothing else of it."""

import os
from pathlib import Path
from typing import Any

import pytest

from surehand import Failed, Outcome, Runtime
from surehand.builtin.files.tools import files
from surehand.builtin.shell.tools import shell
from surehand.workspace.workspace import Workspace
from tests.requirements import needs

pytestmark = pytest.mark.timeout(30)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name in ("data", "docs", "private"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.txt").write_text(f"in {name}\n")
    (tmp_path / "top.txt").write_text("at the top\n")
    return tmp_path


async def call(space: Workspace, name: str, /, **arguments: Any) -> Outcome:
    async with Runtime(*files(space, names="long")) as runtime:
        return await runtime.call(name, arguments)


async def test_files_in_an_allowed_folder_can_be_used(root):
    space = Workspace(root, allowed_paths=["data", root / "docs"])

    assert (await call(space, "read_file", path="data/a.txt")).data["content"] == "in data\n"
    assert (await call(space, "read_file", path=str(root / "docs/a.txt"))).data["content"] == "in docs\n"
    assert (await call(space, "write_file", path="data/deep/new.txt", content="x")).ok
    assert (root / "data/deep/new.txt").read_text() == "x"


@pytest.mark.parametrize("path", ["top.txt", "private/a.txt", ".", "new.txt", "data/../top.txt", "/etc/passwd"])
async def test_everything_else_is_refused_and_the_allowed_folders_are_named(root, path):
    outcome = await call(Workspace(root, allowed_paths=["data", "docs"]), "read_file", path=path)

    assert isinstance(outcome, Failed)
    assert outcome.code == "denied"
    assert "Permission denied" in outcome.message
    if ".." not in path:
        assert "not in the allowed paths. Name a path in one of them: data, docs." in outcome.message


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("write_file", {"path": "top.txt", "content": "x"}),
        ("delete_file", {"path": "private/a.txt"}),
        ("move_file", {"from": "data/a.txt", "to": "moved.txt"}),
        ("list_files", {"path": "private"}),
        ("grep_files", {"pattern": "in", "path": "private"}),
        ("glob_files", {"pattern": "*.txt"}),
        ("get_file_info", {"path": "top.txt"}),
    ],
)
async def test_every_file_tool_is_limited(root, name, arguments):
    outcome = await call(Workspace(root, allowed_paths=["data"]), name, **arguments)

    assert isinstance(outcome, Failed)
    assert "Permission denied" in outcome.message
    assert (root / "top.txt").read_text() == "at the top\n"
    assert (root / "private/a.txt").exists()


async def test_a_link_out_of_an_allowed_folder_leads_nowhere(root):
    (root / "data/link.txt").symlink_to(root / "private/a.txt")

    outcome = await call(Workspace(root, allowed_paths=["data"]), "read_file", path="data/link.txt")

    assert isinstance(outcome, Failed)
    assert "in private" not in outcome.text


async def test_a_folder_that_does_not_exist_is_a_warning_and_can_be_used_once_it_does(root, caplog):
    space = Workspace(root, allowed_paths=["data", "later"])

    assert f"The allowed path {root.resolve() / 'later'} is not a directory" in caplog.text
    outcome = await call(space, "read_file", path="later/a.txt")
    assert (outcome.code, "A person has to create it first" in outcome.message) == ("not_found", True)
    (root / "later").mkdir()
    (root / "later/a.txt").write_text("late")
    assert (await call(space, "read_file", path="later/a.txt")).data["content"] == "late"


async def test_the_root_itself_may_be_allowed(root):
    assert (await call(Workspace(root, allowed_paths=["."]), "read_file", path="top.txt")).ok


def test_the_root_that_the_environment_sets_limits_allowed_paths_too(root, caplog):
    space = Workspace.detect(
        root / "data", allowed_paths=[".", root / "docs"], environment={"AGENT_WORKSPACE_ROOT": str(root / "data")}
    )

    assert [folder.path for folder in space.roots] == [(root / "data").resolve()]
    assert "Ignored the workspace directory" in caplog.text


@needs("bubblewrap")
async def test_commands_see_the_allowed_folders_alone(root):
    async with Runtime(*shell(Workspace(root, allowed_paths=["data"]))) as runtime:
        outcome = await runtime.call("bash", {"command": f"pwd; cat a.txt; ls {root}"})

    assert outcome.text.split() == [os.path.realpath(root / "data"), "in", "data", "data"]
