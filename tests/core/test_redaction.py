"""Redaction of known secrets in texts, values and streams of lines."""

import base64
import json
import re
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from surehand.core.redaction import LineRedactor, Redactor

SECRET = 'tok/En+4711-&"x'


@pytest.mark.parametrize("before", ["", "a", "ab", "abc", "user:"])
@pytest.mark.parametrize("after", ["", "z", "zz"])
@pytest.mark.parametrize("encode", [base64.b64encode, base64.urlsafe_b64encode, base64.b32encode])
def test_a_secret_is_found_at_each_alignment_of_base64_and_base32(encode, before, after):
    text = encode(f"{before}{SECRET}{after}".encode()).decode()

    shown = Redactor([SECRET])(f"x {text} y")

    assert "[redacted]" in shown
    assert len(shown) < 32


def test_spaces_and_line_breaks_within_a_secret_do_not_hide_it():
    redact = Redactor(["abcdefgh12345678"])

    assert redact("x abcdefgh\n   12345678 y") == "x [redacted] y"
    assert redact("x a\u200bbcdefgh\x1b[0m12345678 y") == "x [redacted] y"
    assert redact("x abcdefgh 1234567 y") == "x abcdefgh 1234567 y"


def test_a_short_secret_is_found_as_it_is_only():
    redact = Redactor(["abc"])

    assert redact("x ABC a bc") == "x [redacted] a bc"


@pytest.mark.parametrize(
    "secret",
    [
        "gizli\u0130parola9",
        "\u039a\u039b\u0395\u0399\u0394\u0399-\u039f\u0394\u039f\u03a3",
        "ge\u0130m",
        "\u039f\u03a3",
    ],
)
@pytest.mark.parametrize("after", ["", " y", "\u03a7", "\u0130"])
def test_letters_whose_lower_case_depends_on_their_neighbours_do_not_hide_a_secret(secret, after):
    assert Redactor([secret])(f"x {secret}{after}") == f"x [redacted]{after}"


def test_secrets_that_overlap_are_masked_together():
    assert Redactor(["abcdefghij", "ghijklmnop"])("-abcdefghijklmnop-") == "-[redacted]-"


def test_values_without_secrets_are_the_same_objects():
    redact = Redactor([SECRET])
    value = {"a": [1, None, {"b": "text"}], "c": ("x", 2.5)}

    assert redact.redact_json(value) is value
    assert redact.redact_json({"a": [1, {SECRET: f"is {SECRET}"}]}) == {"a": [1, {"[redacted]": "is [redacted]"}]}


@given(
    st.lists(st.sampled_from(["abcd", "efgh", " ", "\n", "\x1b[0m", "\u200b", "\u0130", "\x00", "x"]), max_size=12).map(
        "".join
    )
)
def test_what_is_masked_is_the_secret_with_what_stands_within_it(text):
    masked = Redactor(["abcdefgh"])(text)

    left = re.split(re.escape("[redacted]"), masked)
    pattern = ".*?".join(re.escape(part) for part in left) if len(left) > 1 else re.escape(masked)
    assert re.fullmatch(pattern, text, re.DOTALL)
    assert "abcdefgh" not in re.sub(r"\x1b\[0m|[\s\u200b\x00]", "", masked)
    assert all(part in text for part in left)


def test_masking_a_long_text_takes_a_few_times_its_memory():
    text = f"{'lorem ipsum ' * 100_000}{SECRET}{'dolor sit ' * 10_000}"
    redact = Redactor([SECRET])

    tracemalloc.start()
    try:
        masked = redact(text)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert masked == text.replace(SECRET, "[redacted]")
    assert peak < 6 * len(text)


@given(st.text(min_size=8, max_size=30).filter(lambda text: len("".join(text.split())) >= 8), st.text(), st.text())
def test_no_secret_is_left_in_a_text(secret, before, after):
    redact = Redactor([secret])

    assert secret not in redact(f"{before}{secret}{after}")
    assert secret not in redact(json.dumps([before, secret, after]))


@pytest.mark.parametrize("cut", range(9, 16))
def test_a_secret_that_continues_in_the_next_line_is_masked_in_both(cut):
    redact = LineRedactor(Redactor(["abcdefgh12345678"]))

    lines = [
        redact("one"),
        redact("x abcdefgh12345678"[: cut + 2]),
        redact(f"{'abcdefgh12345678'[cut:]} y"),
        redact("z"),
    ]

    assert lines == ["one", "x [redacted]", "[redacted] y", "z"]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("\x1b]8;;https://h/?key=", "\x1b\\here\x1b]8;;\x1b\\"),
        ("\x1b]0;server ", "\x07"),
        ("\x9d0;", "\x9c"),
        ("\x1bP", "\x1b\\"),
        ("no value '\x1b[", "' \x1b[0m"),
        ("\x1b(", ""),
        ("\x1b", ""),
    ],
)
@pytest.mark.parametrize("letter", ["", "\u0142"], ids=["ascii", "unicode"])
def test_a_secret_in_an_escape_sequence_or_behind_the_start_of_one_is_masked(before, after, letter):
    text = f"{letter}{before}abcd1234efgh5678{after}"
    redactor = Redactor(["abcd1234efgh5678"])

    assert redactor(text) == f"{letter}{before}[redacted]{after}"
    assert LineRedactor(redactor)(text).startswith(f"{letter}{before}[redacted]")


def test_a_secret_that_begins_in_an_escape_sequence_is_masked_in_the_next_line_too():
    redact = LineRedactor(Redactor(["abcdefgh12345678"]))

    assert [redact("x \x1b[abcdefgh123"), redact("45678 y")] == ["x \x1b[[redacted]", "[redacted] y"]


def test_a_secret_that_holds_an_escape_sequence_is_masked():
    assert Redactor(["abcd\x1b[31mefgh"])("x abcd\x1b[31mefgh y") == "x [redacted] y"


def test_a_secret_of_several_lines_is_masked_line_by_line():
    redact = LineRedactor(Redactor(["-----BEGIN-----\nabcdefgh1234\nijklmnop5678\n-----END-----"]))

    assert [redact(line) for line in ("x", "key: ijklmnop5678", "abcdefgh1234")] == [
        "x",
        "key: [redacted]",
        "[redacted]",
    ]
