"""Handlers that return invalid outcomes: the same result on every store, and every call ends."""

from __future__ import annotations

from typing import Any

import pytest

from surehand import Context, Done, Failed, Pending, Runtime, tool
from tests.durable.bank_tools import read_rows

pytestmark = pytest.mark.timeout(60)  # the first test on PostgreSQL starts the server
CIRCLE: dict[str, Any] = {}
CIRCLE["circle"] = CIRCLE


class Odd(Done):
    """A Done of somebody's own."""


ODD: dict[str, Any] = {
    "content of no blocks": lambda: Done("x", content=["no block"]),  # type: ignore[list-item]
    "content of a number": lambda: Done("x", content=5),  # type: ignore[arg-type]
    "metadata of an object": lambda: Done("x", metadata={"a": object()}),
    "metadata of a text": lambda: Done("x", metadata="text"),  # type: ignore[arg-type]
    "metadata in a circle": lambda: Done("x", metadata=CIRCLE),
    "title of a number": lambda: Done("x", title=5),  # type: ignore[arg-type]
    "attachments of numbers": lambda: Done("x", attachments=[5]),  # type: ignore[list-item]
    "own Done": lambda: Odd("x"),
    "message of a number": lambda: Failed("failed", 5),  # type: ignore[arg-type]
    "data of an object": lambda: Failed("failed", "x", data=object()),
    "data in a circle": lambda: Failed("failed", "x", data=CIRCLE),
    "later of a text": lambda: Failed("failed", "x", retry_after="soon"),  # type: ignore[arg-type]
    "later is not a number": lambda: Failed("failed", "x", retry_after=float("nan")),
    "wait for lunch": lambda: Pending("lunch"),  # type: ignore[arg-type]
    "wait for nothing": lambda: Pending(None),  # type: ignore[arg-type]
    "wait for a number": lambda: Pending("result", 5),  # type: ignore[arg-type]
    "wait for a hostile id": lambda: Pending("result", "a\0\ud800"),
    "wait with a number": lambda: Pending("result", message=5),  # type: ignore[arg-type]
    "wait with an object": lambda: Pending("result", message=object()),  # type: ignore[arg-type]
    "wait in a circle": lambda: Pending("result", request=CIRCLE),
    "wait for ever": lambda: Pending("result", expires_at=float("inf")),
    "wait for no time": lambda: Pending("result", expires_at=float("nan")),
    "wait until soon": lambda: Pending("result", expires_at="soon"),  # type: ignore[arg-type]
    "wait with a circle to remember": lambda: Pending("result", state=CIRCLE),
    "no patience": lambda: Pending("result", reply_timeout="long"),  # type: ignore[arg-type]
}


@tool(effects={"write"})
async def act(name: str, ctx: Context) -> Any:
    """Act oddly."""
    return ODD[name]()


@tool(effects={"read"})
async def look(name: str, ctx: Context) -> Any:
    """Look oddly."""
    return ODD[name]()


def verdict(told: Any) -> str:
    match told:
        case Done(data):
            return f"Done {data!r}"
        case Failed(code):
            return f"Failed {code} {told.executed}"
    return f"Pending {told.waiting_for}"


async def story(runtime: Runtime, tool_name: str, name: str) -> list[str]:
    call_id = f"{tool_name} {name}"
    told = [await runtime.call(tool_name, {"name": name}, call_id=call_id)]
    told.append(await runtime.call(tool_name, {"name": name}, call_id=call_id))
    fresh = await runtime.call(tool_name, {"name": name})
    told.append(fresh)
    await runtime.pending()
    told.append(await runtime.settle(call_id, "answer"))
    told.append(await runtime.call(tool_name, {"name": name}, call_id=call_id))
    if isinstance(fresh, Pending):
        told.append(await runtime.settle(fresh.call_id, "answer"))
    return [verdict(each) for each in told]


@pytest.mark.parametrize("tool_name", ["act", "look"])
async def test_odd_outcomes_get_the_same_verdict_from_every_database(addresses: Any, tool_name: str) -> None:
    found: dict[str, dict[str, list[str]]] = {name: {} for name in ODD}
    for kind, address in addresses().items():
        async with Runtime(act, look, store=address) as runtime:
            for name in ODD:
                found[name][kind] = await story(runtime, tool_name, name)
            left = await read_rows(
                runtime, "SELECT tool, arguments, state FROM ledger WHERE state NOT IN ('ended', 'idle')"
            )
            waits = await runtime.pending()
        assert left == [], left
        assert waits == []

    for name, told in found.items():
        assert told["sqlite"] == told["postgres"] == told["memory"], (name, told)
        first, again, *_ = told["sqlite"]
        assert "unavailable" not in str(told), (name, told)
        if not first.startswith("Pending"):
            assert first == again, (name, told)  # what was told is what is kept
