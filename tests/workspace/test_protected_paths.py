"""Protected and private paths: no file tool and no command may change them, by whatever name."""

import sqlite3
import subprocess
from pathlib import Path

import pytest

from surehand import Policy, Runtime, Workspace, files, shell
from surehand.assemble import assemble
from surehand.config.config import read_config
from tests.builtin.search_runtime import search_done, with_both_engines
from tests.requirements import needs

pytestmark = pytest.mark.timeout(30)  # some of these have much to do, and a busy machine takes its time


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A repository with a configuration, tools and a store in it."""
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf/tools.py").write_text("# tools\n")
    (tmp_path / "calls.db").write_text("kept")
    (tmp_path / "calls.db-wal").write_text("kept")
    (tmp_path / "link").symlink_to(".git")
    return tmp_path


def workspace(project: Path) -> Workspace:
    return Workspace(project, fixed=["conf/tools.py"], private=["calls.db"])


def state(project: Path) -> dict[str, bytes]:
    names = [".git/config", "conf/tools.py", "calls.db", "calls.db-wal"]
    hooks = {f".git/hooks/{path.name}": path.read_bytes() for path in (project / ".git/hooks").iterdir()}
    return hooks | {name: (project / name).read_bytes() for name in names}


CHANGES = [
    ("write", {"file_path": ".git/hooks/pre-commit", "content": "x"}),
    ("write", {"file_path": "link/hooks/pre-commit", "content": "x"}),
    ("write", {"file_path": ".git/config", "content": "x"}),
    ("edit", {"file_path": ".git/config", "old_string": "core", "new_string": "x"}),
    ("edit", {"file_path": "conf/tools.py", "old_string": "tools", "new_string": "x"}),
    ("move_file", {"from": ".git", "to": "git"}),
    ("move_file", {"from": "conf", "to": "other"}),
    ("move_file", {"from": "calls.db-wal", "to": "x"}),
    ("move_file", {"from": "link", "to": ".git/hooks/x"}),
    ("delete_file", {"path": ".git", "recursive": True}),
    ("delete_file", {"path": "conf/tools.py"}),
    ("delete_file", {"path": "calls.db-wal"}),
    ("write", {"file_path": "calls.db", "content": ""}),
    ("write", {"file_path": "calls.db-owner-1", "content": ""}),
]


@pytest.mark.parametrize(("name", "arguments"), CHANGES)
async def test_no_file_tool_changes_a_protected_path(project: Path, name, arguments) -> None:
    before = state(project)

    async with Runtime(files(workspace(project), names="both")) as runtime:
        outcome = await runtime.call(name, arguments)

    assert outcome.code == "denied"
    assert state(project) == before


async def test_other_paths_can_be_changed(project: Path) -> None:
    async with Runtime(files(workspace(project), names="both")) as runtime:
        for path in ("conf/new.py", ".git/info/exclude", "calls.dbx", "src/.git/hooks/x"):
            assert (await runtime.call("write", {"file_path": path, "content": "x"})).ok
        assert (await runtime.call("read", {"file_path": "conf/tools.py"})).ok
        assert (await runtime.call("move_file", {"from": "src", "to": "lib"})).ok


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("read", {"file_path": "calls.db"}),
        ("read_file", {"path": "calls.db-wal", "encoding": "latin-1"}),
        ("edit", {"file_path": "calls.db", "old_string": "a", "new_string": "b"}),
        ("move_file", {"from": "calls.db", "to": "a.txt"}),
        ("grep", {"pattern": "kept", "path": "calls.db"}),
    ],
)
async def test_a_private_path_cannot_be_read(project: Path, name, arguments) -> None:
    async with Runtime(files(workspace(project), names="both")) as runtime:
        assert "kept" not in (await runtime.call(name, arguments)).text


@with_both_engines
async def test_no_search_finds_a_private_file(project: Path, engine: str) -> None:
    (project / "known.txt").write_text("kept here")

    found = await search_done(workspace(project), engine, "grep", pattern="kept")

    assert (found.metadata["matchCount"], "known.txt" in found.text) == (1, True)


COMMANDS = [
    "echo x > .git/hooks/pre-commit",
    "echo x >> .git/config",
    "rm -rf .git/hooks",
    "mv .git git && mkdir -p .git/hooks && echo x > .git/hooks/pre-commit",
    "mv conf other && mkdir conf && echo x > conf/tools.py",
    "echo x > conf/tools.py",
    "ln -sf /dev/null conf/tools.py",
    "cat calls.db calls.db-wal",
    "echo x > calls.db-wal",
    "rm -f calls.db",
    "cp calls.db copy",
]


@needs("bubblewrap")
async def test_no_command_changes_a_protected_path(project: Path) -> None:
    before = state(project)

    async with Runtime(shell(workspace(project))) as runtime:
        for command in COMMANDS:
            outcome = await runtime.call("bash", {"command": command})
            assert not outcome.ok, command
            assert "kept" not in outcome.text
        assert (await runtime.call("bash", {"command": "echo y > conf/new.py && echo z > .git/description"})).ok

    assert state(project) == before


async def test_a_configuration_protects_itself_its_tools_and_its_store(tmp_path: Path) -> None:
    (tmp_path / "protected_tools.py").write_text(
        'from surehand import tool\n\n@tool\ndef hi() -> str:\n    """Hi."""\n    return "hi"\n'
    )
    (tmp_path / "surehand.yaml").write_text(
        "store: calls.db\ntools: [protected_tools.py]\nbuiltin: {files: {names: both}}\npolicy: [{decision: allow}]\n"
    )

    async with assemble(read_config(tmp_path / "surehand.yaml")) as runtime:
        for path in ("protected_tools.py", "surehand.yaml", "calls.db", "calls.db-wal"):
            assert (await runtime.call("write", {"file_path": path, "content": "x"})).code == "denied"
        assert (await runtime.call("read_file", {"path": "calls.db", "encoding": "latin-1"})).code == "denied"
        assert (await runtime.call("write", {"file_path": "protected_more.txt", "content": "x"})).ok
    with sqlite3.connect(tmp_path / "calls.db") as connection:
        assert connection.execute("SELECT count(*) FROM ledger").fetchone()[0] > 0
    connection.close()


async def test_a_standing_approval_of_harmless_calls_does_not_cover_keys(tmp_path: Path) -> None:
    async with Runtime(files(tmp_path, names="both"), policy=Policy.default()) as runtime:
        waits = await runtime.call("write", {"file_path": "notes.md", "content": "x"})
        assert (await runtime.approve(waits.call_id, always=True)).ok

        assert (await runtime.call("write", {"file_path": "more.md", "content": "x"})).ok
        asked = await runtime.call("write", {"file_path": ".env", "content": "x"})
        assert asked.waiting_for == "approval"
        assert (await runtime.approve(asked.call_id, always=True)).ok
        assert (await runtime.call("write", {"file_path": ".env", "content": "y"})).waiting_for == "approval"


@needs("bubblewrap")
async def test_a_read_only_folder_stays_read_only_when_its_parent_is_moved(tmp_path: Path) -> None:
    (tmp_path / "p/ro").mkdir(parents=True)
    (tmp_path / "p/ro/a.txt").write_text("old")
    space = Workspace(tmp_path, read_only=[tmp_path / "p/ro"])
    (tmp_path / "p").rename(tmp_path / "q")

    async with Runtime(files(space, names="both")) as runtime:
        for name, arguments in [
            ("write", {"file_path": "q/ro/a.txt", "content": "new"}),
            ("delete_file", {"path": "q/ro/a.txt"}),
            ("delete_file", {"path": "q", "recursive": True}),
        ]:
            assert (await runtime.call(name, arguments)).code == "denied"
    assert (tmp_path / "q/ro/a.txt").read_text() == "old"
