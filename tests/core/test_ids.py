"""Call ids."""

import os
import re
import time

import pytest

from surehand.core.ids import new_id


def test_an_id_is_thirty_six_hexadecimal_digits() -> None:
    assert re.fullmatch("[0-9a-f]{36}", new_id())


def test_ids_are_unique() -> None:
    assert len({new_id() for _ in range(10_000)}) == 10_000


def test_ids_begin_with_the_milliseconds_of_their_making() -> None:
    before = int(time.time() * 1000)
    made = [int(new_id()[:12], 16) for _ in range(1_000)]
    after = int(time.time() * 1000)

    assert made == sorted(made)
    assert before <= made[0] <= made[-1] <= after


def test_the_rest_cannot_be_guessed() -> None:
    random = [new_id()[12:] for _ in range(1_000)]

    assert len({digits[:6] for digits in random}) > 990
    assert len({digits[-6:] for digits in random}) > 990


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_process_makes_other_ids() -> None:
    new_id()  # there are random digits in store, and a fork copies them
    reader, writer = os.pipe()
    if (child := os.fork()) == 0:
        os.write(writer, "".join(new_id()[12:] for _ in range(20)).encode())
        os._exit(0)
    os.waitpid(child, 0)
    theirs = os.read(reader, 10_000).decode()
    os.close(reader)
    os.close(writer)

    ours = [new_id()[12:] for _ in range(20)]

    assert len(theirs) == 20 * 24
    assert not any(id in theirs for id in ours)
