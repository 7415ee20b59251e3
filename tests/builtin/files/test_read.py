"""`read` and `read_file`: pages of numbered lines, or the content as it is, in constant memory."""

import base64
import os
import socket
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from surehand import Done, Failed, Outcome, Pending, Runtime, ToolError, Workspace
from surehand.builtin.files import line_reader as lines_module
from surehand.builtin.files import line_reader as page_module
from surehand.builtin.files.line_reader import read_page
from surehand.builtin.files.text_encoding import detect_encoding
from surehand.builtin.files.tools import files
from surehand.core.content import Image

pytestmark = pytest.mark.timeout(30)  # some of these have much to do, and a busy machine takes its time

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
)


async def call(where: Path, name: str, /, **arguments: Any) -> Outcome:
    async with Runtime(*(tool for tool in files(where, names="both") if tool.name == name)) as runtime:
        return await runtime.call(name, arguments)


async def read(where: Path, path: str, /, **more: Any) -> Done:
    outcome = await call(where, "read", file_path=path, **more)
    assert isinstance(outcome, Done), outcome
    return outcome


async def refused(where: Path, path: str, /, **more: Any) -> Failed:
    outcome = await call(where, "read", file_path=path, **more)
    assert isinstance(outcome, Failed), outcome
    return outcome


# Pages


async def test_lines_are_numbered_as_cat_does(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\ntwo\n\nfour")

    outcome = await read(tmp_path, "a.txt")

    assert outcome.text == "     1\tone\n     2\ttwo\n     3\t\n     4\tfour"
    assert outcome.data == outcome.text
    assert outcome.metadata == {"path": "a.txt", "startLine": 1, "endLine": 4, "totalLines": 4, "truncated": False}
    assert outcome.title == "Read a.txt"


async def test_line_numbers_can_be_left_out(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\n\ttwo\nthree")

    assert (await read(tmp_path, "a.txt", line_numbers=False)).text == "one\n\ttwo\nthree"
    assert (await read(tmp_path, "a.txt", line_numbers=False, offset=2, limit=1)).text == (
        "\ttwo\n\n(lines 2 to 2 of 3. Go on with offset=3.)"
    )


async def test_a_page_names_the_offset_of_the_next_page(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("".join(f"line {n}\n" for n in range(1, 5001)))

    first = await read(tmp_path, "a.txt")
    middle = await read(tmp_path, "a.txt", offset=4000, limit=2)
    last = await read(tmp_path, "a.txt", offset=5000)

    assert first.text.endswith("  2000\tline 2000\n\n(lines 1 to 2,000 of 5,000. Go on with offset=2001.)")
    assert middle.text.startswith("  4000\tline 4000\n  4001\tline 4001\n\n")
    assert middle.metadata | {"path": ""} == {
        "path": "", "startLine": 4000, "endLine": 4001, "totalLines": 5000, "truncated": True,
    }  # fmt: skip
    assert last.text == "  5000\tline 5000"
    assert last.metadata["truncated"] is False


async def test_all_pages_together_are_the_file(tmp_path: Path) -> None:
    lines = [f"{'x' * (n % 300)}{n}" for n in range(3000)]
    (tmp_path / "a.txt").write_text("\n".join(lines))
    seen: list[str] = []
    async with Runtime(files(tmp_path, names="both")) as runtime:
        while len(seen) < len(lines):
            page = await runtime.call("read", {"file_path": "a.txt", "offset": len(seen) + 1, "limit": 5000})
            assert isinstance(page, Done)
            shown = page.text.split("\n\n(lines")[0].split("\n")
            seen += [line.partition("\t")[2] for line in shown]
            assert page.metadata["endLine"] == len(seen)

    assert seen == lines


async def test_a_page_never_exceeds_the_output_limit(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(f"{'é' * 1999}\n" * 5000)

    outcome = await read(tmp_path, "a.txt", limit=5000)

    assert len(outcome.text.encode()) < 100_000
    assert "tool_output" not in outcome.text
    assert outcome.metadata["endLine"] < 50
    assert outcome.metadata["totalLines"] == 5000


async def test_a_limit_above_the_maximum_is_reduced_to_it(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("\n" * 9000)

    outcome = await read(tmp_path, "a.txt", limit=100_000)

    assert outcome.metadata["endLine"] == 5000


async def test_an_offset_beyond_the_end_says_how_many_lines_there_are(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\ntwo\nthree")

    assert "has 3 lines" in (await refused(tmp_path, "a.txt", offset=4)).message
    assert (await read(tmp_path, "a.txt", offset=3)).text == "     3\tthree"
    assert (await refused(tmp_path, "a.txt", offset=10**15)).code == "invalid_arguments"


@pytest.mark.parametrize("arguments", [{"offset": 0}, {"offset": -1}, {"limit": 0}, {"offset": "x"}, {"lines": 3}])
async def test_an_invalid_offset_or_limit_is_refused(tmp_path: Path, arguments: dict[str, Any]) -> None:
    (tmp_path / "a.txt").write_text("one\n")

    assert (await refused(tmp_path, "a.txt", **arguments)).code == "invalid_arguments"


async def test_an_empty_file_says_so(tmp_path: Path) -> None:
    (tmp_path / "a.txt").touch()

    outcome = await read(tmp_path, "a.txt")

    assert outcome.text == "(the file is empty)"
    assert outcome.metadata["totalLines"] == 0
    assert "0 lines" in (await refused(tmp_path, "a.txt", offset=2)).message


async def test_a_long_line_is_cut_and_says_so(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(f"{'x' * 2000}\n{'y' * 2001}\n{'z' * 3_000_000}\nend\n")

    outcome = await read(tmp_path, "a.txt")

    one, two, three, four = outcome.text.split("\n")
    assert one == f"     1\t{'x' * 2000}"
    assert two == f"     2\t{'y' * 2000} [cut: the line is longer than 2,000 characters]"
    assert three.startswith("     3\tzzz")
    assert len(three) < 2100
    assert four == "     4\tend"
    assert outcome.metadata["truncated"] is True


# Encodings


@pytest.mark.parametrize(
    ("codec", "name"),
    [
        ("utf-8", None),
        ("utf-8-sig", "utf-8-sig"),
        ("utf-16", "utf-16-le"),
        ("cp1252", "cp1252"),
        ("utf-32", "utf-32-le"),
    ],
)
async def test_the_encoding_is_detected(tmp_path: Path, codec: str, name: str | None) -> None:
    (tmp_path / "a.txt").write_bytes("Grüße\r\naus Köln\n".encode(codec))

    outcome = await read(tmp_path, "a.txt")

    assert outcome.text == "     1\tGrüße\n     2\taus Köln"
    assert outcome.metadata.get("encoding") == name
    assert outcome.metadata["totalLines"] == 2


async def test_a_file_of_two_byte_characters_is_paged_too(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes("".join(f"Zeile {n} ü\n" for n in range(1, 200_001)).encode("utf-16"))

    outcome = await read(tmp_path, "a.txt", offset=150_000, limit=1)

    assert outcome.text.startswith("150000\tZeile 150000 ü\n\n")
    assert outcome.metadata["totalLines"] == 200_000


async def test_invalid_utf8_after_the_head_is_shown_as_replacement_characters(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"a\n" * 5000 + b"\xff\n")

    assert (await read(tmp_path, "a.txt", offset=5001)).text == "  5001\t\ufffd"


async def test_a_character_cut_at_the_end_of_the_head_is_still_utf8(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"x" * 8191 + "é\n".encode())

    assert "encoding" not in (await read(tmp_path, "a.txt")).metadata


# What is no text


async def test_a_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()

    assert "is a folder" in (await refused(tmp_path, "src")).message


@pytest.mark.parametrize(
    ("name", "data", "what"),
    [
        ("a.zip", b"PK\x03\x04\0\0", "ZIP archive"),
        ("a.db", b"SQLite format 3\0", "SQLite database"),
        ("a.mp4", b"\0\0\0\x18ftypmp42", "video"),
        ("a.ico", b"\0\0\1\0", "binary, image/"),
        ("a.dat", b"text\0text", "binary"),
    ],
)
async def test_a_binary_file_says_what_it_is(tmp_path: Path, name: str, data: bytes, what: str) -> None:
    (tmp_path / name).write_bytes(data)

    failed = await refused(tmp_path, name)

    assert what in failed.message
    assert f"{len(data)} bytes" in failed.message


async def test_a_nul_after_the_head_does_not_make_a_file_binary(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"x" * 8192 + b"\0")

    assert (await read(tmp_path, "a.txt")).metadata["totalLines"] == 1


async def test_an_image_comes_as_an_image(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(PNG)

    outcome = await read(tmp_path, "a.png")

    image = outcome.content[1]
    assert isinstance(image, Image)
    assert base64.b64decode(image.data) == PNG
    assert image.mime_type == "image/png"
    assert outcome.data == {"path": "a.png", "mimeType": "image/png", "size": len(PNG)}


@pytest.mark.parametrize(
    ("data", "mime"),
    [
        (b"\xff\xd8\xff\xe0\0\x10JFIF", "image/jpeg"),
        (b"GIF89a\1\0\1\0\0\0\0", "image/gif"),
        (b"RIFF\x24\0\0\0WEBPVP8 ", "image/webp"),
    ],
)
async def test_images_are_detected_by_their_first_bytes(tmp_path: Path, data: bytes, mime: str) -> None:
    (tmp_path / "a").write_bytes(data)

    assert (await read(tmp_path, "a")).data["mimeType"] == mime


async def test_a_text_that_begins_like_an_image_is_a_text(tmp_path: Path) -> None:
    (tmp_path / "a.gif").write_text("GIF89a is how they begin")

    assert (await read(tmp_path, "a.gif")).text == "     1\tGIF89a is how they begin"


async def test_an_image_that_is_too_large_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(PNG + b"\0" * 4_000_000)

    assert (await refused(tmp_path, "a.png")).code == "too_large"


@pytest.mark.timeout(20)
async def test_an_irregular_file_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "socket"))

        assert "FIFO, not a regular file" in (await refused(tmp_path, "fifo")).message
        assert "not a regular file" in (await refused(tmp_path, "socket")).message


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make devices")
async def test_devices_are_refused(tmp_path: Path) -> None:
    try:
        os.mknod(tmp_path / "zero", 0o020666, os.makedev(1, 5))
    except PermissionError:
        pytest.skip("no devices can be made here")

    assert "is a device" in (await refused(tmp_path, "zero")).message


# Size


@contextmanager
def measured() -> Iterator[Callable[[], int]]:
    """The most memory that was in use inside, in bytes."""
    tracemalloc.start()
    try:
        yield lambda: peaks[0]
    finally:
        peaks = [tracemalloc.get_traced_memory()[1]]
        tracemalloc.stop()


async def test_a_sparse_file_of_a_terabyte_is_paged_at_once(tmp_path: Path) -> None:
    with (tmp_path / "sparse").open("wb") as file:
        file.write(b"line\n" * 5000)
        file.truncate(1 << 40)
    began = time.process_time()

    outcome = await read(tmp_path, "sparse", offset=3, limit=2)

    assert time.process_time() - began < 3
    assert outcome.metadata["totalLines"] is None
    shown, note = outcome.text.split("\n\n")
    assert shown == "     3\tline\n     4\tline"
    assert note == "(lines 3 to 4; more follow, not counted in so large a file. Go on with offset=5.)"


async def test_a_line_that_is_a_terabyte_long_is_cut_at_once(tmp_path: Path) -> None:
    with (tmp_path / "sparse").open("wb") as file:
        file.write(b"line\n" * 5000 + b"long")
        file.truncate(1 << 40)
    began = time.process_time()

    last = await read(tmp_path, "sparse", offset=5000)
    beyond = await refused(tmp_path, "sparse", offset=9999)

    assert time.process_time() - began < 3
    assert last.text.startswith("  5000\tline\n  5001\tlong\ufffd\ufffd")
    assert last.metadata["totalLines"] == 5001
    assert "which has 5,001 lines" in beyond.message


async def test_holes_do_not_hide_lines(tmp_path: Path) -> None:
    with (tmp_path / "holes").open("wb") as file:
        file.write(b"one\n" * 3000)
        file.seek(50_000_000)
        file.write(b"end\n" * 10)
        file.truncate(90_000_000)

    assert (await read(tmp_path, "holes")).metadata["totalLines"] == 3011
    assert (await read(tmp_path, "holes", offset=3005, limit=1)).text.startswith("  3005\tend\n")


async def test_a_large_file_is_read_in_flat_memory(tmp_path: Path) -> None:
    (tmp_path / "large.txt").write_bytes((b"x" * 99 + b"\n") * 600_000)
    with measured() as peak:
        outcome = await read(tmp_path, "large.txt", offset=599_000)

    assert outcome.metadata["totalLines"] == 600_000
    assert peak() < 6_000_000


async def test_a_line_without_an_end_takes_no_memory_either(tmp_path: Path) -> None:
    (tmp_path / "large.txt").write_bytes(b"x" * 60_000_000)
    with measured() as peak:
        outcome = await read(tmp_path, "large.txt")

    assert outcome.metadata["totalLines"] == 1
    assert peak() < 6_000_000


async def test_a_line_too_far_into_a_file_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines_module, "MAX_SCAN_BYTES", 3_000_000)
    monkeypatch.setattr(page_module, "MAX_COUNTED_FILE_BYTES", 3_000_000)
    (tmp_path / "lines").write_bytes(b"x\n" * 4_000_000)
    (tmp_path / "line").write_bytes(b"x\n" + b"y" * 9_000_000 + b"\nz\n")

    far = await refused(tmp_path, "lines", offset=3_900_000)
    near = await read(tmp_path, "lines", offset=1_000_000, limit=1)
    lost = await read(tmp_path, "line")

    assert far.code == "too_large"
    assert near.metadata["totalLines"] is None
    assert lost.metadata == {"path": "line", "startLine": 1, "endLine": 2, "totalLines": None, "truncated": True}


async def test_reading_stops_when_the_call_is_cancelled(tmp_path: Path) -> None:
    (tmp_path / "large.txt").write_bytes(b"x\n" * 10_000_000)
    space, checked = Workspace(tmp_path), list[bool]()

    class Impatient:
        @property
        def cancelled(self) -> bool:
            checked.append(True)
            return len(checked) > 3

    tool = next(tool for tool in files(space, names="both") if tool.name == "read")
    with pytest.raises(ToolError, match="Nobody waits"):
        tool.function("large.txt", Impatient(), 9_000_000, 1)  # type: ignore[misc]


async def test_a_file_that_shrinks_and_grows_while_it_is_read_does_no_harm(tmp_path: Path) -> None:
    path, stopped = tmp_path / "a.txt", threading.Event()
    path.write_text("line\n" * 50_000)

    def restless() -> None:
        while not stopped.is_set():
            os.truncate(path, 0)
            path.write_text("line\n" * 50_000)

    thread = threading.Thread(target=restless)
    thread.start()
    try:
        async with Runtime(files(tmp_path, names="both")) as runtime:
            outcomes = [await runtime.call("read", {"file_path": "a.txt", "offset": 2}) for _ in range(50)]
    finally:
        stopped.set()
        thread.join()

    assert {outcome.code for outcome in outcomes if isinstance(outcome, Failed)} <= {"invalid_arguments"}


@example(["é", "é", ""], 3, 1, 3, 3, "utf-8", "\n")
@given(
    st.lists(st.text("aé€", max_size=9), max_size=12),
    st.integers(1, 14),
    st.integers(1, 14),
    st.integers(1, 8),
    st.integers(1, 9),
    st.sampled_from(["utf-8", "utf-8-sig", "utf-16"]),
    st.sampled_from(["\n", "\r\n"]),
)
def test_the_lines_do_not_depend_on_the_block_size(
    lines: list[str], first: int, limit: int, most: int, block: int, codec: str, newline: str
) -> None:
    data = newline.join(lines).encode(codec)
    whole = lines[:-1] if lines and not lines[-1] else lines
    encoding = detect_encoding(data)
    assert encoding is not None
    with TemporaryFile() as file, pytest.MonkeyPatch.context() as patch:
        patch.setattr(lines_module, "BLOCK_BYTES", block)
        file.write(data)
        page = read_page(
            file, encoding, first, limit, max_line_length=most, max_bytes=10**9, is_cancelled=lambda: False
        )

    taken = whole[first - 1 : first - 1 + limit]
    assert [line.text_without_newline for line in page.lines] == [line[:most] for line in taken]
    assert [line.is_cut for line in page.lines] == [len(line) > most for line in taken]
    assert page.total_lines == len(whole)
    assert page.has_more == (len(whole) > first - 1 + limit)


# read_file


async def test_read_file_gives_the_content_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"one\r\ntwo")

    assert (await call(tmp_path, "read_file", path="a.txt")).data == {
        "content": "one\r\ntwo", "size": 8, "totalLines": 2, "path": "a.txt", "encoding": "utf-8",
    }  # fmt: skip


async def test_read_file_counts_lines_from_zero(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("zero\none\ntwo\n")

    outcome = await call(tmp_path, "read_file", path="a.txt", offset=1, limit=1)
    beyond = await call(tmp_path, "read_file", path="a.txt", offset=9)

    assert outcome.data == {
        "content": "one\n", "size": 13, "totalLines": 3, "path": "a.txt", "encoding": "utf-8",
        "offset": 1, "limit": 1, "truncated": True,
    }  # fmt: skip
    assert (beyond.data["content"], beyond.data["totalLines"]) == ("", 3)


async def test_read_file_says_how_to_page_what_is_too_large(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("x\n" * 1_000_000)

    whole = await call(tmp_path, "read_file", path="a.txt")
    page = await call(tmp_path, "read_file", path="a.txt", offset=999_999)

    assert isinstance(whole, Failed)
    assert whole.code == "too_large"
    assert "offset=0 and limit=2000" in whole.message
    assert page.data["content"] == "x\n"
    assert page.data["truncated"] is False


async def test_read_file_uses_the_requested_encoding(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes("Köln".encode("utf-16-le"))

    assert (await call(tmp_path, "read_file", path="a.txt", encoding="utf-16-le")).data["content"] == "Köln"
    assert (await call(tmp_path, "read_file", path="a.txt", encoding="BASE64")).data["content"] == "SwD2AGwAbgA="
    assert (await call(tmp_path, "read_file", path="a.txt", encoding="ascii")).code == "invalid_arguments"  # type: ignore[union-attr]


@pytest.mark.parametrize("name", ["rot13", "zip", "idna", "unicode_escape", "utf-9", "../x", "", "\ud800"[:0] + "é"])
async def test_only_text_encodings_are_accepted(tmp_path: Path, name: str) -> None:
    (tmp_path / "a.txt").write_text("x")

    outcome = await call(tmp_path, "read_file", path="a.txt", encoding=name)

    assert isinstance(outcome, Failed)
    assert outcome.code == "invalid_arguments"


async def test_no_line_is_too_long_for_read_file_up_to_its_limit(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(f"{'x' * 500_000}\nend\n{'y' * 2_000_000}\n")

    outcome = await call(tmp_path, "read_file", path="a.txt", offset=0, limit=10)

    assert outcome.data["content"].startswith("x" * 500_000 + "\nend\nyyy")
    assert len(outcome.data["content"]) < 1_600_000
    assert outcome.data["truncated"] is True


# The contract of the source documents


async def test_a_missing_file_is_not_found_and_similar_names_are_suggested(tmp_path: Path) -> None:
    (tmp_path / "main.py").touch()

    failed = await refused(tmp_path, "mian.py")

    assert failed.code == "not_found"
    assert "not found" in failed.message
    assert "Did you mean main.py?" in failed.message


async def test_a_path_outside_is_denied(tmp_path: Path) -> None:
    for path in ("/etc/hostname", "../x", str(tmp_path.parent / "x")):
        failed = await refused(tmp_path, path)
        assert failed.code == "denied"
        assert "Permission denied" in failed.message


async def test_a_sensitive_file_needs_approval(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("TOKEN=1")
    async with Runtime(files(tmp_path, names="both")) as runtime:
        asked = await runtime.call("read", {"file_path": ".env"})
        assert isinstance(asked, Pending)
        answered = await runtime.approve(asked.call_id)

    assert asked.message == "Allow to look at .env, which looks like keys or credentials?"
    assert answered.text == "     1\tTOKEN=1"
