"""Docstrings in the three usual styles."""

import pytest

from surehand.core.description import parse_docstring

GOOGLE = """Search the archive.

    It knows everything: even this.

    Args:
        words (str): What to look for,
            as people write it.
        limit: How many: at most 10.
        *more: Further words.

    Returns:
        found: The matches.

    Raises:
        ValueError: never.
    """

NUMPY = """Search the archive.

    It knows everything: even this.

    Parameters
    ----------
    words : str
        What to look for,
        as people write it.
    limit, offset : int, optional
        How many: at most 10.

    Returns
    -------
    found : list
        The matches.
    """

SPHINX = """Search the archive.

    It knows everything: even this.

    :param words: What to look for,
        as people write it.
    :type words: str
    :param int limit: How many: at most 10.
    :returns: The matches.
    """


@pytest.mark.parametrize("text", [GOOGLE, NUMPY, SPHINX], ids=["google", "numpy", "sphinx"])
def test_a_docstring_is_taken_apart(text: str) -> None:
    read = parse_docstring(text)

    assert read.description == "Search the archive.\n\nIt knows everything: even this."
    assert read.parameters["words"] == "What to look for, as people write it."
    assert read.parameters["limit"] == "How many: at most 10."
    assert not {"found", "ValueError", "returns"} & read.parameters.keys()


def test_numpy_names_may_share_a_description_and_google_names_may_have_stars() -> None:
    assert parse_docstring(NUMPY).parameters["offset"] == "How many: at most 10."
    assert parse_docstring(GOOGLE).parameters["more"] == "Further words."


@pytest.mark.parametrize("text", [None, "", "   \n  "])
def test_no_docstring_gives_an_empty_description(text: str | None) -> None:
    assert parse_docstring(text) == ("", {})


def test_a_docstring_without_sections_is_all_description() -> None:
    assert parse_docstring("Do it.\n\nNotes on style: none.\nArgs are fine.") == (
        "Do it.\n\nNotes on style: none.\nArgs are fine.",
        {},
    )


def test_a_word_that_could_head_a_section_stays_in_the_text_unless_it_does() -> None:
    assert parse_docstring("See\nExamples\nfor more.").description == "See\nExamples\nfor more."


def test_other_sections_are_not_part_of_the_description() -> None:
    assert parse_docstring("Do it.\n\nExample:\n    do_it()\n").description == "Do it."
