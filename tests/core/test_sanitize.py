"""Text from outside is made safe for people, models, logs and JSON."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from surehand.core.sanitize import (
    clean_line,
    clean_text,
    escape_as_json,
    escape_line,
    escape_terminal_output,
    escape_unprintable,
    has_hidden_characters,
    has_smuggling_characters,
    replace_surrogates,
    replace_surrogates_in,
    strip_ansi,
    strip_hidden,
)


@pytest.mark.parametrize(
    "hidden",
    [
        *"\x00\x07\x08\x1b\r\x7f\x85\x9b\xad\u034f\u061c\u115f\u180e\u200b\u200c\u200d\u200e\u200f\u2028\u2029",
        *"\u202a\u202e\u2060\u2066\u2069\u2800\u3164\ufe0f\ufeff\uffa0\ud800\U000e0041\U000e0101\U000f0000",
    ],
)
def test_invisible_characters_are_escaped(hidden):
    code = ord(hidden)

    assert escape_unprintable(f"a{hidden}b") == f"a\\u{code:04x}b" if code <= 0xFFFF else f"a\\U{code:08x}b"


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
    assert escape_unprintable(seen) == seen


def test_of_many_marks_behind_a_picture_the_first_is_the_pictures():
    assert escape_unprintable("❤\ufe0f\ufe0e\ufe0f") == "❤\ufe0f\\ufe0e\\ufe0f"


def test_a_line_has_all_that_has_no_ink_written_out():
    hidden = "\U000e0100\U000e0041\ufe0f\u2060\u061c\xad\u200b\u202e\x1b\x07\x9b\n\t\u3164\ud800"
    shown = escape_line(f"a{hidden}b")

    assert shown.isascii()
    assert shown.startswith(
        "a\\U000e0100\\U000e0041\\ufe0f\\u2060\\u061c\\u00ad\\u200b\\u202e\\u001b\\u0007\\u009b\\n\\t"
    )


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("12345", "12345"),
        ("123456", "12345..."),
        (b"12345", "12345"),
        (b"123456", "12345..."),
        ("\U0001f642" * 5, "\U0001f642" * 5),
        (("\U0001f642" * 5).encode(), "\U0001f642" * 5),
        (("\U0001f642" * 6).encode(), "\U0001f642" * 5 + "..."),
        (b"a\xff\n", "a\\xff..."),
        (b"a\xff", "a\\xff"),
        ("a\n", "a\\n"),
    ],
)
def test_a_long_line_is_cut_and_says_so(text, line):
    assert escape_line(text, 5) == line


def test_text_escaped_as_json_is_the_same_json_without_invisible_characters():
    value = {"name": "Gr\u00fc\u00dfe\u200b \U000e0041\ufe0f\x7f\u00a0!", "emoji": "\U0001f468\u200d\U0001f469"}
    text = json.dumps(value, ensure_ascii=False)
    shown = escape_as_json(text)

    assert json.loads(shown) == value
    assert "\\u200b \\udb40\\udc41\\ufe0f\\u007f\\u00a0!" in shown
    assert "\\u200d" in shown


@pytest.mark.parametrize(
    ("printed", "shown"),
    [
        ("\x1b[1;31mred\x1b[0m", "red"),
        ("a\x07b\x00c", "a\ufffdb\ufffdc"),
        ("a\r\nb\rc", "a\nb\nc"),
        ("a\u202eb\U000e0041", "a\\u{202e}b\\u{e0041}"),
        ("a\xad\u2028b", "a\\u{ad}\\u{2028}b"),
        ("\U0001f642\ufe01\ufe02\ufe03", "\U0001f642\\u{fe01}\\u{fe02}\\u{fe03}"),
        (
            "\u2764\ufe0f\u200d\U0001f525 \u0645\u06cc\u200c\u0634",
            "\u2764\ufe0f\u200d\U0001f525 \u0645\u06cc\u200c\u0634",
        ),
    ],
)
def test_terminal_output_has_no_control_sequences_and_no_invisible_characters(printed, shown):
    assert escape_terminal_output(printed) == shown


def test_only_ansi_sequences_are_stripped_as_such():
    assert strip_ansi("a\x1b[31mb\x1b]0;title\x07c\x9b0md\ne\x00") == "abcd\ne\x00"
    assert strip_ansi("a\x1b]unended") == "a\x1b]unended"


SCOTLAND = "🏴\U000e0067\U000e0062\U000e0073\U000e0063\U000e0074\U000e007f"
SEEN_OF = {
    "a\u200bb\u2060c\xad\ufeff": "abc",
    "a\ufe01b\ufe02": "ab",
    "pay\u200dpal\u200c.com": "paypal.com",
    "🙂\ufe01\ufe02\ufe03": "🙂",
    "❤\ufe0f\u200d🔥": "❤\ufe0f\u200d🔥",
    "1\ufe0f\u20e3": "1\ufe0f\u20e3",
    "می\u200cشود": "می\u200cشود",
    "שלום\u200f!": "שלום!",
    "٣\u061c/٤": "٣/٤",
    "葛\ufe00": "葛",
    "क्\u200dष क्\u200cष": "क्\u200dष क्\u200cष",
    "ไทย\u200bไทย": "ไทย\u200bไทย",
    "한\u3164글 \uffa0\u17b4x": "한글 x",
    "\u1100\u1160\u11a8 \u115f\u1161 \u115fx\u1160": "\u1100\u1160\u11a8 \u115f\u1161 x",
    "a\u2800\u2800b": "a b",
    "\u2800\u2801\u2800\u2803 x": "\u2800\u2801\u2800\u2803 x",
    "ᠠ\u180b x\u180b": "ᠠ\u180b x",
    "👨\u200d👩\u200d👧 👍🏽": "👨\u200d👩\u200d👧 👍🏽",
    "a\ufe0f\u200d👧": "a👧",
    SCOTLAND: SCOTLAND,
    "🏴\U000e0069\U000e0067\U000e006e\U000e007f": "🏴",
    "two\r\nlines\x85and\u2028more": "two\nlines\nand\nmore",
    "half \ud800": "half \ufffd",
    "\x1b[31mred\x1b[0m\x00": "red",
}


@pytest.mark.parametrize("text", SEEN_OF)
def test_hidden_characters_are_stripped_except_where_scripts_and_emoji_need_them(text):
    assert strip_hidden(text) == SEEN_OF[text]


@given(st.text())
def test_cleaning_twice_is_cleaning_once(text):
    assert strip_hidden(strip_hidden(text)) == strip_hidden(text)
    assert clean_text(clean_text(text)) == clean_text(text)


def test_harmless_text_is_left_alone():
    text = "Größe:\t5 µm\n- 日本語, עברית, ١٢٣\n    code"

    assert clean_text(text) == strip_hidden(text) == escape_terminal_output(text) == text
    assert strip_hidden("👩‍🚀 ✔️ می‌خواهم") == "👩‍🚀 ✔️ می‌خواهم"


def test_space_that_pushes_words_out_of_sight_is_folded():
    assert clean_text("a" + " " * 300 + "b" + "\n" * 300 + "c") == "a b\n\nc"


def test_a_long_description_says_that_it_is_cut():
    assert clean_text("abc def", 4) == "abc [cut: 7 characters in all]"
    assert clean_line("abcdefgh", 7) == "abcd..."


@pytest.mark.parametrize("value", [None, 5, b"bytes", ["text"]])
def test_what_is_no_text_is_an_empty_one(value):
    assert (clean_text(value), clean_line(value)) == ("", "")


def test_a_line_for_a_model_has_one_space_between_words():
    assert clean_line(" two\n\n lines\t\u200band a\u3164tab ") == "two lines and atab"


@pytest.mark.parametrize("name", ["a\tb", "a\nb", "a\u200bb", "\u202ea", "a\ud800", "a\u3164", "a\U000e0041", "\x9b"])
def test_a_name_that_hides_something_is_found_out(name):
    assert has_hidden_characters(name)
    assert not has_hidden_characters("Größe 日本語")


@pytest.mark.parametrize("value", ["\x1b[8m", "\x9b8m", "\u202e", "\u2066", "\U000e0041"])
def test_a_value_that_smuggles_something_is_found_out(value):
    assert has_smuggling_characters(value)
    assert not has_smuggling_characters("two\nlines\tand\u200c an \u2764\ufe0f")


def test_half_characters_become_question_marks_at_any_depth():
    assert replace_surrogates("a\ud83db") == "a?b"
    assert replace_surrogates_in({"\ud83d": ["\ud83d", ("é", 1, None)]}) == {"?": ["?", ["é", 1, None]]}


HIDING_PLACES = {
    "a variation selector for each byte": "".join(f"\u0436{chr(0xFE00 + nibble)}" for nibble in range(16)),
    "supplementary variation selectors": "😀" + "".join(chr(0xE0100 + byte) for byte in b"ignore"),
    "tags": "x" + "".join(chr(0xE0000 + byte) for byte in b"ignore all"),
    "joiners as bits": "a\u200cb\u200dc\u200cd",
    "joiners in a row": "\u0645\u200c\u200d\u200c\u200d\u0646",
    "marks of direction as bits": "\u05e9\u200e\u05dc\u200f\u05d5\u061c\u05dd",
    "word breaks as bits": "a\u200bb c\u200bd",
    "fillers": "\u3164\uffa0\u115f\u1160\u17b4\u17b5",
    "selectors of Mongolian": "x\u180b\u180c\u180d\u180f\u180e",
    "invisible operators": "\u2061\u2062\u2063\u2064",
    "format characters": "\xad\u034f\ufff9\ufffa\ufffb\U0001d173\U0001d159\U0001bca0",
}


@pytest.mark.parametrize("text", HIDING_PLACES.values(), ids=HIDING_PLACES.keys())
@pytest.mark.parametrize("clean", [strip_hidden, clean_text, clean_line])
def test_no_text_is_hidden_in_what_has_no_ink(clean, text):
    seen = clean(f"start {text} end")

    assert not has_hidden_characters(seen.replace("\u0645\u200c\u0646", ""))
    assert seen.startswith("start")
    assert seen.endswith("end")
