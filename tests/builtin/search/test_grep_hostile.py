"""Searching hostile content: irregular files, endless lines, slow patterns, and cancelled calls."""

import asyncio
import os
import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from time import monotonic, sleep

import psutil
import pytest

from surehand import Runtime, Workspace
from surehand.builtin.search import ripgrep, ripgrep_search, search_pattern, search_scope
from surehand.builtin.search.python_search import walk_files
from surehand.builtin.search.tools import search_tools
from surehand.core.errors import InvalidArguments, NotStarted
from tests.builtin.search_runtime import (
    open_search,
    search_done,
    search_failed,
    search_with,
    with_both_engines,
    write_tree,
)
from tests.requirements import needs

pytestmark = pytest.mark.timeout(30)  # some of these have much to do, and a busy machine takes its time


@with_both_engines
async def test_text_is_found_in_every_encoding_with_a_byte_order_mark(tmp_path: Path, engine: str) -> None:
    write_tree(tmp_path, {name: "größe = 1\r\nx größe\r\n".encode(name) for name in ("utf-8", "utf-8-sig", "utf-16")})
    write_tree(tmp_path, {"big-endian": b"\xfe\xff" + "größe = 1\nx größe\n".encode("utf-16-be")})
    write_tree(tmp_path, {"half": b"\xff\xfe" + "größe".encode("utf-16-le") + b"\x00\xd8\n\x00x"})

    matches = await search_done(tmp_path, engine, "grep", pattern="größe$")

    assert matches.text.splitlines() == [
        f"{name}:2: x größe" for name in ("big-endian", "utf-16", "utf-8", "utf-8-sig")
    ]
    assert "half:1: größe\ufffd" in (await search_done(tmp_path, engine, "grep", pattern="größe")).text


@with_both_engines
async def test_invalid_bytes_do_not_prevent_matches(tmp_path: Path, engine: str) -> None:
    write_tree(tmp_path, {"latin": "größe word\n".encode("latin-1"), "broken": b"\xfd\xfe\xffword\xf0\x9f\n"})
    write_tree(tmp_path, {"esc": "\x1b[1mword\u202e"})

    matches = await search_done(tmp_path, engine, "grep", pattern="word")

    assert matches.text.splitlines() == [
        "broken:1: \ufffd\ufffd\ufffdword\ufffd",
        r"esc:1: \u001b[1mword\u202e",
        "latin:1: gr\ufffd\ufffde word",
    ]


@with_both_engines
async def test_binary_files_are_skipped_wherever_the_nul_is(tmp_path: Path, engine: str) -> None:
    write_tree(tmp_path, {"early": b"word\0\nword\n", "late": b"word\n" + b"x\n" * 100_000 + b"\0", "text": "word\n"})
    write_tree(tmp_path, {"png": b"\x89PNG\r\n\x1a\n\0word"})

    async with open_search(tmp_path, engine) as call:
        assert (await call("grep", pattern="word")).text == "text:1: word"
        assert (await call("grep", pattern="word", output_mode="count")).text == "text: 1"
        assert (await call("grep", pattern="word", output_mode="files")).text == "text"


@with_both_engines
async def test_long_lines_are_cut_around_the_match(tmp_path: Path, engine: str) -> None:
    filler = "äb" * 1_000_000
    write_tree(
        tmp_path, {"middle": f"{filler}NEEDLE{filler}\n", "start": f"NEEDLE{filler}", "end": f"{filler}NEEDLE\r\n"}
    )

    matches = await search_done(tmp_path, engine, "grep", pattern="NEEDLE", context=2)

    end, middle, start = (line for line in matches.text.splitlines() if line != "--")
    assert len(matches.text) < 1000
    assert re.fullmatch(r"end:1: \.\.\.[äb]{194}NEEDLE", end)
    assert re.fullmatch(r"middle:1: \.\.\.[äb]{60}NEEDLE[äb]{134}\.\.\.", middle)
    assert re.fullmatch(r"start:1: NEEDLE[äb]{194}\.\.\.", start)


@with_both_engines
async def test_a_pattern_with_exponential_backtracking_is_quick(tmp_path: Path, engine: str) -> None:
    write_tree(tmp_path, {"line": "a" * 1_000_000 + "!\n", "x": "x" * 1_000_000})

    async with open_search(tmp_path, engine) as call:
        for pattern in ("^(a+)+$", "(x+x+)+y", "(a|aa)+$", "(.*)*b", "^(([a-z])+.)+[A-Z]([a-z])+$"):
            began = monotonic()
            outcome = await call("grep", pattern=pattern)

            assert outcome.ok, outcome
            assert monotonic() - began < 10, pattern


async def test_a_line_that_would_take_too_long_is_skipped_and_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search_pattern, "_MAX_LINE_SECONDS", 0.0)
    write_tree(tmp_path, {"a.txt": "ab" * 400_000 + "\nabc\n"})

    matches = await search_done(tmp_path, "walker", "grep", pattern="(ab)+")

    assert "a.txt:2: abc" in matches.text
    assert "Very long lines were not searched" in matches.text


def test_a_pattern_that_would_be_slow_everywhere_is_refused() -> None:
    for pattern in (r"\p{L}{300}", "(a{900}){900}", "((a{0,99}){0,99}){0,99}"):
        with pytest.raises(InvalidArguments):
            search_pattern.SearchPattern(pattern, is_regex=True).build_matcher(lambda: False)


@with_both_engines
async def test_a_search_does_not_block_the_event_loop(tmp_path: Path, engine: str) -> None:
    write_tree(tmp_path, {f"{number}.txt": "word " * 1000 + "\n" for number in range(300)})
    gaps: list[float] = []

    async def beat() -> None:
        last = monotonic()
        while True:
            await asyncio.sleep(0.001)
            gaps.append(monotonic() - last)
            last = monotonic()

    beats: list[int] = []
    async with open_search(tmp_path, engine) as call:
        beating = asyncio.create_task(beat())
        while max(beats, default=0) <= 5 and len(beats) < 10:  # on a busy machine much may pass between two beats
            before = len(gaps)
            await call("grep", pattern=r"(\w+ )+x$")
            beats.append(len(gaps) - before)
        beating.cancel()

    assert max(beats) > 5
    assert median(gaps) < 0.5  # on a busy machine; alone it is a few milliseconds


@with_both_engines
async def test_irregular_files_do_not_block_a_search(tmp_path: Path, engine: str) -> None:
    write_tree(tmp_path, {"a.txt": "word\n", "sub/b.txt": "word\n", "monster": "word"})
    os.mkfifo(tmp_path / "fifo.txt")
    os.truncate(tmp_path / "monster", 1 << 40)
    (tmp_path / "loop").symlink_to(".")
    (tmp_path / "outside").symlink_to("/etc")
    (tmp_path / "zero").symlink_to("/dev/zero")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(os.path.relpath(tmp_path / "socket"))

        matches = await search_done(tmp_path, engine, "grep", pattern="word")

    assert matches.text == "a.txt:1: word\nsub/b.txt:1: word"


@needs("bubblewrap")
async def test_a_blocked_ripgrep_is_replaced_by_the_python_search(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(ripgrep_search, "_LISTING_SILENCE_SECONDS", 0.3)
    write_tree(tmp_path, {"a.txt": "word\n", "sub/b.txt": "word\n"})
    os.mkfifo(tmp_path / "sub/.gitignore")

    matches = await search_done(tmp_path, "either", "grep", pattern="word")
    listed = await search_done(tmp_path, "either", "glob", pattern="*.txt")

    assert matches.text == "a.txt:1: word\nsub/b.txt:1: word"
    assert set(listed.data) == {"a.txt", "sub/b.txt"}
    assert "without ripgrep" in caplog.text


@needs("bubblewrap")
async def test_a_ripgrep_that_cannot_start_is_replaced_by_the_python_search(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    write_tree(tmp_path, {"a.txt": "word\n"})
    monkeypatch.setattr(ripgrep, "find_program", lambda: "/usr/bin/cat")

    assert (await search_done(tmp_path, "either", "grep", pattern="wo+rd")).text == "a.txt:1: word"
    assert "without ripgrep" in caplog.text


@needs("bubblewrap")
async def test_a_workspace_with_a_non_utf8_name_is_searched(tmp_path: Path) -> None:
    root = Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff"))

    assert (
        await search_done(write_tree(root, {"a.txt": "word\n"}), "either", "grep", pattern="word")
    ).text == "a.txt:1: word"


def test_searching_works_without_a_sandbox(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def missing() -> None:
        raise NotStarted("no bubblewrap here")

    monkeypatch.setattr(ripgrep, "check_bubblewrap", missing)
    ripgrep.is_available.cache_clear()
    try:
        assert not ripgrep.is_available()
    finally:
        ripgrep.is_available.cache_clear()


@pytest.mark.long
@with_both_engines
async def test_files_that_vanish_or_cannot_be_read_are_skipped(tmp_path: Path, engine: str) -> None:
    write_tree(tmp_path, {f"{folder}/{number}.txt": "word\n" for folder in "abcdefgh" for number in range(50)})
    stop = False

    async def churn() -> None:
        while not stop:
            for folder in "aceg":
                for path in (tmp_path / folder).iterdir():
                    path.unlink()
                await asyncio.sleep(0)
                (tmp_path / folder).rmdir()
                await asyncio.sleep(0)
                (tmp_path / folder).mkdir()
                (tmp_path / folder / "new.txt").write_text("word\n")

    async with open_search(tmp_path, engine) as call:
        churning = asyncio.create_task(churn())
        for _ in range(5):
            counts = await call("grep", pattern="word", output_mode="count", include="[bdfh]/*")
            listed = await call("glob_files", pattern="**/*")
            lines = await call("grep", pattern="word")
            assert counts.metadata["matchCount"] == 200
            assert listed.data["totalFiles"] >= 200
            assert lines.metadata["matchCount"] == 50
        stop = True
        await churning


# Callers who go away


def below() -> set[int]:
    return {child.pid for child in psutil.Process().children(recursive=True)}


@contextmanager
def leaving_nothing_behind() -> Iterator[None]:
    before, descriptors = below(), set(os.listdir("/proc/self/fd"))
    yield
    until = monotonic() + 20
    while (below() - before or len(os.listdir("/proc/self/fd")) > len(descriptors)) and monotonic() < until:
        sleep(0.01)
    assert below() <= before
    assert len(os.listdir("/proc/self/fd")) <= len(descriptors)


@pytest.fixture
def endless(tmp_path: Path) -> Path:
    """A folder whose search takes for ever: its rules come out of a FIFO that nobody writes to."""
    os.mkfifo(write_tree(tmp_path, {"a.txt": "word\n"}) / ".gitignore")
    return tmp_path


@needs("bubblewrap")
@pytest.mark.parametrize(("name", "more"), [("grep", {}), ("glob", {}), ("grep_files", {"multiline": True})])
async def test_a_deadline_ends_ripgrep(endless: Path, name: str, more: dict[str, bool]) -> None:
    space = Workspace(endless)
    with search_with("ripgrep"), leaving_nothing_behind():
        async with Runtime(*search_tools(space, "both")) as runtime:
            outcome = await runtime.call(name, {"pattern": "word", **more}, timeout=0.3)
            assert outcome.code == "timed_out"


@needs("bubblewrap")
async def test_a_cancelled_call_ends_ripgrep(endless: Path) -> None:
    space = Workspace(endless)
    with search_with("ripgrep"), leaving_nothing_behind():
        async with Runtime(*search_tools(space, "both")) as runtime:
            call = asyncio.create_task(runtime.call("grep", {"pattern": "word"}))
            for _ in range(300):
                if below():
                    break
                await asyncio.sleep(0.01)
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call


@needs("bubblewrap")
async def test_no_search_leaves_a_process_or_a_descriptor_behind(tmp_path: Path) -> None:
    write_tree(tmp_path, {f"{number}.txt": "word\n" * 300 for number in range(50)})
    async with open_search(tmp_path, "ripgrep") as call:
        await call("grep", pattern="word")
        with leaving_nothing_behind():
            for pattern in ("word", "(", "w", "none"):
                await call("grep", pattern=pattern)
                await call("glob", pattern="*", max_results=1)


async def test_the_python_search_stops_when_the_call_is_cancelled(tmp_path: Path) -> None:
    write_tree(tmp_path, {f"{number}/a.txt": "" for number in range(5)})
    asked = 0

    def stop() -> bool:
        nonlocal asked
        asked += 1
        return asked > 3

    with pytest.raises(Exception, match="Nobody waits"):
        list(walk_files(search_scope.build_search_scope(Workspace(tmp_path), ".", "**/*", stop)))


async def test_a_very_deep_tree_is_searched_to_the_maximum_depth(tmp_path: Path) -> None:
    deep = tmp_path.joinpath(*("d" * search_scope.MAX_DEPTH), "e")
    deep.mkdir(parents=True)
    for folder in (deep, deep.parent, deep.parent.parent):
        (folder / "a.txt").write_text("word\n")

    for engine in ("walker", "ripgrep") if ripgrep.is_available() else ("walker",):
        matches = await search_done(tmp_path, engine, "grep", pattern="word", output_mode="count")
        assert matches.metadata["matchCount"] == 2


async def test_an_endless_gitignore_does_not_block_the_python_search(tmp_path: Path) -> None:
    write_tree(tmp_path, {".gitignore": "*a" * 100 + "*b\n" + "*x*y*z\n" * 5000, "a" * 250: "word\n", "b": "word\n"})

    began = monotonic()
    assert (await search_done(tmp_path, "walker", "grep", pattern="word")).metadata["matchCount"] == 2
    assert monotonic() - began < 10


async def test_a_missing_path_gives_the_usual_error(tmp_path: Path) -> None:
    failed = await search_failed(tmp_path, "walker", "grep", pattern="x", path="sub/none.txt")

    assert failed.code == "not_found"
