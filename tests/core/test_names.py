"""Names of tools for people, models and other programs."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from surehand.core.names import is_legal_name, nearest_names, qualified_name, sanitize_name, wire_name

WIRE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]{0,63}\Z")


@pytest.mark.parametrize("name", ["add", "read_file", "handoff-to", "_private", "2fa", "A"])
def test_letters_digits_underscores_and_inner_hyphens_make_a_name(name: str) -> None:
    assert is_legal_name(name)


@pytest.mark.parametrize("name", ["", "-x", "a b", "ä", "a.b", "a\n", "a/b"])
def test_anything_else_is_no_name(name: str) -> None:
    assert not is_legal_name(name)


def test_a_namespace_is_joined_by_two_underscores() -> None:
    assert qualified_name("git", "log") == "git__log"
    assert qualified_name("", "log") == qualified_name(None, "log") == "log"


def test_sanitising_keeps_case_and_hyphens() -> None:
    assert sanitize_name("My-Tool v2!") == "My-Tool_v2_"


def test_sanitising_takes_off_the_wrappers_of_chat_templates() -> None:
    assert sanitize_name("<|tool|>read_file<|end|>") == "read_file"


def test_a_name_without_legal_characters_gets_a_default_name() -> None:
    assert sanitize_name("") == sanitize_name("---") == "tool_call"


@given(st.text())
def test_a_sanitised_name_is_legal_and_stays_as_it_is(name: str) -> None:
    assert is_legal_name(sanitize_name(name))
    assert sanitize_name(sanitize_name(name)) == sanitize_name(name)


def test_a_name_that_fits_is_its_own_wire_name() -> None:
    assert wire_name("a" * 64) == "a" * 64


def test_a_long_name_is_cut_and_ends_in_a_hash() -> None:
    one, other = wire_name("a" * 65), wire_name("a" * 66)

    assert len(one) == len(other) == 64
    assert one != other
    assert one.startswith("a" * 55)


def test_names_that_differ_only_in_what_is_not_legal_stay_different() -> None:
    assert len({wire_name("a b"), wire_name("a.b"), wire_name("a_b")}) == 3


def test_a_shorter_limit_is_respected() -> None:
    assert len(wire_name("a" * 40, 32)) == 32


@given(st.text(max_size=300))
def test_every_wire_name_is_taken_by_model_apis(name: str) -> None:
    assert WIRE.match(wire_name(name))


@given(st.lists(st.text(max_size=100), unique=True, max_size=30))
def test_different_names_have_different_wire_names(names: list[str]) -> None:
    assert len({wire_name(name) for name in names}) == len(names)


def test_a_mistyped_name_finds_its_neighbours_best_first() -> None:
    assert nearest_names("raed_file", ["write_file", "read_file", "clock"])[0] == "read_file"


def test_case_does_not_make_a_name_strange() -> None:
    assert nearest_names("READ_FILE", ["read_file"]) == ["read_file"]


def test_a_name_unlike_all_others_has_no_neighbours() -> None:
    assert nearest_names("zzz", ["read_file", "write_file"]) == []


def test_no_more_neighbours_are_given_than_asked_for() -> None:
    assert len(nearest_names("read_file", [f"read_file{number}" for number in range(9)], 2)) == 2
