"""Messages for invalid arguments, from which a model can correct its call."""

from datetime import date, datetime, time, timedelta
from typing import Any, Literal

import pytest
from pydantic import BaseModel

from surehand import Outcome, Tool, tool
from surehand.core.argument_errors import short_repr


class Address(BaseModel):
    street: str
    number: int


@tool
async def send(to: str, count: int, how: Literal["post", "mail"] = "post", address: Address | None = None) -> None: ...


def told(outcome: Outcome) -> str:
    assert outcome.text == f"(tool failed: {outcome.message})"
    return outcome.message


async def test_every_problem_is_named_and_what_is_expected() -> None:
    message = told(await send.run({"count": "many", "hwo": "post"}))

    assert message == (
        "invalid arguments: `to` is required; `count`: Input should be a valid integer, unable to parse string as an "
        "integer, not 'many'; `hwo` is not a parameter (did you mean `how`?). Expected: to (string), count (integer), "
        "how (one of 'post', 'mail', optional), address (object: street, number, optional)."
    )


async def test_dates_and_times_are_expected_in_the_form_of_an_example() -> None:
    @tool
    async def plan(day: date, at: datetime, until: time, rest: timedelta, other: date | None = None) -> None: ...

    message = told(await plan.run({"day": "31.12.2026"}))

    assert message.endswith(
        "Expected: day (string like 2026-12-31), at (string like 2026-12-31T12:30:00Z), until (string like 12:30:00), "
        "rest (string like PT15M), other (string like 2026-12-31, optional)."
    )
    assert (
        await plan.run({"day": "2026-12-31", "at": "2026-12-31T12:30:00Z", "until": "12:30:00", "rest": "PT15M"})
    ).ok


async def test_a_name_unlike_any_other_gets_no_suggestion() -> None:
    assert "`zzz` is not a parameter;" in told(await send.run({"zzz": 1, "qqq": 1, "to": "x", "count": 1}))


async def test_a_nested_problem_is_named_by_its_path() -> None:
    message = told(await send.run({"to": "x", "count": 1, "address": {"street": "s", "number": "n"}}))

    assert "`address.number`" in message


async def test_at_most_five_problems_are_shown() -> None:
    @tool
    async def many(a: int, b: int, c: int, d: int, e: int, f: int, g: int) -> None: ...

    message = told(await many.run(dict.fromkeys("abcdefg", "x")))

    assert message.count("should be a valid integer") == 5
    assert "; and 2 more." in message


async def test_only_the_first_wrong_item_of_a_list_is_reported() -> None:
    @tool
    async def many(items: list[int]) -> None: ...

    message = told(await many.run({"items": [1, "x", "y"]}))

    assert message.count("`items.") == 1
    assert "`items.1`" in message


async def test_a_long_value_is_cut() -> None:
    message = told(await send.run({"to": "x", "count": "9" * 100_000 + "x"}))

    assert len(message) < 600
    assert "999...999" in message


async def test_the_message_says_that_a_tool_has_no_parameters() -> None:
    @tool
    async def now() -> None: ...

    assert told(await now.run({"x": 1})).endswith("`x` is not a parameter. Expected: no arguments.")


@pytest.mark.parametrize("text", ['{"to": "x"', "{'to': 'x'}", '{"to": "x",}', "to: x"])
async def test_text_that_is_not_json_is_refused_with_advice(text: str) -> None:
    assert told(await send.run(text)).startswith("The arguments are not valid JSON (")
    assert told(await send.run(text)).endswith("Send one complete JSON object.")


def raw(**properties: Any) -> Tool[..., Any]:
    @tool(name="raw", parameters={"type": "object", "properties": properties, "required": list(properties)})
    async def handler(arguments: Any) -> None: ...

    return handler


async def test_a_raw_schema_is_explained_too() -> None:
    message = told(await raw(size={"type": "integer"}, tags={"type": ["array", "null"]}).run({"size": "big"}))

    assert '`size`: "big" is not of type "integer"' in message
    assert "`tags` is required" in message
    assert message.endswith("Expected: size (integer), tags (array or null).")


async def test_an_explanation_of_a_large_value_stays_short() -> None:
    assert len(told(await raw(size={"type": "integer"}).run({"size": "x" * 100_000}))) < 600


@pytest.mark.parametrize(
    ("value", "shown"), [("x", "'x'"), (1, "1"), ({"a": [1]}, "{'a': [1]}"), (None, "None"), ("it's", '"it\'s"')]
)
def test_a_preview_is_how_python_writes_the_value(value: Any, shown: str) -> None:
    assert short_repr(value) == shown


def test_a_preview_survives_anything() -> None:
    class Rude:
        def __repr__(self) -> str:
            raise RuntimeError("no")

    assert short_repr(Rude()) == "<Rude>"
    assert len(short_repr(["x" * 10_000] * 3)) <= 120
    assert len(short_repr("x" * 10_000)) <= 120


async def test_very_many_mistakes_are_counted_and_not_listed() -> None:
    few = told(await send.run({"to": "a", "count": 1, **{f"k{number}": 1 for number in range(10_000)}}))
    many = told(await send.run({"to": "a", "count": 1, **{f"k{number}": 1 for number in range(10_001)}}))

    assert "`k0` is not a parameter" in few
    assert "and 9995 more" in few
    assert "10001 mistakes, too many to list" in many
    assert "Expected" in many or "expected" in many


async def test_a_value_that_fits_no_type_of_a_union_is_one_mistake() -> None:
    @tool
    async def pick(number: int | list[int]) -> None: ...

    for arguments, container in (({"number": {}}, "list"), ('{"number": {}}', "array")):
        message = told(await pick.run(arguments))

        problem = f"`number`: Input should be a valid integer or a valid {container}, not {{}}."
        assert message.startswith(f"invalid arguments: {problem} Expected:")


@pytest.mark.parametrize("additional", [{}, {"additionalProperties": False}])
async def test_mistakes_are_told_once(additional: dict[str, Any]) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string", "enum": ["x"]}, "b": {}}, "required": ["b"]}

    @tool(parameters={**schema, **additional})
    async def pick(b: Any, a: str = "x") -> None: ...

    message = told(await pick.run({"a": 1, "aa": 2}))

    listed = message.removeprefix("invalid arguments: ").partition(". Expected: ")[0]
    assert sorted(listed.split("; ")) == [
        '`a`: 1 is not of type "string"',
        "`aa` is not a parameter (did you mean `a`?)",
        "`b` is required",
    ]


async def test_mistakes_inside_and_outside_of_unions_are_not_mixed_up() -> None:
    @tool
    async def pick(numbers: list[int | bool], first: int) -> None: ...

    message = told(await pick.run({"numbers": [None], "first": "x"}))

    assert "`numbers.0`: Input should be a valid integer or a valid boolean, not None; `first`: " in message
