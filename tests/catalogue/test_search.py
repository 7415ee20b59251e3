"""Full-text search of tools."""

from typing import Annotated, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import Field

from surehand.catalogue.catalogue import Catalogue
from surehand.catalogue.search import ToolIndex, split_words
from surehand.core.define import tool
from surehand.core.tool import Tool


def named(name: str, description: str = "Something else entirely.", **options: Any) -> Tool[..., Any]:
    @tool(name=name, description=description, **options)
    async def handler() -> None: ...

    return handler


def found(query: str, *tools: Tool[..., Any], limit: int = 10) -> list[str]:
    return [listing.name for listing in ToolIndex(Catalogue(*tools)).search(query, limit)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("read_file", ["read", "file"]),
        ("getHTTPStatus", ["get", "http", "status"]),
        ("git__list-branches", ["git", "list", "branches"]),
        ("base64_encode", ["base64", "encode"]),
        ("Größe ändern", ["grösse", "ändern"]),
        ("  ...  ", []),
    ],
)
def test_text_is_taken_apart_into_words(text: str, expected: list[str]) -> None:
    assert split_words(text) == expected


def test_a_word_in_the_name_counts_more_than_in_an_alias_a_description_or_a_parameter() -> None:
    @tool(description="Does things.")
    async def by_parameter(mail: str) -> None: ...

    described, aliased, direct = named("one", "Reads mail."), named("two", aliases=("mail",)), named("get_mail")

    assert found("mail", by_parameter, described, aliased, direct) == ["get_mail", "two", "one", "by_parameter"]


def test_descriptions_of_parameters_are_searched() -> None:
    @tool
    async def pay(amount: Annotated[int, Field(description="in the currency of the supplier")]) -> None:
        """Pay."""

    assert found("supplier", pay, named("other")) == ["pay"]


def test_case_and_the_way_words_are_joined_do_not_matter() -> None:
    assert found("READ FILE", named("readFile"), named("write_file"))[0] == "readFile"
    assert found("readfile", named("read_file"), named("write_file")) == ["read_file"]


def test_a_whole_word_is_better_than_the_beginning_of_one() -> None:
    assert found("list", named("listen_now"), named("list_users")) == ["list_users", "listen_now"]


def test_the_beginning_of_a_word_is_enough() -> None:
    assert found("trans", named("transfer_money"), named("pay")) == ["transfer_money"]


def test_plurals_and_other_endings_find_the_plain_word() -> None:
    assert found("searching invoices", named("search_invoice"), named("pay")) == ["search_invoice"]


def test_rarer_words_weigh_more() -> None:
    common = [named(f"get_thing{number}") for number in range(20)]

    assert found("get kubernetes", *common, named("kubernetes"))[0] == "kubernetes"


def test_more_matched_words_are_better() -> None:
    both = named("one", "Delete a user.")

    assert found("delete user", named("delete_page"), named("user"), both)[0] == "one"


def test_an_exact_name_comes_first() -> None:
    others = [named("file_file_read", "Read file, read file."), named("read_file_fast", "Read a file.")]

    assert found("read_file", *others, named("read_file", "Hm."))[0] == "read_file"


def test_a_tool_is_found_by_its_own_name_without_the_namespace() -> None:
    catalogue = Catalogue(named("search_files_everywhere", "Search, search, search."))
    catalogue.add(named("search"), namespace="fs")

    assert catalogue.search("search")[0].name == "fs__search"


def test_an_empty_query_finds_nothing() -> None:
    assert found("", named("a")) == []
    assert found(" _- ", named("a")) == []


def test_a_query_without_matches_finds_nothing() -> None:
    assert found("zebra", named("a")) == []


def test_no_more_than_the_limit_are_given() -> None:
    tools = [named(f"read_{number}") for number in range(20)]

    assert len(found("read", *tools, limit=3)) == 3
    assert found("read", *tools, limit=0) == []


def test_equally_good_tools_always_come_in_the_same_order() -> None:
    tools = [named("read_b"), named("read_a"), named("read_long")]

    assert found("read", *tools) == found("read", *reversed(tools)) == ["read_a", "read_b", "read_long"]


def test_a_word_that_nearly_every_tool_has_does_not_decide() -> None:
    plain = named("plain", "Get the thing.")
    catalogue = Catalogue(*(plain.evolve(name=f"t{number}") for number in range(2_100)), named("rare", "Zebra."))

    assert [listing.name for listing in catalogue.search("get the zebra")] == ["rare"]
    assert len(catalogue.search("get the")) == 10


def test_a_tool_whose_schema_fails_is_still_found_by_its_name() -> None:
    @tool
    async def broken(value: "NoSuchType") -> None:  # type: ignore[name-defined]  # noqa: F821
        """Broken."""

    assert found("broken", broken, named("whole")) == ["broken"]
    assert found("whole", broken, named("whole")) == ["whole"]


def test_a_search_sees_tools_that_came_and_went() -> None:
    catalogue = Catalogue(named("read_file"))
    assert catalogue.search("mail") == []

    catalogue.add(named("read_mail"))
    assert [listing.name for listing in catalogue.search("mail")] == ["read_mail"]

    catalogue.remove("read_mail")
    assert catalogue.search("mail") == []


@given(st.text(max_size=40))
def test_no_query_breaks_the_search(query: str) -> None:
    names = found(query, named("read_file"), named("x"))

    assert len(names) == len(set(names))
    assert set(names) <= {"read_file", "x"}
