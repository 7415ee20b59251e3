"""JSON with comments and trailing commas."""

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from surehand.core.json_with_comments import line_numbers, strip_comments

TEXT = """\
{
  // "not": "a key",
  "url": "http://host/*no*/, ]", /* over
  two lines */ "list": [1, {"a": [],}, "x",
  ],
}
"""


def test_comments_and_trailing_commas_go_and_lines_stay():
    bare = strip_comments(TEXT)

    assert json.loads(bare) == {"url": "http://host/*no*/, ]", "list": [1, {"a": []}, "x"]}
    assert [len(line) for line in bare.splitlines()] == [len(line) for line in TEXT.splitlines()]
    assert dict(line_numbers(bare)) == {
        ("url",): 3,
        ("list",): 4,
        ("list", 0): 4,
        ("list", 1): 4,
        ("list", 1, "a"): 4,
        ("list", 2): 4,
    }


def test_a_repeated_key_is_given_each_time():
    assert list(line_numbers('{"a": 1,\n"a": 2}')) == [(("a",), 1), (("a",), 2)]


def ways(value, way=()):
    """Every key and every item, in their order."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for step, inside in inner:
        yield (*way, step)
        yield from ways(inside, (*way, step))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


@given(JSON, st.sampled_from([None, 1, "\t"]))
def test_what_is_plain_already_stays_and_every_way_is_found(value, indent):
    text = json.dumps(value, indent=indent)

    assert strip_comments(text) == text
    assert [way for way, _ in line_numbers(text)] == list(ways(value))


@pytest.mark.parametrize("text", ["/*", '"\\', ",", ", ", "/", '"', "/*/", '[{"a":'])
def test_nonsense_takes_no_time(text):
    began = time.process_time()

    strip_comments(text * 50_000)

    assert time.process_time() - began < 2
