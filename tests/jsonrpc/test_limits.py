"""Messages with too many values are recognised before they are parsed."""

import json

import pytest

from surehand.jsonrpc.limits import EventStreamLimit, estimate_memory_bytes, has_too_many_values

MANY = json.dumps([0] * 60_000).encode()
TEXT = json.dumps([',[{"' * 40_000]).encode()
ESCAPES = json.dumps(['\\"' * 40_000] * 2).encode()


@pytest.mark.parametrize(("data", "too_many"), [(MANY, True), (TEXT, False), (ESCAPES, False), (b"[" * 60_000, True)])
def test_values_are_counted_outside_strings_only(data, too_many):
    assert has_too_many_values(data, 50_000) is too_many


def test_the_limit_is_almost_exact():
    assert not has_too_many_values(b"[" + b"1," * 49_998 + b"1]", 50_000)
    assert has_too_many_values(b"[" + b"1," * 50_002 + b"1]", 50_000)


def test_a_small_limit_holds_for_short_messages_too():
    assert has_too_many_values(b"[" * 100, 10)
    assert not has_too_many_values(b"[" * 10, 10)


def test_memory_is_the_text_and_its_values():
    assert estimate_memory_bytes(b'{"a":[1,2]}', 1_000) == 11 + 128 * 3
    assert estimate_memory_bytes(MANY, 10) == len(MANY) + 1_280


@pytest.mark.parametrize("size", [100, 7_000])
def test_each_event_of_a_stream_is_counted_separately(size):
    event = b"data: " + b"[0," * 20_000 + b"\n\n"
    limit = EventStreamLimit(50_000)

    pieces = [(event * 5)[start : start + size] for start in range(0, 5 * len(event), size)]

    assert not any(limit.is_exceeded_by(piece) for piece in pieces)
    assert any(limit.is_exceeded_by(b"[0," * size) for _ in range(60_000 // size))
