"""The workspace: its folders, what is allowed in them, and that a path never leaves them."""

import errno
import gc
import logging
import os
from pathlib import Path
from typing import Any

import pytest

from surehand import DefinitionError, Failed, Outcome, Runtime, ToolError
from surehand.builtin.files.tools import files
from surehand.workspace.os_errors import to_tool_error
from surehand.workspace.workspace import ROOT_VARIABLE, WRITES_VARIABLE, Workspace

pytestmark = pytest.mark.timeout(30)  # some of these have much to do, and a busy machine takes its time


async def call(space: Workspace, name: str, /, **arguments: Any) -> Outcome:
    async with Runtime(*(tool for tool in files(space, names="both") if tool.name == name)) as runtime:
        return await runtime.call(name, arguments)


def denied(outcome: Outcome) -> str:
    assert isinstance(outcome, Failed), outcome
    assert outcome.code == "denied", outcome
    assert "Permission denied" in outcome.message
    return outcome.message


# The root


def test_the_environment_sets_the_root_and_a_configured_one_narrows_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "inner").mkdir()
    elsewhere = tmp_path.parent
    monkeypatch.chdir(tmp_path / "inner")
    cap = {ROOT_VARIABLE: str(tmp_path)}

    found = {
        name: (space.root, space.source)
        for name, space in {
            "cwd": Workspace.detect(environment={}),
            "config": Workspace.detect(tmp_path, environment={}),
            "env": Workspace.detect(environment=cap),
            "narrowed": Workspace.detect(tmp_path / "inner", environment=cap),
            "ignored": Workspace.detect(elsewhere, environment=cap),
        }.items()
    }

    assert found == {
        "cwd": (tmp_path / "inner", "cwd"),
        "config": (tmp_path, "config"),
        "env": (tmp_path, "env"),
        "narrowed": (tmp_path / "inner", "config"),
        "ignored": (tmp_path, "env"),
    }
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
    assert Workspace(tmp_path).source == "given"


def test_a_link_does_not_lift_the_root_limit(tmp_path: Path) -> None:
    (tmp_path / "cap").mkdir()
    (tmp_path / "cap/out").symlink_to(tmp_path)

    assert (
        Workspace.detect(tmp_path / "cap/out", environment={ROOT_VARIABLE: str(tmp_path / "cap")}).root
        == tmp_path / "cap"
    )


def test_further_folders_are_limited_too(tmp_path: Path) -> None:
    for name in ("cap", "cap/in", "out"):
        (tmp_path / name).mkdir()

    space = Workspace.detect(
        environment={ROOT_VARIABLE: str(tmp_path / "cap")},
        extra=[tmp_path / "out", tmp_path / "cap/in"],
        read_only=[tmp_path / "out"],
    )

    assert [root.path for root in space.roots] == [tmp_path / "cap", tmp_path / "cap/in"]


def test_files_take_the_folder_that_the_environment_sets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ROOT_VARIABLE, str(tmp_path))

    assert Workspace.coerce().root == tmp_path
    assert Workspace.coerce(tmp_path.parent).root == tmp_path


def test_home_is_expanded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))

    assert Workspace("~").root == tmp_path
    assert Workspace.detect(environment={ROOT_VARIABLE: "~"}).root == tmp_path


@pytest.mark.parametrize(
    ("value", "writes"), [("false", False), ("0", False), ("No", False), ("true", True), ("", True)]
)
def test_the_environment_can_switch_writing_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: str, writes: bool
) -> None:
    monkeypatch.setenv(WRITES_VARIABLE, value)

    assert Workspace(tmp_path).writes is writes
    assert Workspace(tmp_path, writes=False).writes is False


def test_a_root_that_is_no_folder_is_a_definition_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for wrong in (tmp_path / "file", tmp_path / "missing"):
        with pytest.raises(DefinitionError, match="cannot be opened"):
            Workspace(wrong)


def test_options_cannot_be_set_for_an_existing_workspace(tmp_path: Path) -> None:
    space = Workspace(tmp_path)

    assert Workspace.coerce(space) is space
    with pytest.raises(DefinitionError, match="writes"):
        Workspace.coerce(space, writes=False)


def test_closing_a_workspace_closes_its_descriptors(tmp_path: Path) -> None:
    gc.collect()
    before = len(os.listdir("/dev/fd"))
    spaces = [Workspace(tmp_path, extra=[tmp_path]) for _ in range(10)]
    spaces[0].close()
    spaces[0].close()

    del spaces
    gc.collect()

    assert len(os.listdir("/dev/fd")) <= before  # threads of other tests may have ended meanwhile


async def test_a_closed_workspace_touches_nothing(tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    (tmp_path / "other").mkdir()
    space = Workspace(tmp_path / "root")
    number = space.roots[0].descriptor
    space.close()
    taken = os.open(tmp_path / "other", os.O_RDONLY)
    try:
        outcome = await call(space, "write", file_path="a.txt", content="x")
    finally:
        os.close(taken)

    assert taken == number
    assert isinstance(outcome, Failed)
    assert outcome.code == "unavailable"
    assert list(tmp_path.rglob("a.txt")) == []


async def test_a_root_that_is_moved_is_still_the_root(tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    space = Workspace(tmp_path / "root")
    (tmp_path / "root").rename(tmp_path / "moved")

    assert (await call(space, "write", file_path="a.txt", content="x")).ok
    assert (tmp_path / "moved/a.txt").exists()


# Several folders


@pytest.fixture
def several(tmp_path: Path) -> Workspace:
    for name in ("main", "main/vendor", "extra", "library"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.txt").write_text(name)
    return Workspace(
        tmp_path / "main", extra=[tmp_path / "extra"], read_only=[tmp_path / "library", tmp_path / "main/vendor"]
    )


async def test_further_folders_are_named_by_their_whole_path(several: Workspace, tmp_path: Path) -> None:
    main = await call(several, "read_file", path=str(tmp_path / "main/a.txt"))
    extra = await call(several, "read_file", path=f"{tmp_path}/extra/a.txt")

    assert (main.data["content"], main.data["path"]) == ("main", "a.txt")
    assert (extra.data["content"], extra.data["path"]) == ("extra", f"{tmp_path}/extra/a.txt")
    assert (await call(several, "write", file_path=f"{tmp_path}/extra/b.txt", content="x")).ok
    denied(await call(several, "read", file_path=f"{tmp_path}/extra_evil/a.txt"))
    denied(await call(several, "read", file_path=str(tmp_path)))


async def test_nothing_can_be_changed_in_a_read_only_folder(several: Workspace, tmp_path: Path) -> None:
    (tmp_path / "main/link").symlink_to("vendor")
    library = f"{tmp_path}/library"
    assert (await call(several, "read_file", path=f"{library}/a.txt")).ok
    assert (await call(several, "read_file", path="vendor/a.txt")).data["path"] == "vendor/a.txt"
    for path in (f"{library}/a.txt", f"{library}/new/b.txt", "vendor/a.txt", "vendor/new/b.txt", "link/a.txt",
                 "link/new/b.txt", f"{tmp_path}/main/vendor/b.txt"):  # fmt: skip
        denied(await call(several, "write", file_path=path, content="x"))
    for path in (f"{library}/a.txt", "vendor/a.txt", "link/a.txt"):
        denied(await call(several, "edit", file_path=path, old_string="a", new_string="b"))
        denied(await call(several, "delete_file", path=path))
        denied(await call(several, "move_file", **{"from": path, "to": "stolen"}))
        denied(await call(several, "move_file", **{"from": "a.txt", "to": path, "overwrite": True}))
    for path in ("vendor", library):
        denied(await call(several, "delete_file", path=path, recursive=True))
        denied(await call(several, "move_file", **{"from": path, "to": "elsewhere"}))

    assert sorted(path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*")) == [
        "extra", "extra/a.txt", "library", "library/a.txt", "main", "main/a.txt", "main/link", "main/vendor",
        "main/vendor/a.txt",
    ]  # fmt: skip


async def test_the_parent_of_a_root_cannot_be_deleted_or_moved(tmp_path: Path) -> None:
    (tmp_path / "main/deps/vendor").mkdir(parents=True)
    space = Workspace(tmp_path / "main", read_only=[tmp_path / "main/deps/vendor"])

    denied(await call(space, "delete_file", path="deps", recursive=True))
    denied(await call(space, "move_file", **{"from": "deps", "to": "elsewhere"}))
    assert (tmp_path / "main/deps/vendor").exists()


async def test_a_folder_that_is_extra_and_read_only_is_read_only(tmp_path: Path) -> None:
    space = Workspace(tmp_path, read_only=[tmp_path])

    denied(await call(space, "write", file_path="a.txt", content="x"))


# Paths


@pytest.mark.parametrize("path", ["", "   ", "\n", "a\0b", "\0"])
def test_an_invalid_path_is_refused(tmp_path: Path, path: str) -> None:
    with pytest.raises(ToolError, match="is no path"):
        Workspace(tmp_path).resolve(path)


def test_a_path_is_never_decoded(tmp_path: Path) -> None:
    space = Workspace(tmp_path)

    for name in ("%2e%2e%2fx", "..\\x", "~", "~root", "C:\\x", "\uff0e\uff0e", "..%00", "file:x", "$HOME"):
        assert space.resolve(name).parts == (name,)


def test_an_error_names_no_path_but_the_given_one_and_the_root(tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    (tmp_path / "hidden-name").mkdir()
    (tmp_path / "root/out").symlink_to(tmp_path / "hidden-name")
    space = Workspace(tmp_path / "root")

    for path in ("out", "out/x", "out/../x", f"{tmp_path}/hidden", "missing"):
        with pytest.raises(ToolError) as raised:
            space.resolve(path).open_descriptor()
        assert "hidden-name" not in str(raised.value)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
async def test_a_permission_error_of_the_system_is_denied(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    (tmp_path / "closed").mkdir(mode=0o700)
    (tmp_path / "file").write_text("x")
    (tmp_path / "file").chmod(0o600)
    space = Workspace(tmp_path)
    tools = {tool.name: tool for tool in files(space, names="both")}
    calls = [
        ("read", {"file_path": "file"}),
        ("list", {"path": "closed"}),
        ("write", {"file_path": "new", "content": ""}),
        ("write", {"file_path": "closed/new", "content": ""}),
        ("edit", {"file_path": "file", "old_string": "x", "new_string": "y"}),
        ("delete_file", {"path": "file"}),
        ("move_file", {"from": "file", "to": "moved"}),
    ]
    for name, _ in calls:
        tools[name].compile()

    os.seteuid(65534)
    try:
        outcomes = [await tools[name].run(arguments) for name, arguments in calls]
    finally:
        os.seteuid(0)

    for outcome in outcomes:
        assert "the operating system does not allow" in denied(outcome)
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["closed", "file"]


@pytest.mark.parametrize(
    ("number", "code", "words"),
    [
        (errno.ENOENT, "not_found", "not found"),
        (errno.EACCES, "denied", "Permission denied"),
        (errno.EROFS, "denied", "Permission denied"),
        (errno.EXDEV, "denied", "leads outside the workspace"),
        (errno.ELOOP, "denied", "in a circle"),
        (errno.EISDIR, "invalid_arguments", "it is a folder"),
        (errno.ENOTDIR, "invalid_arguments", "not a folder"),
        (errno.EEXIST, "conflict", "exists already"),
        (errno.EAGAIN, "unavailable", "Try again"),
        (errno.EMFILE, "unavailable", "too many files are open"),
        (errno.ENOSPC, "failed", "no room left"),
        (errno.EIO, "failed", "Input/output error"),
    ],
)
def test_errors_of_the_system_become_messages(tmp_path: Path, number: int, code: str, words: str) -> None:
    told = to_tool_error(Workspace(tmp_path).resolve("a.txt"), OSError(number, os.strerror(number)))

    assert told.code == code
    assert words in str(told)
    assert "a.txt" in str(told)


def test_a_root_may_be_named_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    space = Workspace(tmp_path / "link")

    for path in ("a.txt", f"{tmp_path}/link/a.txt", f"{tmp_path}/real/a.txt"):
        assert space.resolve(path).display_path == "a.txt"


# Keys


async def test_a_link_cannot_make_a_key_look_harmless(tmp_path: Path) -> None:
    (tmp_path / ".ssh").mkdir()
    (tmp_path / ".ssh/id_rsa").write_text("KEY")
    (tmp_path / ".ssh/config").write_text("Host")
    (tmp_path / "harmless").touch()
    (tmp_path / "notes.txt").symlink_to(".ssh/id_rsa")
    (tmp_path / "folder").symlink_to(".ssh")
    (tmp_path / ".env.example").symlink_to(".ssh/id_rsa")
    space = Workspace(tmp_path)

    calls = [
        ("read", {"file_path": "notes.txt"}),
        ("read_file", {"path": "folder/config"}),
        ("list", {"path": "folder"}),
        ("get_file_info", {"path": "notes.txt"}),
        ("write", {"file_path": "notes.txt", "content": "x"}),
        ("write", {"file_path": "folder/config", "content": "x"}),
        ("write", {"file_path": "folder/new/x", "content": "x"}),
        ("edit", {"file_path": "notes.txt", "old_string": "KEY", "new_string": "x"}),
        ("delete_file", {"path": "folder/config"}),
        ("move_file", {"from": "folder/config", "to": "x"}),
        ("move_file", {"from": "harmless", "to": "folder/config"}),
    ]
    before = len(os.listdir("/dev/fd"))
    tools = {tool.name: tool for tool in files(space, names="both")}
    for name, arguments in calls:
        assert "is sensitive" in denied(await tools[name].run(arguments)), name
        denied(await call(space, name, **arguments))
    assert len(os.listdir("/dev/fd")) < before + 5
    async with Runtime(files(space, names="both"), approver=_yes) as runtime:
        denied(await runtime.call("read", {"file_path": ".env.example"}))
        assert (await runtime.call("read", {"file_path": ".ssh/id_rsa"})).text == "     1\tKEY"
    assert sorted(path.name for path in (tmp_path / ".ssh").iterdir()) == ["config", "id_rsa"]


async def _yes(wait: Any) -> bool:
    return True


@pytest.mark.parametrize(
    "path",
    [".env", ".env.local", "prod.env", "a/.ENV", "config/credentials.json", "my-secrets/x.txt", "server.pem", ".SSH/x",
     "id_ed25519", ".aws/config", "x.kdbx", "keychain.keychain-db", ".git-credentials", "PASSWORDS.txt"],
)  # fmt: skip
def test_these_names_are_sensitive(tmp_path: Path, path: str) -> None:
    space = Workspace(tmp_path)

    assert space.is_sensitive(path)
    assert space.is_sensitive(str(tmp_path / path))
    assert Workspace(tmp_path, sensitive=()).is_sensitive(path) is False


@pytest.mark.parametrize("path", ["environment.py", "main.py", "keys.py", "README.md", "docs/env.md", "sshd.conf", ""])
def test_these_names_are_not_sensitive(tmp_path: Path, path: str) -> None:
    assert Workspace(tmp_path).is_sensitive(path) is False
