"""Hostile text and numbers: every database gives the same result, and nothing is written in part."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

import pytest

from surehand import Call, Context, Done, Failed, Pending, Runtime, ToolError, tool
from tests.durable.bank_tools import make_ask_tool, read_rows, wait_until

pytestmark = pytest.mark.timeout(60)  # the first test on PostgreSQL starts the server


def nested(depth: int) -> Any:
    value: Any = "bottom"
    for _ in range(depth):
        value = [value]
    return value


CIRCLE: list[Any] = []
CIRCLE.append(CIRCLE)
TEXTS: dict[str, str] = {
    "plain": "plain",
    "NUL": "a\0b",
    "surrogate": "a\ud800b",
    "both": "\0\udfff",
    "unicode": "é漢𝄞\u2028\x1b[31m\r\n",
    "words": "{now} {announce} :user %s %(x)s ' \" \\ -- ;",
    "empty": "",
    "large": "x" * 100_000,
}
VALUES: dict[str, Any] = {
    **TEXTS,
    "nested text": {"a\0": ["b\0", {"c": "\ud800"}]},
    "key surrogate": {"\ud800": 1},
    "beyond 64 bits": 10**30,
    "below 64 bits": -(2**63) - 1,
    "5000 digits": 10**5000,
    "5000 digits inside": [{"n": 10**5000}],
    "NaN": float("nan"),
    "NaN inside": [float("nan"), float("inf")],
    "deep": nested(150),
    "deeper": nested(230),
    "deepest": nested(5_000),
    "circle": CIRCLE,
    "bytes": b"\xff\x00",
    "set": {1},
    "object": object(),
    "numbers as keys": {1: "one", None: "none"},
}
CHANGED = {"NaN", "NaN inside", "bytes", "set", "object", "numbers as keys"}
"""What JSON has another form for: that form is what is kept."""
SHORT = {name: text for name, text in TEXTS.items() if name != "large"}
Story: TypeAlias = Callable[[Runtime, str, Any], Awaitable[list[Any]]]


def keep() -> Any:
    @tool(effects={"write"})
    async def keep(value: Any) -> str:
        """Keep a value."""
        return "kept"

    return keep


def agree() -> Any:
    @tool(effects={"write"}, confirm=True)
    async def agree(value: Any) -> str:
        """Keep a value once somebody agrees."""
        return "agreed"

    return agree


def give() -> Any:
    @tool(effects={"write"})
    async def give(name: str, ctx: Context) -> Any:
        """Give a value."""
        return VALUES[name]

    return give


def fail() -> Any:
    @tool(effects={"write"})
    async def fail(name: str, ctx: Context) -> Any:
        """Fail with a message and data."""
        raise ToolError(TEXTS.get(name, "why"), data=VALUES[name])

    return fail


def wait_with() -> Any:
    @tool(effects={"write"})
    async def wait_with(name: str, ctx: Context) -> Any:
        """Wait with a message, a form and a note."""
        return Pending("result", message=TEXTS.get(name, "why"), request=VALUES[name], state=VALUES[name])

    return wait_with


def look() -> Any:
    @tool(effects={"read"})
    async def look() -> str:
        """Look."""
        return "seen"

    return look


TOOLS = (keep, agree, give, fail, wait_with, look)


async def as_arguments(runtime: Runtime, id: str, value: Any) -> list[Any]:
    outcome = await runtime.call("keep", {"value": value}, call_id=id)
    again = await runtime.call("keep", {"value": value}, call_id=id)
    fresh = await runtime.call("keep", {"value": value})
    return [outcome, again, fresh]


async def as_json(runtime: Runtime, id: str, value: Any) -> list[Any]:
    try:
        text = json.dumps({"value": value})
    except (TypeError, ValueError, RecursionError):
        return []
    outcome = await runtime.call("agree", text, call_id=id)
    return [outcome, await runtime.approve(id), await runtime.call("keep", text)]


async def as_waiting_arguments(runtime: Runtime, id: str, value: Any) -> list[Any]:
    outcome = await runtime.call("agree", {"value": value}, call_id=id)
    return [outcome, await runtime.approve(id), await runtime.call("agree", {"value": value}, call_id=id)]


async def as_edited_arguments(runtime: Runtime, id: str, value: Any) -> list[Any]:
    await runtime.call("agree", {"value": 1}, call_id=id)
    edited = await runtime.approve(id, arguments={"value": value})
    return [edited, await runtime.approve(id)]


async def as_answer(runtime: Runtime, id: str, value: Any) -> list[Any]:
    await runtime.call("ask", call_id=id)
    settled = await runtime.settle(id, value)
    again = await runtime.settle(id, value)
    return [settled, again, await runtime.settle(id, "else"), await runtime.call("ask", call_id=id)]


async def as_failed_answer(runtime: Runtime, id: str, value: Any) -> list[Any]:
    await runtime.call("ask", call_id=id)
    answer = Failed("failed", value if isinstance(value, str) else "why", data=value)
    first, again = await runtime.settle(id, answer), await runtime.settle(id, answer)
    return [first, again, await runtime.call("ask", call_id=id)]


def as_result_of(name: str) -> Story:
    """What a handler gives, raises or waits with; it finds the value itself, by the last word of the id."""

    async def story(runtime: Runtime, id: str, value: Any) -> list[Any]:
        what = {"name": id.partition(": ")[2]}
        outcome = await runtime.call(name, what, call_id=id)
        again = await runtime.call(name, what, call_id=id)
        settled = await runtime.settle(id, "answer")
        return [outcome, again, settled, await runtime.call(name, what)]

    return story


def as_principal(field: str) -> Story:
    async def story(runtime: Runtime, id: str, text: str) -> list[Any]:
        scope = runtime.scope(**{field: text})
        told: list[Any] = [await scope.call(name, {"value": 1}) for name in ("keep", "agree")]
        told += [await scope.call("look"), await scope.call("keep", {"value": 1}, call_id=id)]
        told += [len(await scope.pending()), await scope.approve(id), await scope.settle("nothing", 1)]
        waits = [wait.call_id for wait in await runtime.pending()]
        told += [await scope.approve(call_id, by="ann") for call_id in waits]
        told += [await scope.cancel("nothing"), await scope.cancel(), await scope.call("look")]
        return [*told, len(await runtime.pending())]

    return story


def as_call_field(field: str) -> Story:
    async def story(runtime: Runtime, id: str, text: str) -> list[Any]:
        named = {field: text}
        told: list[Any] = await runtime.call_many([Call("keep", {"value": 1}, **named), Call("look", {}, **named)])
        told += await runtime.call_many([Call("agree", {"value": 1}, id=id, **named)])
        return [*told, await runtime.approve(id)]

    return story


async def as_words(runtime: Runtime, id: str, text: str) -> list[Any]:
    """By whom, why, and what a call is named after."""
    told: list[Any] = []
    for verb in ("approve", "reject", "settle"):
        name, arguments = ("ask", {}) if verb == "settle" else ("agree", {"value": 1})
        await runtime.call(name, arguments, call_id=f"{id} {verb}")
        told.append(await getattr(runtime, verb)(f"{id} {verb}", by=text))
        told.append(await getattr(runtime, verb)(f"{id} {verb}"))
        told.append(await runtime.reject(f"{id} {verb}", by=text))
    await runtime.call("agree", {"value": 1}, call_id=id)
    told.append(await runtime.reject(id, text))
    told.append(await runtime.call("agree", {"value": 1}, call_id=id))
    told.append(await runtime.approve(text))
    told.append(await runtime.call(text))
    return [*told, await runtime.cancel(text)]


def verdict(told: Any) -> Any:
    """What counts: the kind, the code, and what is known of it."""
    match told:
        case Done(data):
            return f"Done {brief(data)}"
        case Failed(code):
            return f"Failed {code} {told.executed}"
        case Pending(waiting_for):
            return f"Pending {waiting_for} {brief(told.request)}"
    return told


def brief(value: Any) -> str:
    try:
        return repr(value)[:200]
    except (ValueError, RecursionError) as error:
        return type(error).__name__


async def remains(runtime: Runtime) -> list[Any]:
    """What the store holds: nothing half written, and nothing that nobody looks after."""
    rows = await read_rows(
        runtime,
        """SELECT ledger.state, outcome IS NOT NULL AS told, owner IS NOT NULL AS owned, count(pending.call_id) AS waits
        FROM ledger LEFT JOIN pending ON pending.call_id = ledger.call_id AND pending.state = 'open'
        GROUP BY ledger.call_id ORDER BY 1, 2, 3, 4""",
    )
    found = [(row["state"], bool(row["told"]), bool(row["owned"]), row["waits"]) for row in rows]
    whole = {("ended", True, False, 0), ("idle", False, False, 0), ("waiting", False, False, 1)}
    assert set(found) <= whole, found
    return found


async def goes_on(runtime: Runtime) -> None:
    """Whatever came before, the runtime does its work, and its journal is written."""
    assert await runtime.call("keep", {"value": "after"}) == Done("kept")
    seen = await runtime.call("look")
    assert seen == Done("seen")
    await runtime.pending()
    await wait_until(
        lambda: read_rows(runtime, "SELECT 1 AS found FROM journal WHERE call_id = :id", id=seen.meta.call_id)
    )


async def compare(addresses: dict[str, str], story: Story, values: dict[str, Any]) -> dict[str, list[Any]]:
    """The same story with every value on every database: the same verdicts, the same remains, and all goes on."""
    found: dict[str, dict[str, list[Any]]] = {name: {} for name in values}
    made, left = [each() for each in TOOLS], []
    for kind, address in addresses.items():
        async with Runtime(*made, make_ask_tool(), store=address) as runtime:
            for name, value in values.items():
                found[name][kind] = [verdict(each) for each in await story(runtime, f"call: {name}", value)]
            await goes_on(runtime)
            left.append(await remains(runtime))
        async with Runtime(*made, make_ask_tool(), store=address) as runtime:  # and what was written can be read
            await runtime.pending()
    for name, told in found.items():
        assert told["sqlite"] == told["postgres"] == told["memory"], name
    assert left[0] == left[1] == left[2]
    return {name: told["sqlite"] for name, told in found.items()}


@pytest.mark.parametrize(
    "story",
    [as_arguments, as_json, as_waiting_arguments, as_edited_arguments, as_answer, as_failed_answer],
    ids=lambda story: story.__name__,
)
async def test_hostile_values_get_the_same_verdict_from_every_database(addresses: Any, story: Story) -> None:
    told = await compare(addresses(), story, VALUES)

    assert not [name for name, verdicts in told.items() if any("crashed" in str(each) for each in verdicts)], told


@pytest.mark.parametrize("name", ["give", "fail", "wait_with"])
async def test_hostile_results_get_the_same_verdict_from_every_database(addresses: Any, name: str) -> None:
    told = await compare(addresses(), as_result_of(name), VALUES)

    for value, (first, again, *_) in told.items():
        if value not in CHANGED:  # what was told is what is kept
            assert first == again, (value, first, again)


@pytest.mark.parametrize("field", ["user", "session", "agent", "turn"])
async def test_hostile_names_get_the_same_verdict_from_every_database(addresses: Any, field: str) -> None:
    await compare(addresses(), as_principal(field), SHORT)


@pytest.mark.parametrize("field", ["parent", "model_id"])
async def test_hostile_fields_of_a_call_get_the_same_verdict_from_every_database(addresses: Any, field: str) -> None:
    await compare(addresses(), as_call_field(field), SHORT)


@pytest.mark.long
@pytest.mark.parametrize(
    ("story", "expected"),
    [(as_answer, ["Done", "Done", "Failed", "Done"]), (as_waiting_arguments, ["Pending", "Done", "Done"])],
    ids=["answer", "arguments"],
)
async def test_ten_megabytes_are_stored_like_any_other_value(address: str, story: Story, expected: list[str]) -> None:
    made = [each() for each in TOOLS]
    async with Runtime(*made, make_ask_tool(), store=address) as runtime:
        told = await story(runtime, "call: huge", "x" * 10_000_000)

        assert [type(each).__name__ for each in told] == expected
        assert await remains(runtime) == [("ended", True, False, 0)]


async def test_hostile_words_of_people_get_the_same_verdict_from_every_database(addresses: Any) -> None:
    await compare(addresses(), as_words, TEXTS)


async def test_a_name_that_is_not_a_string_is_rejected_before_any_write(any_address: str) -> None:
    async with Runtime(keep(), look(), store=any_address) as runtime:
        for field in ("user", "session", "agent", "message", "task", "turn", "space"):
            with pytest.raises(TypeError, match=f"The {field} of a scope is a text, not int"):
                runtime.scope(**{field: 5})
            [outcome] = await runtime.call_many([Call("keep", {"value": 1}, **{field: 5})])

            assert verdict(outcome) == "Failed invalid_arguments False"
        assert await remains(runtime) == []


@pytest.mark.parametrize("field", ["parent", "model_id"])
async def test_a_call_may_come_from_anything(addresses: Any, field: str) -> None:
    await compare(addresses(), as_call_field(field), {"number": 5, "bytes": b"x", "list": ["x"]})
