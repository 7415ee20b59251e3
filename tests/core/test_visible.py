"""Text that a person may trust to be what it looks like."""

import pytest

from toolwright.core.visible import escaped


@pytest.mark.parametrize(
    "hidden",
    [
        *"\x00\x07\x08\x1b\r\x7f\x85\x9b\xad\u034f\u061c\u115f\u180e\u200b\u200c\u200d\u200e\u200f\u2028\u2029",
        *"\u202a\u202e\u2060\u2066\u2069\u2800\u3164\ufe0f\ufeff\uffa0\ud800\U000e0041\U000e0101\U000f0000",
    ],
)
def test_what_nobody_sees_is_written_out(hidden):
    code = ord(hidden)

    assert escaped(f"a{hidden}b") == f"a\\u{code:04x}b" if code <= 0xFFFF else f"a\\U{code:08x}b"


@pytest.mark.parametrize(
    "seen",
    [
        "",
        "plain",
        "two\nlines\tand a tab",
        "Zoë 日本語 עברית",
        "no\u00a0break",
        "👨\u200d👩\u200d👧",
        "❤\ufe0f",
        "1\ufe0f\u20e3",
        "\U0001fae8 and \U0001fa8a",  # pictures that came after this Python, or are yet to come
    ],
)
def test_what_is_seen_stays_as_it_is(seen):
    assert escaped(seen) == seen


def test_of_many_marks_behind_a_picture_the_first_is_the_pictures():
    assert escaped("❤\ufe0f\ufe0e\ufe0f") == "❤\ufe0f\\ufe0e\\ufe0f"
