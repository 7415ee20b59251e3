"""Finding files by name: patterns, what is skipped, and the newest first."""

import os
from contextlib import suppress
from pathlib import Path
from time import thread_time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from surehand import Workspace
from surehand.builtin.search.globs import GlobPattern
from surehand.builtin.search.tools import search_tools
from surehand.core.errors import Denied, InvalidArguments
from tests.builtin.search_runtime import (
    approve_everything,
    open_search,
    search_done,
    search_failed,
    with_both_engines,
    write_tree,
)

pytestmark = pytest.mark.timeout(30)  # some of these have much to do, and a busy machine takes its time

TREE = dict.fromkeys(("a.py", "b.txt", "src/c.py", "src/d.ts", "src/deep/e.py", "src/deep/f.tsx", "lib/g.js"), "x")

PATTERNS = {
    "*.py": {"a.py", "src/c.py", "src/deep/e.py"},
    "**/*.py": {"a.py", "src/c.py", "src/deep/e.py"},
    "./*.py": {"a.py"},
    "src/*.py": {"src/c.py"},
    "src/**/*.py": {"src/c.py", "src/deep/e.py"},
    "src/**": {"src/c.py", "src/d.ts", "src/deep/e.py", "src/deep/f.tsx"},
    "src/": {"src/c.py", "src/d.ts", "src/deep/e.py", "src/deep/f.tsx"},
    "**/deep/*": {"src/deep/e.py", "src/deep/f.tsx"},
    "**/*.{ts,tsx}": {"src/d.ts", "src/deep/f.tsx"},
    "{src,lib}/*.{ts,js}": {"src/d.ts", "lib/g.js"},
    "{a,s{rc/c,rc/deep/e}}.py": {"a.py", "src/c.py", "src/deep/e.py"},
    "[a-b].*": {"a.py", "b.txt"},
    "[!a-b].*": {"src/c.py", "src/d.ts", "src/deep/e.py", "src/deep/f.tsx", "lib/g.js"},
    "?.ts?": {"src/deep/f.tsx"},
    "src/c.py": {"src/c.py"},
    "s*c/**/[ef].*": {"src/deep/e.py", "src/deep/f.tsx"},
    "*/*/*": {"src/deep/e.py", "src/deep/f.tsx"},
    "nothing/**/*.py": set(),
    "a.py/**": set(),
    "*.PY": set(),
}


@with_both_engines
async def test_a_pattern_finds_the_files_that_fit(tmp_path: Path, engine: str) -> None:
    async with open_search(write_tree(tmp_path, TREE), engine) as call:
        for pattern, expected in PATTERNS.items():
            listed = await call("glob", pattern=pattern)

            assert set(listed.data) == expected, pattern
            assert listed.metadata == {"pattern": pattern, "fileCount": len(expected), "truncated": False}


@with_both_engines
async def test_files_are_sorted_by_time_before_the_list_is_cut(tmp_path: Path, engine: str) -> None:
    for number in range(20):
        write_tree(tmp_path, {f"folder{number % 3}/{number}.txt": "x"})
        os.utime(tmp_path / f"folder{number % 3}/{number}.txt", (1, number))

    listed = await search_done(tmp_path, engine, "glob", pattern="*.txt", max_results=3)

    assert listed.data == ["folder1/19.txt", "folder0/18.txt", "folder2/17.txt"]
    assert listed.metadata == {"pattern": "*.txt", "fileCount": 3, "truncated": True}
    assert "3 of 20 files" in listed.text


@with_both_engines
async def test_files_with_equal_times_are_sorted_by_name(tmp_path: Path, engine: str) -> None:
    for name in ("b/x", "a/y", "c", "a/x"):
        write_tree(tmp_path, {name: ""})
        os.utime(tmp_path / name, (1, 1))

    assert (await search_done(tmp_path, engine, "glob", pattern="**/*")).data == ["a/x", "a/y", "b/x", "c"]


@with_both_engines
async def test_glob_files_returns_the_same_as_data(tmp_path: Path, engine: str) -> None:
    listed = await search_done(write_tree(tmp_path, TREE), engine, "glob_files", pattern="*.py", cwd="src")

    assert set(listed.data.pop("files")) == {"src/c.py", "src/deep/e.py"}
    assert listed.data == {"totalFiles": 2, "truncated": False, "leftOut": 0}


@with_both_engines
async def test_hidden_and_ignored_files_are_skipped_and_links_not_followed(tmp_path: Path, engine: str) -> None:
    write_tree(
        tmp_path, dict.fromkeys((".hidden", ".git/config", "kept.txt", "build/out.txt", "sub/x.log", "sub/y"), "")
    )
    write_tree(tmp_path, {".gitignore": "build/\n*.log\n!.hidden\n", "sub/.gitignore": "!x.log\n/y\n"})
    (tmp_path / "link").symlink_to("sub")
    (tmp_path / "file_link").symlink_to("kept.txt")
    os.mkfifo(tmp_path / "fifo")

    assert set((await search_done(tmp_path, engine, "glob", pattern="**/*")).data) == {"kept.txt", "sub/x.log"}


@with_both_engines
@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        (".github/**/*.yml", {".github/workflows/ci.yml"}),
        ("**/.eslintrc", {"web/.eslintrc"}),
        (".*", {".editorconfig", "web/.eslintrc"}),
        ("node_modules/pkg/*.js", {"node_modules/pkg/index.js"}),
    ],
)
async def test_a_pattern_can_name_hidden_and_ignored_folders(
    tmp_path: Path, engine: str, pattern: str, expected: set[str]
) -> None:
    names = (".github/workflows/ci.yml", "web/.eslintrc", ".editorconfig", "node_modules/pkg/index.js", "x.yml")
    write_tree(tmp_path, {**dict.fromkeys(names, ""), ".gitignore": "node_modules/\n.gitignore"})

    assert set((await search_done(tmp_path, engine, "glob", pattern=pattern)).data) == expected


@with_both_engines
async def test_an_ignored_folder_can_be_searched_by_its_path(tmp_path: Path, engine: str) -> None:
    write_tree(
        tmp_path, {"node_modules/pkg/index.js": "", "node_modules/pkg/x.log": "", ".gitignore": "node_modules/\n*.log"}
    )

    assert (await search_done(tmp_path, engine, "glob", pattern="*", path="node_modules")).data == [
        "node_modules/pkg/index.js"
    ]


@with_both_engines
async def test_gitignore_files_above_the_workspace_do_not_count(tmp_path: Path, engine: str) -> None:
    write_tree(tmp_path, {".gitignore": "*", "inner/a.txt": "", ".git/HEAD": ""})

    assert (await search_done(tmp_path / "inner", engine, "glob", pattern="*")).data == ["a.txt"]


@with_both_engines
async def test_names_with_control_characters_stay_on_one_line(tmp_path: Path, engine: str) -> None:
    for name in (b"new\nline", b"esc\x1b[31m", b"bad\xff\xfe", "dir\u202eection".encode(), b"quote'\"\\"):
        Path(os.fsdecode(os.fsencode(tmp_path) + b"/" + name)).touch()

    listed = await search_done(tmp_path, engine, "glob", pattern="*")

    assert set(listed.text.splitlines()) == set(listed.data)
    assert set(listed.data) >= {r"new\nline", r"esc\u001b[31m", r"bad\udcff\udcfe", r"dir\u202eection"}
    assert len(listed.data) == 5


@with_both_engines
async def test_sensitive_files_are_left_out_and_counted(tmp_path: Path, engine: str) -> None:
    write_tree(
        tmp_path, dict.fromkeys(("a.txt", "server.pem", "sub/id_rsa", "secrets/plain.txt", "secrets/other.md"), "")
    )

    listed = await search_done(tmp_path, engine, "glob", pattern="*")

    assert listed.data == ["a.txt"]
    assert "4 files that look like keys or credentials were not listed" in listed.text
    assert "1 file that looks" in (await search_done(tmp_path, engine, "glob", pattern="*.pem")).text
    assert (await search_done(tmp_path, engine, "glob", pattern="secrets/*.txt")).data == []
    assert (await search_done(tmp_path, engine, "glob", pattern=f"{tmp_path}/secrets/*")).data == []


@with_both_engines
async def test_a_person_is_asked_about_a_sensitive_folder_and_then_it_is_listed(tmp_path: Path, engine: str) -> None:
    write_tree(tmp_path, {"secrets/plain.txt": "", "secrets/server.pem": ""})

    async with open_search(tmp_path, engine) as call:
        waiting = await call("glob", pattern="*", path="secrets")
    async with open_search(tmp_path, engine, approver=approve_everything) as call:
        listed = await call("glob", pattern="*", path="secrets")

    assert waiting.waiting_for == "approval"
    assert set(listed.data) == {"secrets/plain.txt", "secrets/server.pem"}


@with_both_engines
async def test_another_folder_of_the_workspace_is_found_by_its_absolute_path(tmp_path: Path, engine: str) -> None:
    write_tree(tmp_path, {"main/a.py": "", "extra/b.py": "", "extra_evil/c.py": ""})
    space = Workspace(tmp_path / "main", extra=[tmp_path / "extra"])

    assert (await search_done(space, engine, "glob", pattern="*.py")).data == ["a.py"]
    for arguments in (
        {"pattern": "*.py", "path": f"{tmp_path}/extra"},
        {"pattern": f"{tmp_path}/extra/*.py"},
        {"pattern": f"{tmp_path}/extra/**/b.py", "path": "."},
    ):
        assert (await search_done(space, engine, "glob", **arguments)).data == [f"{tmp_path}/extra/b.py"]
    for arguments in ({"pattern": "*", "path": f"{tmp_path}/extra_evil"}, {"pattern": f"{tmp_path}/extra_evil/*.py"}):
        assert (await search_failed(space, engine, "glob", **arguments)).code == "denied"


REFUSED = [
    ({"pattern": "*", "path": "scr"}, "not_found", "Did you mean src?"),
    ({"pattern": "*", "path": "a.py"}, "invalid_arguments", "not a folder"),
    ({"pattern": "../*"}, "denied", "contains '..'"),
    ({"pattern": "src/../../*"}, "denied", "contains '..'"),
    ({"pattern": "/etc/*"}, "denied", "outside the workspace"),
    ({"pattern": "a\0b"}, "invalid_arguments", "is no pattern"),
    ({"pattern": "  "}, "invalid_arguments", "is no pattern"),
    ({"pattern": "[a"}, "invalid_arguments", "never closed"),
    ({"pattern": "{a"}, "invalid_arguments", "never closed"),
    ({"pattern": "[z-a]"}, "invalid_arguments", "backwards"),
    ({"pattern": "{a,b}" * 9}, "invalid_arguments", "too many"),
    ({"pattern": ""}, "invalid_arguments", ""),
    ({"pattern": "*", "max_results": 0}, "invalid_arguments", ""),
]


@with_both_engines
async def test_an_invalid_pattern_is_explained(tmp_path: Path, engine: str) -> None:
    async with open_search(write_tree(tmp_path, TREE), engine) as call:
        for arguments, code, says in REFUSED:
            failed = await call("glob", **arguments)

            assert failed.code == code, arguments
            assert says in failed.message


@with_both_engines
async def test_the_number_of_results_has_a_maximum(tmp_path: Path, engine: str) -> None:
    write_tree(tmp_path, {f"{number}.txt": "" for number in range(505)})

    listed = await search_done(tmp_path, engine, "glob", pattern="*", max_results=100_000)

    assert len(listed.data) == 500
    assert listed.metadata["truncated"]


def test_names_says_which_search_tools_there_are(tmp_path: Path) -> None:
    def offered(names: Any) -> set[str]:
        return {tool.name for tool in search_tools(Workspace(tmp_path), names)}

    assert offered("short") == {"glob", "grep"}
    assert offered("long") == {"glob_files", "grep_files"}
    assert offered("both") == {"glob", "grep", "glob_files", "grep_files"}


SLOW = [
    "*a" * 200 + "*b",
    "**/" + "a/**/" * 100 + "b",
    "?" * 250 + "*" + "?" * 250 + "b",
    "[a-z]*" * 150 + "9",
    "{" + ",".join("*a" * 20 + str(number) for number in range(200)) + "}",
    "*" * 1000 + "b",
    "**/" * 300 + "*a*a*a*a*b",
]


@pytest.mark.parametrize("pattern", SLOW)
@pytest.mark.parametrize("path", ["a" * 250, "/".join("a" * 2000), "/".join(["a" * 200] * 20)])
def test_no_pattern_is_slow(pattern: str, path: str) -> None:
    glob = GlobPattern(pattern)

    began = thread_time()
    glob(path)

    assert thread_time() - began < 0.5


@given(st.text("ab.*?[]!^-{},\\/", min_size=1, max_size=12), st.text("ab./-]", min_size=1, max_size=10))
def test_every_pattern_is_accepted_or_refused(pattern: str, path: str) -> None:
    with suppress(InvalidArguments, Denied):
        assert GlobPattern(pattern)(path) in (True, False)


@given(st.text("ab.*?[]!^-{},\\", min_size=1, max_size=12))
def test_a_name_that_is_escaped_is_found(name: str) -> None:
    escaped = "".join(f"\\{letter}" for letter in name)

    assert GlobPattern(f"./{escaped}")(name) or name in (".", "..")
