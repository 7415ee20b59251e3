"""The memory tools: Markdown files with summaries in one folder."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path

import pytest

from surehand import Call, DefinitionError, Runtime
from surehand.builtin.memory import memory

pytestmark = pytest.mark.timeout(30)  # some of these have much to do, and a busy machine takes its time


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "data" / "memory"


@pytest.fixture
def outside(folder: Path) -> Path:
    secret = folder.parent / "secret.md"
    folder.mkdir(parents=True)
    secret.write_text("outside")
    return secret


async def test_a_missing_folder_is_created_empty(folder):
    async with Runtime(memory(folder)) as runtime:
        assert (await runtime.call("memory_list")).data == []

    assert folder.is_dir()


async def test_a_file_is_written_listed_and_read(folder):
    text = "# People\n\n> Summary: Who is who\n\n- Ann\n"
    async with Runtime(memory(folder)) as runtime:
        written = await runtime.call("memory_write", {"path": "facts/people.md", "content": text})
        await runtime.call("memory_write", {"path": "index.md", "content": "Grüße"})
        listed = await runtime.call("memory_list")
        read = await runtime.call("memory_read", {"path": "facts/people.md"})

    assert written.data == {"path": "facts/people.md", "size": len(text)}
    assert listed.data == [
        {"path": "facts/people.md", "summary": "Who is who", "size": len(text)},
        {"path": "index.md", "summary": None, "size": 7},
    ]
    assert read.data == text


async def test_only_markdown_one_folder_deep_is_listed(folder):
    for path in ("a.md", "facts/b.md", "facts/deep/c.md", "notes.txt", ".hidden.md", ".git/d.md", "facts/.e.md"):
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text("x")
    (folder / "folder.md").mkdir()
    async with Runtime(memory(folder)) as runtime:
        assert [file["path"] for file in (await runtime.call("memory_list")).data] == ["a.md", "facts/b.md"]


@pytest.mark.parametrize(
    "path",
    ["../secret.md", "facts/../../secret.md", "/etc/passwd.md", "..", "../../etc/passwd", "/secret.md", "a\0.md",
     "facts/../../memory2/x.md", "../memory/x.md"],
)  # fmt: skip
async def test_no_path_leads_out_of_the_folder(folder, outside, path):
    async with Runtime(memory(folder)) as runtime:
        outcomes = [
            await runtime.call("memory_read", {"path": path}),
            await runtime.call("memory_write", {"path": path, "content": "x"}),
            await runtime.call("memory_patch", {"path": path, "old_str": "outside", "new_str": "x"}),
            await runtime.call("memory_append", {"path": path, "entry": "x"}),
        ]

    assert [outcome.code for outcome in outcomes] == ["denied"] * 4
    assert {outcome.message for outcome in outcomes} == {f'Path "{path}" escapes memory directory'}
    assert outside.read_text() == "outside"


async def test_no_link_leads_out_of_the_folder(folder, outside):
    (folder / "link.md").symlink_to(outside)
    (folder / "up").symlink_to(folder.parent)
    async with Runtime(memory(folder)) as runtime:
        for path in ("link.md", "up/secret.md"):
            read = await runtime.call("memory_read", {"path": path})
            written = await runtime.call("memory_write", {"path": path, "content": "x"})
            added = await runtime.call("memory_append", {"path": path, "entry": "x"})
            assert (read.code, written.code, added.code) == ("denied",) * 3
            assert read.message == f'Path "{path}" escapes memory directory'
        listed = await runtime.call("memory_list")

    assert outside.read_text() == "outside"
    assert "outside" not in listed.text


@pytest.mark.parametrize(
    "path",
    ["", " ", "notes.txt", "notes", "a/b/c.md", ".hidden.md", ".git/x.md", ".md", "a/.md", "a\nb.md", "\u202ea.md"],
)
async def test_paths_that_are_never_listed_cannot_be_written(folder, path):
    async with Runtime(memory(folder)) as runtime:
        assert (await runtime.call("memory_write", {"path": path, "content": "x"})).code == "invalid_arguments"

    assert list(folder.iterdir()) == []


async def test_a_path_with_dots_is_normalized(folder):
    async with Runtime(memory(folder)) as runtime:
        written = await runtime.call("memory_write", {"path": "./facts/../people.md", "content": "x"})

    assert written.data["path"] == "people.md"


async def test_a_missing_memory_is_reported(folder):
    async with Runtime(memory(folder)) as runtime:
        read = await runtime.call("memory_read", {"path": "people.md"})
        patched = await runtime.call("memory_patch", {"path": "people.md", "old_str": "a", "new_str": "b"})

    assert (read.code, patched.code) == ("not_found", "not_found")
    assert "memory_list" in read.message
    assert str(folder) not in read.message + patched.message


async def test_a_passage_is_replaced_where_it_occurs_once(folder):
    async with Runtime(memory(folder)) as runtime:
        await runtime.call("memory_write", {"path": "a.md", "content": "one two\r\ntwo three $1 \\1"})
        once = await runtime.call("memory_patch", {"path": "a.md", "old_str": "three", "new_str": "\\g<0> $&"})
        never = await runtime.call("memory_patch", {"path": "a.md", "old_str": "four", "new_str": "x"})
        twice = await runtime.call("memory_patch", {"path": "a.md", "old_str": "two", "new_str": "x"})
        empty = await runtime.call("memory_patch", {"path": "a.md", "old_str": "", "new_str": "x"})

    assert once.ok
    assert never.message.startswith("String not found in a.md")
    assert twice.message.startswith("String appears multiple times in a.md")
    assert empty.code == "invalid_arguments"
    assert (folder / "a.md").read_bytes() == b"one two\r\ntwo \\g<0> $& $1 \\1"


async def test_a_passage_that_overlaps_itself_occurs_twice(folder):
    async with Runtime(memory(folder)) as runtime:
        await runtime.call("memory_write", {"path": "a.md", "content": "aaa"})

        assert (
            "multiple times"
            in (await runtime.call("memory_patch", {"path": "a.md", "old_str": "aa", "new_str": "b"})).text
        )


@pytest.mark.parametrize(
    ("before", "summary", "after"),
    [
        (None, None, "- new\n"),
        (None, "S", "> Summary: S\n\n- new\n"),
        ("# T\n\ntext", None, "# T\n\ntext\n- new\n"),
        ("# T\n\ntext\n", "S", "# T\n\n> Summary: S\n\ntext\n- new\n"),
        ("# T", "S", "# T\n\n> Summary: S\n\n- new\n"),
        ("text\n", "S", "> Summary: S\n\ntext\n- new\n"),
        ("# T\n> Summary: old\ntext\n> Summary: other\n", "S", "# T\n> Summary: S\ntext\n> Summary: other\n\n- new\n"),
        ("# T\r\n> Summary: old\r\n", "S", "# T\r\n> Summary: S\r\n\n- new\n"),
        (
            "```\n# code\n> Summary: code\n```\n# T\n",
            "S",
            "```\n# code\n> Summary: code\n```\n# T\n\n> Summary: S\n\n- new\n",
        ),
        ("# T\n> Summary: old\n", "two\nlines \\1", "# T\n> Summary: two lines \\1\n\n- new\n"),
    ],
)
async def test_an_entry_is_appended_and_the_summary_replaced(folder, before, summary, after):
    async with Runtime(memory(folder)) as runtime:
        if before is not None:
            await runtime.call("memory_write", {"path": "a.md", "content": before})
        given = {} if summary is None else {"summary": summary}
        added = await runtime.call("memory_append", {"path": "a.md", "entry": "- new", **given})
        listed = await runtime.call("memory_list")

    assert added.data == {"path": "a.md", "size": len(after)}
    assert (folder / "a.md").read_bytes().decode() == after
    if summary is not None:
        assert listed.data[0]["summary"] == " ".join(summary.split())


async def test_no_entry_is_lost_when_many_are_added_at_once(folder):
    async with Runtime(memory(folder), memory_of_another(folder)) as runtime:
        calls = [
            Call(name, {"path": "log.md", "entry": f"- {name} {n}", "summary": f"{n}"})
            for n in range(40)
            for name in ("memory_append", "again_append")
        ]
        assert all(outcome.ok for outcome in await runtime.call_many(calls))

    lines = (folder / "log.md").read_text().splitlines()
    assert len([line for line in lines if line.startswith("- ")]) == 80
    assert len([line for line in lines if line.startswith("> Summary:")]) == 1
    assert os.listdir(folder) == ["log.md"]


def memory_of_another(folder: Path):
    """Tools on the same folder, as another part of a program would have them."""
    return [tool.evolve(name=tool.name.replace("memory", "again")) for tool in memory(folder)]


ADD = """
import asyncio, sys
from surehand.builtin.memory import memory
append = memory(sys.argv[1])[4]
async def main():
    for n in range(20):
        assert (await append.run({"path": "log.md", "entry": f"- {sys.argv[2]} {n}"})).ok
asyncio.run(main())
"""


@pytest.mark.long
@pytest.mark.timeout(30)
async def test_no_entry_is_lost_between_processes(folder):
    workers = [await asyncio.create_subprocess_exec(sys.executable, "-c", ADD, str(folder), name) for name in "abc"]
    assert [await worker.wait() for worker in workers] == [0, 0, 0]

    assert len((folder / "log.md").read_text().splitlines()) == 60


DIES = """
import asyncio, json, os, sys
from surehand import Runtime
from surehand.builtin.memory import memory
folder, tool, arguments, when = sys.argv[1:]
async def afterwards(invocation, proceed):
    await proceed(invocation)
    os._exit(9)
async def main():
    async with Runtime(memory(folder), store=folder + ".db", middleware=[afterwards]) as runtime:
        if when == "before":
            os.rename = lambda *args, **kwargs: os._exit(9)
        await runtime.call(tool, json.loads(arguments), call_id="c1")
asyncio.run(main())
"""


@pytest.mark.timeout(30)
@pytest.mark.parametrize(
    ("when", "tool", "arguments", "after"),
    [
        ("after", "memory_write", {"path": "a.md", "content": "new\n"}, "new\n"),
        ("before", "memory_append", {"path": "a.md", "entry": "- new"}, "old\n- new\n"),
        pytest.param(
            "after", "memory_append", {"path": "b.md", "entry": "- new", "summary": "s"}, "> Summary: s\n\n- new\n",
            marks=pytest.mark.long,
        ),
        pytest.param(
            "before", "memory_patch", {"path": "a.md", "old_str": "old", "new_str": "new"}, "new\n",
            marks=pytest.mark.long,
        ),
        ("after", "memory_patch", {"path": "a.md", "old_str": "old", "new_str": "new"}, "new\n"),
    ],
)  # fmt: skip
async def test_a_change_is_made_once_even_if_its_process_dies(folder, when, tool, arguments, after):
    folder.mkdir(parents=True)
    (folder / "a.md").write_text("old\n")
    script = [sys.executable, "-c", DIES, str(folder), tool, json.dumps(arguments), when]
    assert await (await asyncio.create_subprocess_exec(*script)).wait() == 9

    async with Runtime(memory(folder), store=f"{folder}.db") as runtime:
        again = await runtime.call(tool, arguments, call_id="c1")

    assert again.data == {"path": arguments["path"], "size": len(after)}
    assert (folder / arguments["path"]).read_text() == after


async def test_a_file_that_is_too_large_or_not_text_is_reported(folder):
    folder.mkdir(parents=True)
    (folder / "large.md").write_bytes(b"x" * (1 << 20) + b"x")
    (folder / "full.md").write_bytes(b"x" * (1 << 20))
    (folder / "raw.md").write_bytes(b"\xff\xfe")
    async with Runtime(memory(folder)) as runtime:
        large = await runtime.call("memory_read", {"path": "large.md"})
        full = await runtime.call("memory_append", {"path": "full.md", "entry": "x"})
        raw = await runtime.call("memory_read", {"path": "raw.md"})
        added = await runtime.call("memory_append", {"path": "raw.md", "entry": "x"})

    assert (large.code, full.code, raw.code, added.code) == ("too_large", "too_large", "failed", "failed")
    assert (folder / "full.md").stat().st_size == 1 << 20
    assert (folder / "raw.md").read_bytes() == b"\xff\xfe"


async def test_only_regular_files_are_opened(folder):
    folder.mkdir(parents=True)
    os.mkfifo(folder / "pipe.md")
    async with Runtime(memory(folder)) as runtime:
        assert (await runtime.call("memory_read", {"path": "pipe.md"})).code == "invalid_arguments"
        assert (await runtime.call("memory_append", {"path": "pipe.md", "entry": "x"})).code == "invalid_arguments"
        assert (await runtime.call("memory_list")).ok


async def test_a_memory_may_have_a_sensitive_name(folder):
    async with Runtime(memory(folder)) as runtime:
        assert (await runtime.call("memory_write", {"path": "facts/password-rules.md", "content": "x"})).ok
        assert (await runtime.call("memory_read", {"path": "facts/password-rules.md"})).data == "x"


def test_a_folder_that_cannot_be_created_is_a_definition_error(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(DefinitionError):
        memory(tmp_path / "file")
    with pytest.raises(DefinitionError):
        memory(tmp_path / "file" / "below")
