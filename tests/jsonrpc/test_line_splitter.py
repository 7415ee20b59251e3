"""Lines come out of chunks of any size; one that is too long is skipped without being kept."""

from hypothesis import given
from hypothesis import strategies as st

from surehand.jsonrpc.codec import OverlongFrame
from surehand.jsonrpc.line_splitter import LineSplitter

chunks = st.lists(st.binary(max_size=6).map(lambda data: data.replace(b"x", b"\n")), max_size=20)


@given(chunks)
def test_chunks_of_any_size_give_the_lines_of_the_whole(parts):
    splitter = LineSplitter(1_000)

    lines = [line for part in parts for line in splitter.split(part)]

    *ended, rest = b"".join(parts).split(b"\n")
    assert lines == ended
    assert splitter.is_empty == (not rest)


def test_a_line_that_is_too_long_is_known_before_it_ends_and_only_its_ends_are_kept():
    splitter = LineSplitter(3_000)

    assert splitter.split(b"a" * 2_000) == []
    assert not splitter.is_overlong
    assert splitter.split(b"b" * 2_000) == []
    assert splitter.is_overlong
    overlong, after = splitter.split(b"c" * 1_500 + b"\nshort\n")

    assert overlong == OverlongFrame(b"a" * 1_024, b"c" * 1_024, 3_000)
    assert after == b"short"
    assert splitter.is_empty


def test_a_line_that_is_too_long_within_one_chunk_is_skipped_alone():
    first, second, third = LineSplitter(10).split(b"one\n" + b"x" * 20 + b"\nthree\n")

    assert (first, third) == (b"one", b"three")
    assert second == OverlongFrame(b"x" * 20, b"x" * 20, 10)
