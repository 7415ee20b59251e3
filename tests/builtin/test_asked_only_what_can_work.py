"""People are asked only what can work: each built-in tool ends a call that is known to fail before anybody is asked."""

import os
from pathlib import Path
from typing import Any

import pytest

from surehand import Pending, Policy, Runtime, Workspace, clock, data, env, files, memory, shell, todo, web
from tests.requirements import needs

ASK = Policy([{"decision": "ask"}])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A workspace with a folder, a text file, a binary file, a sensitive file, and a protected one."""
    for name in ("work", "work/full", "notes", "books", "outside"):
        (tmp_path / name).mkdir()
    (tmp_path / "work/a.txt").write_text("one\ntwo\n")
    (tmp_path / "work/b.txt").write_text("b")
    (tmp_path / "work/full/c.txt").write_text("c")
    (tmp_path / "work/.env").write_text("TOKEN=1")
    (tmp_path / "work/fixed.txt").write_text("as it is")
    (tmp_path / "work/two-names").write_text("x")
    os.link(tmp_path / "work/two-names", tmp_path / "outside/other-name")
    (tmp_path / "work/escape").symlink_to(tmp_path / "outside")
    (tmp_path / "notes/facts.md").write_text("# Facts\nonce, twice, twice\n")
    (tmp_path / "books/book.txt").write_text("read only")
    return tmp_path


def tools(folder: Path) -> list[Any]:
    workspace = Workspace(folder / "work", read_only=[folder / "books"], fixed=[folder / "work/fixed.txt"])
    return [
        files(workspace, names="both"),
        shell(workspace),
        web(ports=[443], deny_hosts=["*.example.org"]),
        memory(folder / "notes"),
        env(allow=["APP_*"], environment={}),
        data(),
        clock(),
        todo(),
    ]


BOOK = "{folder}/books/book.txt"
REFUSED: list[tuple[str, dict[str, Any], str]] = [
    # a path outside the workspace
    *((name, {key: "/etc/passwd"}, "denied") for name, key in (
        ("read", "file_path"), ("read_file", "path"), ("list", "path"), ("list_files", "path"),
        ("get_file_info", "path"), ("delete_file", "path"),
    )),
    ("read", {"file_path": "../x"}, "denied"),
    ("read_file", {"path": "../x"}, "denied"),
    ("list", {"path": "../x"}, "denied"),
    ("glob", {"pattern": "*", "path": "/etc"}, "denied"),
    ("glob_files", {"pattern": "*", "cwd": "/etc"}, "denied"),
    ("grep", {"pattern": "x", "path": "/etc"}, "denied"),
    ("grep_files", {"pattern": "x", "path": "/etc"}, "denied"),
    ("write", {"file_path": "/etc/x", "content": ""}, "denied"),
    ("write", {"file_path": "escape/x", "content": ""}, "denied"),
    ("write_file", {"path": "../x", "content": ""}, "denied"),
    ("edit", {"file_path": "/etc/passwd", "old_string": "a", "new_string": "b"}, "denied"),
    ("edit_file", {"path": "/etc/passwd", "edits": [{"old": "a", "new": "b"}]}, "denied"),
    ("move_file", {"from": "/etc/passwd", "to": "p"}, "denied"),
    ("move_file", {"from": "a.txt", "to": "/etc/p"}, "denied"),
    ("bash", {"command": "true", "workdir": "/etc"}, "denied"),
    # a missing file
    ("read", {"file_path": "missing.txt"}, "not_found"),
    ("read_file", {"path": "missing.txt"}, "not_found"),
    ("list", {"path": "missing"}, "not_found"),
    ("list_files", {"path": "missing"}, "not_found"),
    ("glob", {"pattern": "*", "path": "missing"}, "not_found"),
    ("glob_files", {"pattern": "*", "cwd": "missing"}, "not_found"),
    ("grep", {"pattern": "x", "path": "missing"}, "not_found"),
    ("grep_files", {"pattern": "x", "path": "missing"}, "not_found"),
    ("get_file_info", {"path": "missing"}, "not_found"),
    ("edit", {"file_path": "missing.txt", "old_string": "a", "new_string": "b"}, "not_found"),
    ("edit_file", {"path": "missing.txt", "edits": [{"old": "a", "new": "b"}]}, "not_found"),
    ("delete_file", {"path": "missing.txt"}, "not_found"),
    ("move_file", {"from": "missing.txt", "to": "new.txt"}, "not_found"),
    ("bash", {"command": "true", "workdir": "missing"}, "not_found"),
    ("memory_read", {"path": "missing.md"}, "not_found"),
    ("memory_patch", {"path": "missing.md", "old_str": "a", "new_str": "b"}, "not_found"),
    # a folder in place of a file, and a file in place of a folder
    ("read", {"file_path": "full"}, "invalid_arguments"),
    ("read_file", {"path": "full"}, "invalid_arguments"),
    ("write", {"file_path": "full", "content": ""}, "invalid_arguments"),
    ("write", {"file_path": "new/", "content": ""}, "invalid_arguments"),
    ("write_file", {"path": "a.txt/below.txt", "content": ""}, "invalid_arguments"),
    ("list", {"path": "a.txt"}, "invalid_arguments"),
    ("glob", {"pattern": "*", "path": "a.txt"}, "invalid_arguments"),
    ("bash", {"command": "true", "workdir": "a.txt"}, "invalid_arguments"),
    # an edit whose text is not there, or that changes nothing
    ("edit", {"file_path": "a.txt", "old_string": "three", "new_string": "x"}, "invalid_arguments"),
    ("edit", {"file_path": "a.txt", "old_string": "one", "new_string": "one"}, "invalid_arguments"),
    ("edit_file", {"path": "a.txt", "edits": [{"old": "three", "new": "x"}]}, "invalid_arguments"),
    ("edit_file", {"path": "a.txt"}, "invalid_arguments"),
    ("memory_patch", {"path": "facts.md", "old_str": "never", "new_str": "x"}, "invalid_arguments"),
    ("memory_patch", {"path": "facts.md", "old_str": "twice", "new_str": "x"}, "invalid_arguments"),
    # what may not be changed, or cannot be
    ("write", {"file_path": BOOK, "content": ""}, "denied"),
    ("edit", {"file_path": BOOK, "old_string": "read", "new_string": "x"}, "denied"),
    ("delete_file", {"path": BOOK}, "denied"),
    ("move_file", {"from": "a.txt", "to": "{folder}/books/a.txt"}, "denied"),
    ("write", {"file_path": "fixed.txt", "content": ""}, "denied"),
    ("edit", {"file_path": "fixed.txt", "old_string": "as", "new_string": "x"}, "denied"),
    ("delete_file", {"path": "fixed.txt"}, "denied"),
    ("write", {"file_path": "two-names", "content": ""}, "denied"),
    ("delete_file", {"path": "."}, "denied"),
    ("delete_file", {"path": "full"}, "conflict"),
    ("move_file", {"from": "a.txt", "to": "b.txt"}, "conflict"),
    ("move_file", {"from": "full", "to": "full/below"}, "invalid_arguments"),
    ("write_file", {"path": "new.txt", "content": "no base64!", "encoding": "base64"}, "invalid_arguments"),
    ("write_file", {"path": "new.txt", "content": "x", "encoding": "no-codec"}, "invalid_arguments"),
    ("bash", {"command": "a\0b"}, "invalid_arguments"),
    # memory paths, variables
    ("memory_read", {"path": "../x.md"}, "denied"),
    ("memory_write", {"path": "../x.md", "content": ""}, "denied"),
    ("memory_append", {"path": "facts.txt", "entry": "x"}, "invalid_arguments"),
    ("get_env", {"key": "HOME"}, "denied"),
    ("set_env", {"key": "HOME", "value": "/"}, "denied"),
    # addresses, ports and requests
    *((name, {"url": url}, "denied") for name in ("webfetch", "http_get", "http_post") for url in (
        "https://example.com:8443/", "http://example.com/", "https://127.0.0.1/", "https://localhost/",
        "https://[::1]/", "https://0x7f.1/", "https://169.254.169.254/latest", "https://www.example.org/",
        "file:///etc/passwd",
    )),
    ("http_request", {"method": "PUT", "url": "https://10.0.0.1/"}, "denied"),
    ("http_request", {"method": "GET", "url": "https://example.com/", "body": "x"}, "invalid_arguments"),
    ("http_get", {"url": "https://example.com/", "headers": {"a b": "c"}}, "invalid_arguments"),
    ("webfetch", {"url": "no url"}, "invalid_arguments"),
]  # fmt: skip


def with_folder(arguments: dict[str, Any], folder: Path) -> dict[str, Any]:
    def replaced(value: Any) -> Any:
        return value.replace("{folder}", str(folder)) if isinstance(value, str) else value

    return {name: replaced(value) for name, value in arguments.items()}


@pytest.mark.parametrize(("name", "arguments", "code"), REFUSED)
async def test_a_call_that_is_known_to_fail_ends_before_anybody_is_asked(
    folder: Path, name: str, arguments: dict[str, Any], code: str
) -> None:
    async def approver(pending_call: Any) -> bool:
        raise AssertionError("nobody must be asked")

    async with Runtime(*tools(folder), policy=ASK, approver=approver) as runtime:
        outcome = await runtime.call(name, with_folder(arguments, folder))
        waiting = await runtime.pending()

    assert not isinstance(outcome, Pending), outcome
    assert (outcome.code, outcome.executed) == (code, False)
    assert waiting == []


@pytest.mark.parametrize(("name", "arguments", "code"), [row for row in REFUSED if row[0] != "bash"])
async def test_the_call_would_fail_in_the_same_way_if_nobody_were_asked(
    folder: Path, name: str, arguments: dict[str, Any], code: str
) -> None:
    async with Runtime(*tools(folder), policy=ASK) as runtime:
        asked = await runtime.call(name, with_folder(arguments, folder))
    async with Runtime(*tools(folder)) as runtime:
        ran = await runtime.call(name, with_folder(arguments, folder))

    assert (asked.code, asked.message, asked.data) == (ran.code, ran.message, ran.data)


ASKED: list[tuple[str, dict[str, Any]]] = [
    ("read", {"file_path": "a.txt"}),
    ("read", {"file_path": ".env"}),
    ("read_file", {"path": "a.txt"}),
    ("write", {"file_path": "new/deep/file.txt", "content": "x"}),
    ("write", {"file_path": "new/fixed.txt", "content": "x"}),
    ("write_file", {"path": "a.txt", "content": "x"}),
    ("edit", {"file_path": "a.txt", "old_string": "one", "new_string": "1"}),
    ("list", {}),
    ("list", {"path": ""}),
    ("glob", {"pattern": "*.txt"}),
    ("grep", {"pattern": "one"}),
    ("grep", {"pattern": "one", "path": "a.txt"}),
    ("grep_files", {"pattern": "one"}),
    ("get_file_info", {"path": "full"}),
    ("delete_file", {"path": "a.txt"}),
    ("delete_file", {"path": "full", "recursive": True}),
    ("move_file", {"from": "a.txt", "to": "new/a.txt"}),
    ("move_file", {"from": "a.txt", "to": "b.txt", "overwrite": True}),
    ("bash", {"command": "true"}),
    ("bash", {"command": "true", "workdir": "full"}),
    ("webfetch", {"url": "https://example.com/"}),
    ("http_post", {"url": "https://example.com/", "body": {"a": 1}}),
    ("memory_read", {"path": "facts.md"}),
    ("memory_write", {"path": "new.md", "content": "x"}),
    ("memory_patch", {"path": "facts.md", "old_str": "once", "new_str": "x"}),
    ("memory_append", {"path": "new.md", "entry": "x"}),
    ("set_env", {"key": "APP_MODE", "value": "x"}),
    ("json_parse", {"text": "[]"}),
]


@pytest.mark.parametrize(("name", "arguments"), ASKED)
async def test_a_call_that_can_work_is_asked_about_and_nothing_changes_before_the_answer(
    folder: Path, name: str, arguments: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    before = sorted(path for path in folder.rglob("*"))
    async with Runtime(*tools(folder), policy=ASK) as runtime:
        outcome = await runtime.call(name, arguments)

    assert isinstance(outcome, Pending), outcome
    assert sorted(path for path in folder.rglob("*")) == before
    assert [record for record in caplog.records if record.exc_info] == []


@needs("bubblewrap")
@pytest.mark.parametrize("name", ["bash_output", "bash_stop"])
async def test_an_unknown_background_command_ends_the_call_before_anybody_is_asked(folder: Path, name: str) -> None:
    async with Runtime(*tools(folder), policy=ASK) as runtime:
        outcome = await runtime.call(name, {"id": "bg_000000000000"})

    assert (outcome.code, outcome.executed) == ("not_found", False)
