"""Null for an optional parameter is as if it were left out."""

from dataclasses import dataclass
from typing import Any, Literal, NotRequired

import pytest
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from surehand import Failed, Runtime, Tool, tool


class Filter(BaseModel):
    word: str
    whole: bool = False


class Search(BaseModel):
    words: str
    limit: int = 10
    mode: Literal["all", "any"] = "all"
    filters: list[Filter] = Field(default_factory=list)


@dataclass
class Page:
    number: int
    size: int = 20


class Sorting(TypedDict):
    by: str
    order: NotRequired[Literal["up", "down"]]


RAW_SCHEMA = {
    "type": "object",
    "properties": {
        "words": {"type": "string"},
        "limit": {"type": "integer"},
        "owner": {"type": ["string", "null"]},
        "mode": {"anyOf": [{"const": "all"}, {"const": "any"}]},
        "filters": {"type": "array", "items": {"$ref": "#/$defs/Filter"}},
        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
    },
    "required": ["words"],
    "additionalProperties": False,
    "$defs": {"Filter": {"type": "object", "properties": {"whole": {"type": "boolean"}}}},
}


@tool
async def search(
    words: str,
    limit: int = 10,
    mode: Literal["all", "any"] = "all",
    size: int | str = 5,
    owner: str | None = "me",
    filters: list[Filter] | None = None,
) -> list[Any]:
    """Search."""
    return [words, limit, mode, size, owner, filters]


@tool(parameters=Search)
async def search_with_model(query: Search) -> Search:
    """Search."""
    return query


@tool(parameters=Page)
async def show_page(page: Page) -> list[int]:
    """Show a page."""
    return [page.number, page.size]


@tool(parameters=Sorting)
async def sort(sorting: Sorting) -> Sorting:
    """Sort."""
    return sorting


@tool(parameters=RAW_SCHEMA)
async def search_raw(arguments: dict[str, Any]) -> dict[str, Any]:
    """Search."""
    return arguments


@pytest.mark.parametrize("as_json", [False, True])
@pytest.mark.parametrize(
    ("searching", "arguments", "data"),
    [
        (search, '{"words": "a", "limit": null, "mode": null, "size": null}', ["a", 10, "all", 5, "me", None]),
        (search, '{"words": "a", "owner": null, "limit": null}', ["a", 10, "all", 5, None, None]),
        (search_with_model, '{"words": "a", "limit": null, "filters": null}', Search(words="a")),
        (
            search_with_model,
            '{"words": "a", "filters": [{"word": "x", "whole": null}, {"word": "y", "whole": null}]}',
            Search(words="a", filters=[Filter(word="x"), Filter(word="y")]),
        ),
        (show_page, '{"number": 1, "size": null}', [1, 20]),
        (sort, '{"by": "name", "order": null}', {"by": "name"}),
        (search_raw, '{"words": "a", "limit": null, "mode": null, "owner": null}', {"words": "a", "owner": None}),
        (search_raw, '{"words": "a", "limit": null, "filters": [{"whole": null}]}', {"words": "a", "filters": [{}]}),
    ],
)
async def test_null_for_an_optional_parameter_is_as_if_it_were_left_out(
    searching: Tool[..., Any], arguments: str, data: Any, as_json: bool
) -> None:
    from json import loads

    async with Runtime(searching) as runtime:
        outcome = await runtime.call(searching.name, arguments if as_json else loads(arguments))

    assert outcome.unwrap() == data


@pytest.mark.parametrize("searching", [search, search_with_model, search_raw])
async def test_null_for_a_required_parameter_is_a_mistake(searching: Tool[..., Any]) -> None:
    outcome = await searching.run({"words": None, "limit": None})

    assert isinstance(outcome, Failed)
    assert outcome.message.startswith("invalid arguments: `words`: ")
    assert "`limit`" not in outcome.message


async def test_null_in_a_free_mapping_is_a_mistake() -> None:
    outcome = await search_raw.run({"words": "a", "labels": {"colour": None}})

    assert isinstance(outcome, Failed)
    assert '`labels.colour`: null is not of type "string"' in outcome.message


async def test_only_the_remaining_mistakes_are_told() -> None:
    outcome = await search.run('{"limit": null, "mode": "some"}')

    assert outcome.text.startswith("(tool failed: invalid arguments: `words` is required; `mode`: ")


def test_an_optional_parameter_is_described_by_its_type_alone() -> None:
    @tool
    async def find(
        word: str, folder: str | None = None, depth: int | str | None = None, owner: str | None = "me"
    ) -> None:
        """Find.

        Args:
            folder: Where.
        """

    assert find.schema["properties"] == {
        "word": {"type": "string"},
        "folder": {"type": "string", "description": "Where."},
        "depth": {"anyOf": [{"type": "integer"}, {"type": "string"}]},
        "owner": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": "me"},
    }
    assert find.schema["required"] == ["word"]
