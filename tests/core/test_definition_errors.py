"""A mistake in a definition is reported with its place and a fix, and never when the tool is called."""

import dataclasses
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from surehand import Context, DefinitionError, Runtime, tool

HERE = rf"^{re.escape(__file__)}:\d+: "


class Book(BaseModel):
    title: str
    pages: int


class NotJson:
    pass


def star(*items: str) -> None: ...


def positional(a: int, /) -> None: ...


class Stars:
    def __call__(self, *items: str) -> None: ...


@pytest.mark.parametrize(
    ("define", "problem", "fix"),
    [
        (lambda: tool(star), r"`\*items` cannot be named", r"items: list\[str\]"),
        (lambda: tool(name="x")(star), r"`\*items` cannot be named", r"items: list\[str\]"),
        (lambda: tool(Stars()), r"`\*items` cannot be named", r"items: list\[str\]"),
        (lambda: tool(positional), "`a` is positional-only", "remove the `/`"),
        (lambda: tool(lambda: None), "'<lambda>' is not a tool name", "name='read_file'"),
        (lambda: tool(name="?!")(lambda: None), r"'\?!' is not a tool name", "name='read_file'"),
        (lambda: tool.client("", "x"), "'' is not a tool name", "letters, digits"),
        (lambda: tool.client("a", "x", reply="soon"), "Unknown reply 'soon'", "none, wait or later"),
        (
            lambda: tool.client("a", "x", parameters={"number": "integer"}),
            "The parameters are not a JSON Schema: 'number' is no keyword of it",
            r'write \{"type": "object", "properties": \{"number": \.\.\.\}\}',
        ),
        (
            lambda: tool(name="a", parameters={"number": {"type": "integer"}, "title": "string"})(lambda **rest: None),
            "The parameters are not a JSON Schema: 'number' is no keyword of it",
            r'write \{"type": "object", "properties": \{"number": \.\.\., "title": \.\.\.\}\}',
        ),
        (lambda: tool(classmethod(lambda cls: None)), "is not callable", "@classmethod above @tool"),
        (lambda: tool(5), "5 is not callable", "decorate a function"),
        (lambda: tool(NotJson), "NotJson has neither __call__ nor run", "async def run"),
        (lambda: tool(Book), "Book has neither __call__ nor run", "async def run"),
        (lambda: tool(parameters=int)(_fine), "<class 'int'> does not describe parameters", "a pydantic model"),
        (lambda: tool(parameters="city")(_fine), "'city' does not describe parameters", "a JSON Schema"),
        (lambda: tool.external("x", "x", parameters=[1]), "does not describe parameters", "a JSON Schema"),
    ],
)
def test_a_wrong_signature_is_reported_at_definition(define: Callable[[], Any], problem: str, fix: str) -> None:
    with pytest.raises(DefinitionError, match=f"{HERE}.*{problem}.* Fix: .*{fix}") as caught:
        define()

    assert re.search(problem, caught.value.problem)
    assert re.search(fix, caught.value.fix)
    assert caught.value.where.startswith(__file__)


async def _fine(a: int) -> None: ...


async def _unknown_type(a: "Nowhere") -> None: ...  # noqa: F821  # the point of the test


async def _not_json(a: NotJson) -> None: ...


async def _callback(a: Callable[[], None]) -> None: ...


async def _two_contexts(one: Context, other: Context) -> None: ...


async def _names(city: str, when: str) -> None: ...


async def _nothing() -> None: ...


@pytest.mark.parametrize(
    ("function", "parameters", "problem", "fix"),
    [
        (_unknown_type, None, "cannot be found: name 'Nowhere'", "import it at module level"),
        (_not_json, None, "no JSON Schema .*NotJson", r"use\(\.\.\.\)"),
        (_callback, None, "no JSON Schema .*Callable", "types that JSON can hold"),
        (_names, Book, "takes city, when, but the parameters are pages, title", "name the handler's parameters"),
        (_nothing, Book, "takes nothing, but the parameters are pages, title", "take one `arguments` value"),
        (_fine, {"type": "nonsense"}, "The JSON Schema cannot be used", "a valid JSON Schema"),
        (
            _fine,
            {"properties": {"a": {"pattern": "("}}},
            "cannot be used: properties.a.pattern: ",
            "a valid JSON Schema",
        ),
        (_fine, {"properties": {"a": {"default": {1, 2}}}}, "not plain JSON", "a valid JSON Schema"),
        (_fine, {"properties": {"a": {"maximum": float("inf")}}}, "not plain JSON", "a valid JSON Schema"),
    ],
)
def test_wrong_types_are_reported_when_they_are_compiled(
    function: Callable[..., Any], parameters: Any, problem: str, fix: str
) -> None:
    made = tool(name="work", parameters=parameters)(function)

    for _ in range(2):
        with pytest.raises(DefinitionError, match=f"{HERE}.*{problem}.* Fix: .*{fix}"):
            made.compile()


def test_a_model_class_whose_types_are_wrong_names_its_place() -> None:
    @tool
    @dataclasses.dataclass
    class Work:
        a: "Nowhere"  # type: ignore[name-defined]  # noqa: F821  # the point of the test

        def run(self) -> None: ...

    with pytest.raises(DefinitionError, match=f"{HERE}.* is not fully defined.* Fix: "):
        Work.compile()


async def test_a_runtime_lists_all_mistakes_in_one_error() -> None:
    tools = [tool(name=f"tool_{i}")(f) for i, f in enumerate([_unknown_type, _fine, _not_json, _callback])]

    with pytest.raises(DefinitionError) as caught:
        async with Runtime(tools):
            pass

    lines = str(caught.value).splitlines()
    assert lines[0] == "3 tools cannot be used:"
    assert [Path(__file__).name in line and "Fix: " in line for line in lines[1:]] == [True] * 3
    assert ["Nowhere" in lines[1], "NotJson" in lines[2], "Callable" in lines[3]] == [True] * 3


async def test_a_single_mistake_is_reported_without_a_list() -> None:
    with pytest.raises(DefinitionError, match=f"{HERE}.*Nowhere"):
        async with Runtime(tool(name="work")(_unknown_type)):
            pass


async def test_a_tool_added_later_is_checked_when_it_is_added() -> None:
    async with Runtime() as runtime:
        with pytest.raises(DefinitionError, match=f"{HERE}.*Nowhere"):
            await runtime.add(tool(name="work")(_unknown_type))


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"confrim": True}, "no option 'confrim'. Fix: did you mean 'confirm'?"),
        ({"efects": {"write"}}, "did you mean 'effects'?"),
        ({"confirm": "no"}, "confirm='no' cannot be used. Fix: give True, or a function."),
        ({"timeout": [1]}, "timeout=[1] cannot be used"),
        ({"retries": 2.5}, "retries=2.5 cannot be used"),
        ({"queue": 5}, "queue=5 cannot be used"),
        ({"max_bytes": "many"}, "'many' is not a size"),
    ],
)
def test_an_unknown_option_or_a_wrong_value_is_reported_at_definition(options: dict[str, Any], expected: str) -> None:
    async def work() -> None: ...

    with pytest.raises(DefinitionError) as raised:
        tool(**options)(work)

    assert expected in str(raised.value)


@pytest.mark.parametrize(
    "schema",
    [{}, {"type": "object"}, {"$ref": "#/$defs/a", "$defs": {"a": {}}}, {"description": "Nothing.", "x-order": 1}],
    ids=str,
)
def test_a_json_schema_is_accepted_as_parameters(schema: dict[str, Any]) -> None:
    assert tool.client("a", "x", parameters=schema).schema["type" if not schema else next(iter(schema))]


def test_a_provider_may_pass_on_any_schema_of_its_service() -> None:
    assert tool.provided("a", "x", parameters={"number": "integer"}).name == "a"


def test_the_problem_ends_with_a_full_stop_before_the_fix() -> None:
    error = DefinitionError("NotJson is not JSON serializable", fix="use a string.")

    assert str(error) == "NotJson is not JSON serializable. Fix: use a string."
