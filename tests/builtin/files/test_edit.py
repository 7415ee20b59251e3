"""`edit` and `edit_file`: text is replaced, and everything else stays byte for byte."""

import asyncio
import os
import re
import stat
import threading
import tracemalloc
from pathlib import Path
from time import process_time, thread_time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from surehand import Call, Done, Failed, Outcome, Pending, Policy, Runtime
from surehand.builtin.files.diff import (
    TextSection,
    changes_from_replacements,
    diff_lines,
    render_unified_diff,
    split_lines,
)
from surehand.builtin.files.text_document import TextDocument, TextReplacement
from surehand.builtin.files.text_encoding import TextEncoding
from surehand.builtin.files.tools import files
from surehand.workspace.workspace import Workspace

pytestmark = pytest.mark.timeout(30)  # some of these have much to do, and a busy machine takes its time


async def call(where: Path, name: str, /, **arguments: Any) -> Outcome:
    async with Runtime(*(tool for tool in files(where, names="both") if tool.name == name)) as runtime:
        return await runtime.call(name, arguments)


async def edit(where: Path, old: str, new: str, /, **more: Any) -> Outcome:
    return await call(where, "edit", file_path="a.txt", old_string=old, new_string=new, **more)


async def edit_file(where: Path, *edits: dict[str, Any], **more: Any) -> Outcome:
    return await call(where, "edit_file", path="a.txt", edits=list(edits), **more)


def failed(outcome: Outcome, code: str = "invalid_arguments") -> str:
    assert isinstance(outcome, Failed), outcome
    assert outcome.code == code, outcome
    return outcome.message


def put(where: Path, content: str | bytes) -> Path:
    path = where / "a.txt"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


# edit


async def test_the_only_match_is_replaced_and_the_diff_is_shown(tmp_path: Path) -> None:
    path = put(tmp_path, "one\ntwo\nthree\n")

    outcome = await edit(tmp_path, "two", "2")

    assert isinstance(outcome, Done)
    assert path.read_text() == "one\n2\nthree\n"
    assert outcome.metadata == {"path": "a.txt", "replacements": 1, "originalSize": 14, "newSize": 12}
    assert outcome.text == (
        "Edited a.txt: 1 replacement.\n\n--- a/a.txt\n+++ b/a.txt\n@@ -1,3 +1,3 @@\n one\n-two\n+2\n three"
    )


async def test_the_new_text_is_taken_literally(tmp_path: Path) -> None:
    path = put(tmp_path, "value")

    await edit(tmp_path, "value", r"$& $1 $$ \1 \g<0> {0} %s")

    assert path.read_text() == r"$& $1 $$ \1 \g<0> {0} %s"


async def test_several_matches_are_listed_and_nothing_changes(tmp_path: Path) -> None:
    path = put(tmp_path, "x\ny\nx\nx y\n")

    message = failed(await edit(tmp_path, "x", "z"))

    assert "found 3 times, on lines 1, 3, 4" in message
    assert path.read_text() == "x\ny\nx\nx y\n"


async def test_overlapping_matches_count_separately(tmp_path: Path) -> None:
    put(tmp_path, "aaa")

    assert "2 times" in failed(await edit(tmp_path, "aa", "b"))


async def test_replace_all_replaces_every_match(tmp_path: Path) -> None:
    path = put(tmp_path, "x\ny\nx\naaa\n")

    outcome = await edit(tmp_path, "x", "z", replace_all=True)

    assert isinstance(outcome, Done)
    assert outcome.metadata["replacements"] == 2
    assert path.read_text() == "z\ny\nz\naaa\n"


@pytest.mark.parametrize("every", [True, False])
async def test_a_missing_text_is_reported_with_the_nearest_line(tmp_path: Path, every: bool) -> None:
    put(tmp_path, "import os\n\ndef total(items):\n    return sum(items)\n\nprint(total([1]))\n")

    message = failed(await edit(tmp_path, "def totals(item):", "x", replace_all=every))

    assert "not found" in message
    assert "The nearest line is 3" in message
    assert ">     3\tdef total(items):" in message
    assert "      1\timport os" in message
    assert "      5\t" in message


@pytest.mark.parametrize(
    ("old", "hint"),
    [
        ("def f():\n  return 1", "whitespace only"),
        ("return  1", "whitespace only"),
        ("RETURN 1", "upper and lower case only"),
        ("     2\t    return 1", "line number"),
        ("something else entirely", "copy the text exactly"),
    ],
)
async def test_the_error_says_how_the_text_differs(tmp_path: Path, old: str, hint: str) -> None:
    put(tmp_path, "def f():\n    return 1\n")

    assert hint in failed(await edit(tmp_path, old, "x"))


@pytest.mark.parametrize(("old", "new"), [("", "x"), ("same", "same")])
async def test_an_edit_that_changes_nothing_is_refused(tmp_path: Path, old: str, new: str) -> None:
    put(tmp_path, "same")

    failed(await edit(tmp_path, old, new))


async def test_binary_and_too_large_files_are_not_edited(tmp_path: Path) -> None:
    assert "not found" in failed(await edit(tmp_path, "a", "b"), "not_found")
    put(tmp_path, b"PK\x03\x04\0")
    assert "ZIP archive" in failed(await edit(tmp_path, "a", "b"))
    put(tmp_path, b"\xff\xfea")
    assert "no valid utf-16-le" in failed(await edit(tmp_path, "a", "b"))
    put(tmp_path, "x\n" * 600_000)
    failed(await edit_file(tmp_path, {"old": "a", "new": "b"}, whitespace_tolerant=True), "too_large")
    put(tmp_path, b"x" * (10 * 1024 * 1024 + 1))
    failed(await edit(tmp_path, "x", "y", replace_all=True), "too_large")
    (tmp_path / "a.txt").unlink()
    (tmp_path / "a.txt").mkdir()
    failed(await edit(tmp_path, "a", "b"))


async def test_a_replacement_cannot_fill_the_memory(tmp_path: Path) -> None:
    path = put(tmp_path, "x" * 90_000)

    failed(await edit(tmp_path, "x", "y" * 1_000_000, replace_all=True), "too_large")
    put(tmp_path, "x" * 100_001)
    failed(await edit(tmp_path, "x", "y", replace_all=True), "too_large")

    assert path.read_text() == "x" * 100_001


# What stays


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"a\r\nb\r\nc\r\n", b"a\r\nx\r\ny\r\nc\r\n"),
        (b"a\r\nb\r\nc", b"a\r\nx\r\ny\r\nc"),
        (b"a\nb\r\nc\n", b"a\nx\r\ny\r\nc\n"),
        (b"a\r\nb\nc\r\n", b"a\r\nx\ny\nc\r\n"),
        (b"\xef\xbb\xbfa\nb\nc", b"\xef\xbb\xbfa\nx\ny\nc"),
        ("ä\nb\nc".encode("utf-16"), "ä\nx\ny\nc".encode("utf-16")),
        (b"\xfe\xff\0a\0\n\0b", b"\xfe\xff\0a\0\n\0x\0\n\0y"),
        (b"\xe4\nb\n\x80", b"\xe4\nx\ny\n\x80"),
        (b"\xe4\x81\nb", b"\xe4\x81\nx\ny"),
        (b"x" * 9000 + b"\xff\nb", b"x" * 9000 + b"\xff\nx\ny"),
        (b"a\rq\nb\n", b"a\rq\nx\ny\n"),
        (b"a\r\r\nb\r\n", b"a\r\r\nx\r\ny\r\n"),
    ],
    ids=range(12),
)
async def test_line_ends_encodings_and_byte_order_marks_are_kept(tmp_path: Path, before: bytes, after: bytes) -> None:
    path = put(tmp_path, before)

    assert (await edit(tmp_path, "b", "x\ny")).ok
    assert path.read_bytes() == after


async def test_line_ends_in_the_searched_text_do_not_matter(tmp_path: Path) -> None:
    path = put(tmp_path, "a\r\nb\r\nc\r\n")

    assert (await edit(tmp_path, "a\nb", "x\r\ny")).ok
    assert path.read_bytes() == b"x\r\ny\r\nc\r\n"


async def test_a_character_that_the_encoding_lacks_is_refused(tmp_path: Path) -> None:
    path = put(tmp_path, b"\xe4 b")

    assert "cp1252, which has no '→'" in failed(await edit(tmp_path, "b", "→"))
    assert path.read_bytes() == b"\xe4 b"


async def test_the_mode_and_a_link_are_kept(tmp_path: Path) -> None:
    path = put(tmp_path, "b")
    path.chmod(0o700)
    (tmp_path / "link").symlink_to("a.txt")

    await call(tmp_path, "edit", file_path="link", old_string="b", new_string="c")

    assert (tmp_path / "link").is_symlink()
    assert stat.S_IMODE(path.stat().st_mode) == 0o700
    assert path.read_text() == "c"


SPOT = Workspace("/").resolve("x")
text_lines = st.lists(st.text("ab é", max_size=4), max_size=6)


@given(text_lines, st.sampled_from(["\n", "\r\n"]), st.data())
def test_all_bytes_around_an_edit_are_kept(lines: list[str], newline: str, data: st.DataObject) -> None:
    text = "\n".join(lines)
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, len(text)))
    content = data.draw(st.text("xy\n", max_size=5))
    document = TextDocument(text.replace("\n", newline).encode(), TextEncoding("utf-8"))
    edited = document.apply(SPOT, [TextReplacement(start, end, content)])

    style = newline if "\n" in text else "\n"
    assert edited.decode() == (text[:start] + content + text[end:]).replace("\n", style)


# edit_file

CODE = "import os\n\ndef f():\n    a = 1\n    return a\n"


async def test_several_edits_are_made_in_one_step(tmp_path: Path) -> None:
    path = put(tmp_path, CODE)

    outcome = await edit_file(
        tmp_path,
        {"old": "    return a", "new": "    return a + 1"},
        {"old": "import os", "delete": True},
        {"old": "a = 1", "insert": "after", "content": "    a += 1"},
    )

    assert isinstance(outcome, Done)
    assert path.read_text() == "\ndef f():\n    a = 1\n    a += 1\n    return a + 1\n"
    assert outcome.data == {
        "applied": 3,
        "changes": [{"line": 1, "removed": 1, "added": 0}, {"line": 5, "removed": 0, "added": 1},
                    {"line": 5, "removed": 1, "added": 1}],
        "path": "a.txt", "replacements": 3, "originalSize": len(CODE), "newSize": 48,
    }  # fmt: skip
    assert "+    a += 1" in outcome.text


@pytest.mark.parametrize(
    ("before", "change", "after"),
    [
        ("a\nb\nc\n", {"old": "b", "delete": True}, "a\nc\n"),
        ("a\nb\nc\n", {"old": "b\n", "delete": True}, "a\nc\n"),
        ("a\nb", {"old": "b", "delete": True}, "a"),
        ("a b c\n", {"old": " b", "delete": True}, "a c\n"),
        ("b c\n", {"old": "b ", "delete": True}, "c\n"),
        ("a\nb\nc\n", {"old": "b", "new": ""}, "a\nc\n"),
        ("x\nx\nx", {"old": "x", "delete": True, "all": True}, ""),
        ("a\nb\n", {"insert": "start", "content": "x"}, "x\na\nb\n"),
        ("a\nb\n", {"insert": "end", "content": "x"}, "a\nb\nx\n"),
        ("a\nb", {"insert": "end", "content": "x"}, "a\nb\nx"),
        ("", {"insert": "end", "content": "x"}, "x"),
        ("a\nb\n", {"old": "b", "insert": "before", "content": "x\ny\n"}, "a\nx\ny\nb\n"),
        ("a\nb\n", {"old": "a", "insert": "after", "content": "x"}, "a\nx\nb\n"),
        ("a\nb", {"old": "b", "insert": "after", "content": "x"}, "a\nb\nx"),
        ("a\nb\na\n", {"old": "a", "insert": "after", "content": "x", "all": True}, "a\nx\nb\na\nx\n"),
        ("a\nb\nc\nd\n", {"from": 2, "to": 3, "content": "x"}, "a\nx\nd\n"),
        ("a\nb\nc\nd\n", {"from": 2, "to": 3, "content": ""}, "a\nd\n"),
        ("a\nb\nc", {"from": 2, "to": 3, "content": "x"}, "a\nx"),
        ("a\nb(\n1\n)\nc\n", {"from": "b(", "to": ")", "content": "b()"}, "a\nb()\nc\n"),
        ("a\nb\nc\n", {"from": "b", "to": 3, "content": "x"}, "a\nx\n"),
        ("a a a\n", {"old": "a", "new": "b", "all": True}, "b b b\n"),
        ("a\n", {"from": 1, "to": 1, "content": "x", "old": "zzz", "insert": "end", "delete": True}, "x\n"),
        ("a\r\nb\r\n", {"old": "a", "insert": "after", "content": "x\ny"}, "a\r\nx\r\ny\r\nb\r\n"),
    ],
    ids=range(23),
)
async def test_the_fields_of_an_edit_decide_its_operation(
    tmp_path: Path, before: str, change: dict[str, Any], after: str
) -> None:
    path = put(tmp_path, before)

    outcome = await edit_file(tmp_path, change)

    assert outcome.ok, outcome
    assert path.read_bytes() == after.encode()


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({}, "lacks `old` and `new`"),
        ({"old": "a"}, "lacks `new`"),
        ({"new": "a"}, "lacks `old`"),
        ({"old": "", "new": "x"}, "`old` is empty"),
        ({"insert": "before", "content": "x"}, "lacks `old`"),
        ({"insert": "end"}, "lacks `content`"),
        ({"from": 1, "content": "x"}, "lacks `to`"),
        ({"from": 3, "to": 2, "content": "x"}, "before it begins"),
        ({"from": 1, "to": 9, "content": "x"}, "there is no line 9"),
        ({"from": "", "to": 9, "content": "x"}, "empty"),
        ({"from": 4, "to": 4, "content": "x"}, "there is no line 4; the file has 3 lines"),
        ({"from": "c", "to": "a", "content": "x"}, "not found after `from`"),
        ({"old": "zzz", "new": "x"}, "Edit 1: `old` was not found"),
        ({"old": "b ", "new": "x"}, "whitespace only"),
    ],
)
async def test_one_invalid_edit_prevents_all(tmp_path: Path, change: dict[str, Any], problem: str) -> None:
    path = put(tmp_path, "a\nb\nc\n")

    assert problem in failed(await edit_file(tmp_path, change))
    assert problem.replace("Edit 1", "Edit 2") in failed(await edit_file(tmp_path, {"old": "a", "new": "x"}, change))
    assert path.read_text() == "a\nb\nc\n"


async def test_edits_that_overlap_are_refused(tmp_path: Path) -> None:
    path = put(tmp_path, "one two three\n")

    message = failed(await edit_file(tmp_path, {"old": "one two", "new": "x"}, {"old": "two three", "new": "y"}))

    assert "Edits 1 and 2 overlap on line 1" in message
    assert path.read_text() == "one two three\n"


async def test_all_edits_refer_to_the_original_file(tmp_path: Path) -> None:
    path = put(tmp_path, "a\nb\n")

    await edit_file(tmp_path, {"old": "a", "new": "b"}, {"old": "b", "new": "c"})

    assert path.read_text() == "b\nc\n"


async def test_adjacent_edits_do_not_overlap(tmp_path: Path) -> None:
    path = put(tmp_path, "a\nb")

    assert (await edit_file(tmp_path, {"old": "a", "delete": True}, {"old": "b", "delete": True})).ok
    assert path.read_text() == ""


async def test_all_without_a_match_changes_nothing(tmp_path: Path) -> None:
    path = put(tmp_path, "a\n")
    before = path.stat()

    outcome = await edit_file(tmp_path, {"old": "zzz", "new": "x", "all": True})

    assert outcome.data["applied"] == 0
    assert "nothing to change" in outcome.text
    assert path.stat().st_mtime_ns == before.st_mtime_ns


async def test_edit_file_takes_old_string_and_new_string_too(tmp_path: Path) -> None:
    path = put(tmp_path, "a\na\n")

    refused = await call(tmp_path, "edit_file", path="a.txt", old_string="a", new_string="b")
    outcome = await call(tmp_path, "edit_file", path="a.txt", old_string="a", new_string="b", replace_all=True)

    assert "found 2 times" in failed(refused)
    assert outcome.data["replacements"] == 2
    assert path.read_text() == "b\nb\n"
    failed(await call(tmp_path, "edit_file", path="a.txt"))
    failed(await call(tmp_path, "edit_file", path="a.txt", old_string="b"))
    failed(await call(tmp_path, "edit_file", path="a.txt", old_string="b", edits=[{"old": "b", "new": "c"}]))


# But for whitespace


async def test_whitespace_matters_unless_tolerant(tmp_path: Path) -> None:
    path = put(tmp_path, "def f():   \n    return 1\n")
    change = {"old": "def f():\n    return 1", "new": "def f():\n    return 2"}

    failed(await edit_file(tmp_path, change))
    assert (await edit_file(tmp_path, change, whitespace_tolerant=True)).ok
    assert path.read_text() == "def f():\n    return 2\n"


@pytest.mark.parametrize(
    ("before", "old", "new", "after"),
    [
        ("class A:\n    def f(self):\n        return 1\n", "def f(self):\n    return 1", "def f(self):\n    return 2",
         "class A:\n    def f(self):\n        return 2\n"),
        ("if x:\n\ty()\n\tz()\n", "y()\nz()", "if y:\n    z()", "if x:\n\tif y:\n\t    z()\n"),
        ("a\n  b\nc\n", "      b\n", "      d\n    e\n", "a\n  d\ne\nc\n"),
        ("  a\n\n  b\n", "a\n\nb", "c\n\nd", "  c\n\n  d\n"),
    ],
    ids=range(4),
)  # fmt: skip
async def test_new_text_gets_the_indentation_of_the_match(
    tmp_path: Path, before: str, old: str, new: str, after: str
) -> None:
    path = put(tmp_path, before)

    assert (await edit_file(tmp_path, {"old": old, "new": new}, whitespace_tolerant=True)).ok
    assert path.read_text() == after


async def test_a_tolerant_search_never_picks_one_of_several_matches(tmp_path: Path) -> None:
    put(tmp_path, "  a\n    a\n")

    assert "2 times" in failed(await edit_file(tmp_path, {"old": "\ta", "new": "b"}, whitespace_tolerant=True))
    failed(await edit_file(tmp_path, {"old": "  \n", "new": "b"}, whitespace_tolerant=True))


async def test_a_different_relative_indentation_does_not_match(tmp_path: Path) -> None:
    put(tmp_path, "if a:\n    b\nc\n")

    failed(await edit_file(tmp_path, {"old": "if a:\n    b\n    c", "new": "x"}, whitespace_tolerant=True))


# Changes and diffs


@given(st.lists(st.sampled_from(["a\n", "b\n", "c"]), max_size=60), st.data())
def test_applying_the_changes_gives_the_new_lines(pieces: list[str], data: st.DataObject) -> None:
    text = "".join(pieces)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), min_size=0, max_size=6)))
    spans = [
        TextReplacement(start, end, data.draw(st.text("xy\n", max_size=4)))
        for start, end in zip(cuts[::2], cuts[1::2], strict=False)
    ]
    after, at = "", 0
    for span in spans:
        after, at = after + text[at : span.start] + span.content, span.end
    after += text[at:]

    lines = split_lines(text)
    changed = list(changes_from_replacements(text, spans))
    assert applied(lines, [change for _, some in changed for change in some]) == split_lines(after)
    assert applied(lines, diff_lines(lines, split_lines(after))) == split_lines(after)
    assert patched(lines, render_unified_diff("f", changed)) == after


def applied(lines: list[str], changes: list[Any]) -> list[str]:
    for change in reversed(changes):
        at = change.line_number - 1
        assert tuple(lines[at : at + len(change.removed_lines)]) == change.removed_lines
        lines = [*lines[:at], *change.added_lines, *lines[at + len(change.removed_lines) :]]
    return split_lines("".join(lines))


def patched(lines: list[str], diff: str) -> str:
    """What a unified diff makes of the lines: context and removed lines must be what it says they are."""
    made, at = list[str](), 0
    for line in diff.replace("\n\\ No newline at end of file", "\0").split("\n")[2:]:
        if found := re.match(r"@@ -(\d+),(\d+) \+(\d+),(\d+) @@", line):
            begins = int(found[1]) - (int(found[2]) > 0)
            made += lines[at:begins]
            at = begins
            assert len(made) == int(found[3]) - (int(found[4]) > 0)
            continue
        content = line[1:-1] if line.endswith("\0") else f"{line[1:]}\n"
        if line[0] in " -":
            assert lines[at] == content
            at += 1
        made += [content] if line[0] in " +" else []
    return "".join([*made, *lines[at:]])


def test_distant_changes_are_separate_hunks() -> None:
    before = [f"{n}\n" for n in range(1, 31)]
    after = ["1\n", "two\n", *before[2:19], "new\n", *before[19:29], "30"]

    assert render_unified_diff("f", [(TextSection(before), diff_lines(before, after))]) == (
        "--- a/f\n+++ b/f\n@@ -1,5 +1,5 @@\n 1\n-2\n+two\n 3\n 4\n 5\n"
        "@@ -17,6 +17,7 @@\n 17\n 18\n 19\n+new\n 20\n 21\n 22\n"
        "@@ -27,4 +28,4 @@\n 27\n 28\n 29\n-30\n+30\n\\ No newline at end of file"
    )


async def test_a_large_diff_is_cut(tmp_path: Path) -> None:
    put(tmp_path, "x\ny\n" * 5000)

    outcome = await edit(tmp_path, "x", "z" * 1000, replace_all=True)

    assert outcome.text.endswith("[cut: the diff goes on]")
    assert outcome.text.count("\n") < 210
    assert len(outcome.text) < 100_000


async def test_invalid_bytes_do_not_appear_in_a_diff(tmp_path: Path) -> None:
    put(tmp_path, b"x" * 9000 + b"\n\xff\xfe b\n")

    done = await edit(tmp_path, "b", "c")
    wrong = await edit(tmp_path, " bb\n", "c")

    assert "-?? b\n+?? c" in done.text
    assert (done.text + wrong.text).encode()
    assert (tmp_path / "a.txt").read_bytes().endswith(b"\n\xff\xfe c\n")


@pytest.mark.parametrize("content", ["\n" * 9_000_000, "ab\n" * 3_000_000, "x" * 9_000_000])
async def test_editing_a_large_file_needs_little_extra_memory(tmp_path: Path, content: str) -> None:
    put(tmp_path, f"first {content} last")
    tracemalloc.start()
    try:
        outcome = await edit_file(tmp_path, {"old": "first", "new": "1"}, {"old": "last", "new": "2"})
        failed(await edit(tmp_path, "nowhere", "x"))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert outcome.ok
    assert peak < 80_000_000


# Several at once


async def test_no_concurrent_edit_is_lost(tmp_path: Path) -> None:
    put(tmp_path, "".join(f"[{n:02}]\n" for n in range(50)))
    async with Runtime(files(tmp_path, names="both")) as runtime:
        calls = [
            Call("edit", {"file_path": "a.txt", "old_string": f"[{n:02}]", "new_string": f"done {n}"})
            for n in range(50)
        ]
        outcomes = await runtime.call_many(calls)

    assert [outcome.ok for outcome in outcomes] == [True] * 50
    assert (tmp_path / "a.txt").read_text() == "".join(f"done {n}\n" for n in range(50))


async def test_no_concurrent_edit_through_a_link_is_lost(tmp_path: Path) -> None:
    put(tmp_path, "".join(f"[{n:02}]\n" for n in range(40)))
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to("a.txt")
    (tmp_path / "folder/back").symlink_to("..")
    names = ["a.txt", "link", "folder/back/a.txt", str(tmp_path / "a.txt")]
    async with Runtime(files(tmp_path, names="both")) as runtime:
        calls = [
            Call("edit_file", {"path": names[n % 4], "edits": [{"old": f"[{n:02}]", "new": f"done {n}"}]})
            for n in range(40)
        ]
        outcomes = await runtime.call_many(calls)

    assert all(outcome.ok for outcome in outcomes), outcomes
    assert (tmp_path / "a.txt").read_text() == "".join(f"done {n}\n" for n in range(40))


async def test_an_edit_is_retried_when_another_process_changed_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, fstat, changed = put(tmp_path, "a\nb\n"), os.fstat, threading.Event()

    def interrupting(descriptor: int) -> os.stat_result:
        found = fstat(descriptor)
        if not changed.is_set() and found.st_ino == path.stat().st_ino and stat.S_ISREG(found.st_mode):
            changed.set()
            other = tmp_path / "other"
            other.write_text("a\nb\nmine\n")
            other.rename(path)
        return found

    monkeypatch.setattr(os, "fstat", interrupting)
    outcome = await edit(tmp_path, "b", "c")

    assert outcome.ok, outcome
    assert path.read_text() == "a\nc\nmine\n"


async def test_a_file_that_keeps_changing_is_a_conflict(tmp_path: Path) -> None:
    path, stopped = put(tmp_path, "0\nedit me\n"), threading.Event()

    def restless() -> None:
        number = 0
        while not stopped.is_set():
            number += 1
            new = tmp_path / "new"
            text = path.read_text().split("\n", 1)[1]
            new.write_text(f"{number}\n{text}")
            new.rename(path)

    thread = threading.Thread(target=restless)
    thread.start()
    try:
        async with Runtime(files(tmp_path, names="both")) as runtime:
            for _ in range(20):
                outcome = await runtime.call(
                    "edit", {"file_path": "a.txt", "old_string": "edit me", "new_string": "edit me"[::-1]}
                )
                assert outcome.ok or (isinstance(outcome, Failed) and outcome.code in ("conflict", "invalid_arguments"))
    finally:
        stopped.set()
        thread.join()

    assert path.read_text().count("\n") == 2


async def test_a_cancelled_call_changes_nothing(tmp_path: Path) -> None:
    path, space = put(tmp_path, "a\n"), Workspace(tmp_path)
    calls = {
        "edit": {"file_path": "a.txt", "old_string": "a", "new_string": "b"},
        "write": {"file_path": "a.txt", "content": "b"},
        "delete_file": {"path": "a.txt"},
        "move_file": {"from": "a.txt", "to": "b.txt"},
    }
    async with Runtime(files(space, names="both")) as runtime:
        with space.file_lock(space.resolve("a.txt")):
            outcomes = [await runtime.call(name, arguments, timeout=0.05) for name, arguments in calls.items()]
        while runtime.stats().abandoned:  # noqa: ASYNC110 - threads that nobody waits for tell nobody
            await asyncio.sleep(0.01)

    assert [failed(outcome, "timed_out") for outcome in outcomes]
    assert path.read_text() == "a\n"


# Asking


async def test_the_approval_of_an_edit_shows_a_diff(tmp_path: Path) -> None:
    path = put(tmp_path, "a\nb\n")
    async with Runtime(files(tmp_path, names="both"), policy=Policy.default()) as runtime:
        one = await runtime.call("edit", {"file_path": "a.txt", "old_string": "b", "new_string": "c"})
        assert isinstance(one, Pending)
        before = path.read_text()
        done = await runtime.approve(one.call_id)

    assert one.request["preview"] == {
        "type": "diff",
        "filePath": "a.txt",
        "patch": "--- a/a.txt\n+++ b/a.txt\n@@ -1,2 +1,2 @@\n a\n-b\n+c",
        "isNewFile": False,
    }
    assert before == "a\nb\n"
    assert done.ok
    assert path.read_text() == "a\nc\n"


async def test_a_preview_does_not_block_the_event_loop(tmp_path: Path) -> None:
    put(tmp_path, "line of text\n" * 700_000)
    slowest = 0.0

    async def watch() -> None:
        nonlocal slowest
        while True:
            began = thread_time()  # what this thread works, and not what it waits for others on a busy machine
            await asyncio.sleep(0.005)
            slowest = max(slowest, thread_time() - began)

    async with Runtime(files(tmp_path, names="both"), policy=Policy.default()) as runtime:
        await runtime.call("edit", {"file_path": "b.txt", "old_string": "a", "new_string": "b"})
        watching = asyncio.create_task(watch())
        await asyncio.sleep(0)
        began = process_time()
        await runtime.call("edit", {"file_path": "a.txt", "old_string": "text", "new_string": "c", "replace_all": True})
        worked = process_time() - began
        await asyncio.sleep(0.01)
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)

    assert slowest < worked / 2
