"""The catalogue: adding, finding and watching tools."""

import logging
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from surehand.catalogue.catalogue import Catalogue
from surehand.core.define import tool
from surehand.core.errors import DefinitionError
from surehand.core.events import CatalogueChanged
from surehand.core.facets import CATEGORIES
from surehand.core.names import wire_name
from surehand.core.tool import Tool

pytestmark = pytest.mark.timeout(30)  # some of these have much to do, and a busy machine takes its time


def named(name: str, **options: Any) -> Tool[..., Any]:
    @tool(name="plain", description=f"This is {name!r}.", **options)
    async def handler() -> None: ...

    return handler.evolve(name=name)


def names(listings: Any) -> list[str]:
    return [listing.name for listing in listings]


# Coming and going


def test_tools_are_found_until_they_are_removed() -> None:
    catalogue = Catalogue(named("a"), named("b"))
    assert names(catalogue) == ["a", "b"]
    assert "a" in catalogue

    catalogue.remove("a")

    assert names(catalogue) == ["b"]
    assert "a" not in catalogue
    assert catalogue.find("a") is None


def test_removing_what_is_not_there_is_no_error() -> None:
    catalogue = Catalogue(named("a"))

    catalogue.remove("zzz")

    assert len(catalogue) == 1


def test_a_catalogue_may_change_during_iteration() -> None:
    catalogue = Catalogue(named("a"), named("b"))

    for listing in catalogue:
        catalogue.remove(listing.name)

    assert len(catalogue) == 0


def test_a_name_that_is_taken_is_an_error_and_nothing_is_added() -> None:
    catalogue = Catalogue(named("a"))

    with pytest.raises(DefinitionError, match="There is a tool 'a' already"):
        catalogue.add(named("b"), named("a"))

    assert names(catalogue) == ["a"]


def test_the_same_name_twice_in_one_call_is_an_error() -> None:
    with pytest.raises(DefinitionError, match="There is a tool 'a' already"):
        Catalogue(named("a"), named("a"))


def test_a_tool_can_be_replaced_and_its_aliases_go_with_it() -> None:
    catalogue = Catalogue(named("a", aliases=("old",)))
    new = named("a", aliases=("new",))

    catalogue.add(new, on_conflict="replace")

    assert len(catalogue) == 1
    assert catalogue.find("new").tool is new  # type: ignore[union-attr]
    assert catalogue.find("old") is None


def test_a_tool_can_be_given_the_next_free_number() -> None:
    catalogue = Catalogue(named("a"), named("a_2"))

    added = catalogue.add(named("a"), named("a"), on_conflict="rename")

    assert names(added) == ["a_3", "a_4"]


def test_on_change_is_called_after_the_change_is_complete() -> None:
    changes: list[tuple[CatalogueChanged, list[str]]] = []
    catalogue = Catalogue(on_change=lambda change: changes.append((change, sorted(names(catalogue)))))

    catalogue.add(named("a"), named("b"))
    catalogue.add(named("a"), on_conflict="replace")
    catalogue.remove("b", "b")
    catalogue.remove("zzz")

    assert changes == [
        (CatalogueChanged(added=("a", "b")), ["a", "b"]),
        (CatalogueChanged(added=("a",), removed=("a",)), ["a", "b"]),
        (CatalogueChanged(removed=("b",)), ["a"]),
    ]


def test_on_change_is_not_called_for_a_failed_addition() -> None:
    changes: list[CatalogueChanged] = []
    catalogue = Catalogue(named("a"), on_change=changes.append)
    changes.clear()

    with pytest.raises(DefinitionError):
        catalogue.add(named("b"), named("a"))

    assert changes == []


# Names


def test_a_tool_is_found_by_its_aliases() -> None:
    catalogue = Catalogue(named("transfer", aliases=("pay", "send")))

    assert catalogue.find("pay") is catalogue.find("send") is catalogue.find("transfer")


def test_the_first_alias_wins_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "surehand"):
        catalogue = Catalogue(named("first", aliases=("x",)), named("second", aliases=("x",)))

    assert catalogue.find("x") is catalogue.find("first")
    assert [record.getMessage() for record in caplog.records] == ["The alias 'x' of second is taken by first."]


def test_removing_a_tool_removes_its_aliases() -> None:
    catalogue = Catalogue(named("a", aliases=("x",)))

    catalogue.remove("a")

    assert catalogue.find("x") is None


def test_a_tool_can_be_removed_by_its_alias() -> None:
    catalogue = Catalogue(named("a", aliases=("x",)))

    catalogue.remove("x")

    assert len(catalogue) == 0


def test_a_name_takes_precedence_over_an_alias() -> None:
    catalogue = Catalogue(named("a", aliases=("b",)), named("b"))

    assert catalogue.find("b").name == "b"  # type: ignore[union-attr]


def test_tools_of_a_namespace_bear_it_in_their_names() -> None:
    catalogue = Catalogue()

    (listing,) = catalogue.add(named("log"), namespace="git")

    assert (listing.name, listing.namespace, listing.wire_name) == ("git__log", "git", "git__log")
    assert catalogue.find("log") is None


def test_a_model_may_leave_the_namespace_out_where_that_is_clear() -> None:
    catalogue = Catalogue()
    catalogue.add(named("log"), named("push"), namespace="git")
    catalogue.add(named("log"), namespace="app")

    assert catalogue.resolve("push").name == "git__push"  # type: ignore[union-attr]
    assert catalogue.resolve("log") is None
    assert catalogue.resolve("hg__push") is None


def test_a_model_may_wrap_a_name() -> None:
    catalogue = Catalogue(named("read_file"))

    assert catalogue.resolve("<|tool|>read_file<|end|>").name == "read_file"  # type: ignore[union-attr]


WIRE = re.compile(r"[A-Za-z0-9_-]{1,64}\Z")
LONG = "x" * 70
WEIRD = st.one_of(
    st.text(max_size=90),
    st.text(alphabet="aA_-. ", min_size=1, max_size=5),
    st.sampled_from([LONG, LONG + "y", "a" * 64, "a" * 65, "wei rd", "wei_rd", "wei.rd"]),
)


@given(st.lists(WEIRD, unique=True, max_size=12))
def test_every_tool_has_a_wire_name_of_its_own_that_leads_back_to_it(given_names: list[str]) -> None:
    catalogue = Catalogue(*map(named, given_names))

    wires = [listing.wire_name for listing in catalogue]

    assert len(set(wires)) == len(given_names)
    assert all(WIRE.match(wire) for wire in wires)
    assert all(catalogue.find(listing.wire_name) is listing for listing in catalogue)


def test_a_wire_name_that_is_taken_by_a_name_is_not_given_again() -> None:
    catalogue = Catalogue(named(wire_name(LONG)))

    (added,) = catalogue.add(named(LONG))

    assert catalogue.find(added.wire_name) is added
    assert len({listing.wire_name for listing in catalogue}) == 2


# Finding


def test_a_mistyped_name_gets_suggestions_even_among_ten_thousand() -> None:
    plain = named("plain")
    catalogue = Catalogue(*(plain.evolve(name=f"tool_{number}") for number in range(10_000)), named("send_email"))

    assert catalogue.suggest("send_emial")[0] == "send_email"


def test_globs_select_tools() -> None:
    catalogue = Catalogue(named("read_file"), named("read_mail"), named("write_file"))

    assert names(catalogue.select("read_*", "*_file")) == ["read_file", "read_mail", "write_file"]
    assert catalogue.select() == []


def test_a_toolset_is_a_named_selection_that_sees_new_tools() -> None:
    catalogue = Catalogue(named("read_file"))

    assert names(catalogue.toolset("readers", "read_*")) == ["read_file"]

    catalogue.add(named("read_mail"))
    assert names(catalogue.toolset("readers")) == ["read_file", "read_mail"]


def test_a_tool_may_say_itself_which_toolsets_it_belongs_to() -> None:
    catalogue = Catalogue(named("a", toolsets="night"), named("b", toolsets=("day", "night")), named("c"))
    catalogue.toolset("day", "c")

    assert names(catalogue.toolset("night")) == ["a", "b"]
    assert names(catalogue.toolset("day")) == ["b", "c"]
    with pytest.raises(KeyError, match="Did you mean 'night'"):
        catalogue.toolset("nigh")


def test_an_unknown_toolset_is_an_error_that_suggests_the_nearest() -> None:
    catalogue = Catalogue()
    catalogue.toolset("readers", "read_*")

    with pytest.raises(KeyError, match="Did you mean 'readers'"):
        catalogue.toolset("reader")


def test_categories_are_counted_and_empty_ones_are_zero() -> None:
    catalogue = Catalogue(named("a", category="file"), named("b", category="file"), named("c", category="own"))

    counts = catalogue.categories()

    assert counts == dict.fromkeys(CATEGORIES, 0) | {"file": 2, "own": 1}
    assert names(catalogue.category("file")) == ["a", "b"]
    assert Catalogue().categories() == dict.fromkeys(CATEGORIES, 0)


@pytest.mark.parametrize(
    ("permissions", "expected"),
    [
        ({"read"}, ["list", "undeclared"]),
        ({"write"}, ["edit"]),
        ({"read", "write"}, ["list", "undeclared", "edit", "copy"]),
        ({"execute"}, ["bash"]),
        ({"read", "write", "execute", "network"}, ["list", "undeclared", "edit", "copy", "bash", "fetch"]),
        (set(), []),
    ],
)
def test_a_tool_is_enabled_when_all_its_effects_are_permitted(permissions: set[str], expected: list[str]) -> None:
    catalogue = Catalogue(
        named("list", effects={"read"}, optional_effects={"network"}),
        named("undeclared"),
        named("edit", effects={"write"}),
        named("copy", effects={"read", "write"}),
        named("bash", effects={"execute"}),
        named("fetch", effects={"network"}),
    )

    assert names(catalogue.enabled(permissions)) == expected


# Telling models


def described(catalogue: Catalogue, **options: Any) -> list[str]:
    return [entry["name"] for entry in catalogue.describe("anthropic", **options)]


def test_tools_for_people_are_not_described_to_models() -> None:
    catalogue = Catalogue(named("a"), named("b", audience="user"), named("c", audience="all"))

    assert described(catalogue) == ["a", "c"]
    assert "b" in catalogue


def test_a_tool_that_is_not_listed_is_found_by_name_but_not_described() -> None:
    catalogue = Catalogue(named("read"), named("read_file", listed=False))

    assert described(catalogue) == ["read"]
    assert catalogue.find("read_file") is not None


def test_a_description_can_be_of_one_toolset_or_hide_some_tools() -> None:
    catalogue = Catalogue(named("read_a"), named("read_b"), named("write_a"))
    catalogue.toolset("readers", "read_*")

    assert described(catalogue, toolset="readers") == ["read_a", "read_b"]
    assert described(catalogue, hide=frozenset({"read_a"})) == ["read_b", "write_a"]


def test_describing_is_worked_out_once_per_change() -> None:
    catalogue = Catalogue(named("a"))
    first, second = catalogue.describe("mcp"), catalogue.describe("mcp")

    assert first == second
    assert first is not second
    assert first[0]["inputSchema"]["properties"] is second[0]["inputSchema"]["properties"]

    catalogue.add(named("b"))
    assert described(catalogue) == ["a", "b"]
    catalogue.remove("a")
    assert described(catalogue) == ["b"]


def test_marking_what_was_described_does_not_show_the_next_time() -> None:
    catalogue = Catalogue(named("a"))

    catalogue.describe("anthropic")[-1]["cache_control"] = {"type": "ephemeral"}

    assert "cache_control" not in catalogue.describe("anthropic")[-1]


def test_left_out_tools_are_given_each_time() -> None:
    catalogue = Catalogue(named("2fa"))

    assert list(catalogue.describe("gemini").left_out) == list(catalogue.describe("gemini").left_out) == ["2fa"]


@pytest.mark.parametrize("spelling", ["mail__send<|channel|>commentary", "functions.mail__send", "<|tool|>mail__send"])
def test_the_marks_that_models_put_around_names_are_seen_through(spelling):
    catalogue = Catalogue()
    catalogue.add(named("send"), namespace="mail")

    assert catalogue.resolve(spelling).name == "mail__send"


def test_watchers_are_called_after_every_complete_change() -> None:
    catalogue, seen = Catalogue(named("a")), []
    end = catalogue.watch(lambda: seen.append(names(catalogue)))

    catalogue.add(named("b"), named("c"))
    catalogue.remove("a")
    catalogue.remove("a")
    catalogue.toolset("all", "*")
    end()
    end()
    catalogue.add(named("a"))

    assert seen == [["a", "b", "c"], ["b", "c"], ["b", "c"]]
