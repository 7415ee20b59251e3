"""The pipeline owns its copy of the arguments: what was judged is what runs, and what is stored and shown."""

from __future__ import annotations

import asyncio
from collections import UserDict
from typing import Any

import pytest
from pydantic import BaseModel

from surehand import Approval, Pending, Policy, Queue, Runtime, ToolError, Unavailable, tool
from surehand.testing import settle

SCHEMA = {"type": "object", "properties": {"to": {"type": "object"}}, "required": ["to"]}


class Gate:
    """Lets a call wait at a place in the pipeline until the test has changed the arguments."""

    def __init__(self) -> None:
        self.reached = asyncio.Event()
        self.opened = asyncio.Event()

    async def wait(self, *arguments: Any) -> Any:
        self.reached.set()
        await self.opened.wait()


def sending(ran: list[Any], *, raw: bool, **facets: Any) -> Any:
    async def send(to: dict[str, Any]) -> str:
        """Send."""
        await asyncio.sleep(0)
        ran.append(to)
        return "sent"

    options = {"name": "send", "effects": {"write"}, **facets}
    return tool(**options, description="Send.", parameters=SCHEMA)(send) if raw else tool(**options)(send)


def runtime_that_waits(place: str, gate: Gate, ran: list[Any], *, raw: bool) -> Runtime:
    async def middleware(invocation: Any, proceed: Any) -> Any:
        await gate.wait()
        return await proceed(invocation)

    async def confirm(arguments: Any, context: Any) -> bool:
        await gate.wait()
        return False

    async def approver(pending: Any) -> bool:
        await gate.wait()
        return True

    @tool(queue="one")
    async def occupy() -> None:
        """Hold the slot."""
        await gate.opened.wait()

    match place:
        case "confirm":
            return Runtime(sending(ran, raw=raw, confirm=confirm), occupy, queues={"one": Queue(concurrent=1)})
        case "approver":
            return Runtime(
                sending(ran, raw=raw, confirm=True), occupy, approver=approver, queues={"one": Queue(concurrent=1)}
            )
        case "middleware":
            return Runtime(sending(ran, raw=raw), occupy, middleware=[middleware], queues={"one": Queue(concurrent=1)})
    return Runtime(sending(ran, raw=raw, queue="one"), occupy, queues={"one": Queue(concurrent=1)})


@pytest.mark.parametrize("raw", [False, True])
@pytest.mark.parametrize("place", ["confirm", "approver", "queue", "the task of the handler"])
async def test_a_caller_cannot_change_nested_arguments_of_a_call_that_waits(place, raw):
    gate, ran = Gate(), []
    arguments: dict[str, Any] = {"to": {"account": "ann", "lines": [1]}}

    async with runtime_that_waits(place, gate, ran, raw=raw) as runtime:
        occupied = asyncio.create_task(runtime.call("occupy")) if place == "queue" else None
        await settle()
        call = asyncio.create_task(runtime.call("send", arguments))
        await asyncio.sleep(0)  # validated, and the handler's task has not begun
        if place in ("confirm", "approver"):
            await gate.reached.wait()
        arguments["to"]["account"] = "mallory"
        arguments["to"]["lines"].append(2)
        gate.opened.set()
        assert (await call).ok
        if occupied is not None:
            await occupied

    assert ran == [{"account": "ann", "lines": [1]}]


async def test_a_rule_and_the_handler_see_the_same_arguments_while_a_grant_is_looked_up():
    ran: list[Any] = []
    arguments: dict[str, Any] = {"to": {"account": "ann"}}
    is_judged = asyncio.Event()

    def is_mallory(to: Any) -> bool:
        is_judged.set()
        return to["account"] == "mallory"

    policy = Policy([{"arguments": {"to": is_mallory}, "decision": "deny"}, {"decision": "ask"}])
    async with Runtime(sending(ran, raw=True), policy=policy) as runtime:
        first = await runtime.call("send", {"to": {"account": "ann"}})
        assert isinstance(first, Pending)
        await runtime.approve(first.call_id, always=True)
        is_judged.clear()
        call = asyncio.create_task(runtime.call("send", arguments))
        await is_judged.wait()
        arguments["to"]["account"] = "mallory"
        assert (await call).ok

    assert ran == [{"account": "ann"}, {"account": "ann"}]


async def test_a_person_is_shown_and_approves_what_was_judged():
    ran, gate = [], Gate()
    arguments: dict[str, Any] = {"to": {"account": "ann"}}

    async def confirm(arguments: Any, context: Any) -> bool:
        await gate.wait()
        return True

    async with Runtime(sending(ran, raw=True, confirm=confirm)) as runtime:
        call = asyncio.create_task(runtime.call("send", arguments))
        await gate.reached.wait()
        arguments["to"]["account"] = "mallory"
        gate.opened.set()
        outcome = await call
        [pending] = await runtime.pending()
        assert (await runtime.approve(outcome.call_id)).ok

    assert pending.arguments == {"to": {"account": "ann"}}
    assert ran == [{"account": "ann"}]


async def test_edited_arguments_cannot_be_changed_while_the_answer_is_stored():
    ran: list[Any] = []
    edited: dict[str, Any] = {"to": {"account": "bob"}}

    async with Runtime(sending(ran, raw=True, confirm=True)) as runtime:
        outcome = await runtime.call("send", {"to": {"account": "ann"}})
        answer = asyncio.create_task(runtime.approve(outcome.call_id, arguments=edited))
        await asyncio.sleep(0)
        edited["to"]["account"] = "mallory"
        assert (await answer).ok

    assert ran == [{"account": "bob"}]


async def test_edited_arguments_of_an_approver_cannot_be_changed_after_its_answer():
    ran: list[Any] = []
    edited: dict[str, Any] = {"to": {"account": "bob"}}

    async def approver(pending: Any) -> Approval:
        return Approval(True, arguments=edited)

    async def change_late(invocation: Any, proceed: Any) -> Any:
        edited["to"]["account"] = "mallory"
        return await proceed(invocation)

    runtime = Runtime(sending(ran, raw=True, confirm=True), approver=approver, middleware=[change_late])
    async with runtime:
        assert (await runtime.call("send", {"to": {"account": "ann"}})).ok

    assert ran == [{"account": "bob"}]


async def test_an_answer_cannot_be_changed_while_it_is_stored():
    ask = tool.client("ask", "Ask the person.", reply="later")
    answer: dict[str, Any] = {"city": ["Oslo"]}

    async with Runtime(ask) as runtime:
        outcome = await runtime.call("ask")
        settling = asyncio.create_task(runtime.settle(outcome.call_id, answer))
        await asyncio.sleep(0)
        answer["city"].append("Lima")
        assert (await settling).data == {"city": ["Oslo"]}


async def test_a_second_attempt_gets_the_arguments_that_the_first_one_got():
    seen: list[Any] = []

    @tool(effects={"read"}, retries=2)
    async def look(places: list[Any]) -> str:
        """Look."""
        seen.append(list(places))
        places.append("changed")
        if len(seen) < 3:
            raise Unavailable("not now")
        return "found"

    async with Runtime(look, defaults={"retry_delay": 0.001}) as runtime:
        assert (await runtime.call("look", {"places": ["Oslo"]})).ok

    assert seen == [["Oslo"]] * 3


async def test_a_handler_that_returns_pending_is_stored_with_the_arguments_that_it_got():
    arguments: dict[str, Any] = {"to": {"account": "ann"}}

    @tool
    async def later(to: dict[str, Any]) -> Any:
        """Later."""
        return Pending("result")

    async with Runtime(later) as runtime:
        call = asyncio.create_task(runtime.call("later", arguments))
        await asyncio.sleep(0)
        arguments["to"]["account"] = "mallory"
        await call
        [pending] = await runtime.pending()

    assert pending.arguments == {"to": {"account": "ann"}}


class Trip(BaseModel):
    """A trip."""

    cities: list[str]


async def test_a_model_that_a_caller_passes_is_copied_too():
    seen: list[Any] = []
    trip = Trip(cities=["Oslo"])

    @tool
    async def book(trip: Trip) -> None:
        """Book."""
        await asyncio.sleep(0)
        seen.append(list(trip.cities))

    async with Runtime(book) as runtime:
        call = asyncio.create_task(runtime.call("book", {"trip": trip}))
        await asyncio.sleep(0)
        trip.cities.append("Lima")
        assert (await call).ok

    assert seen == [["Oslo"]]


async def test_a_mapping_of_another_class_is_copied_too():
    seen: list[Any] = []
    inner = ["Oslo"]

    @tool
    async def book(cities: list[Any]) -> None:
        """Book."""
        await asyncio.sleep(0)
        seen.append(list(cities))

    async with Runtime(book) as runtime:
        call = asyncio.create_task(runtime.call("book", UserDict({"cities": inner})))  # type: ignore[arg-type]
        await asyncio.sleep(0)
        inner.append("Lima")
        assert (await call).ok

    assert seen == [["Oslo"]]


async def test_arguments_that_cannot_be_copied_are_refused_or_taken_as_before():
    cyclic: dict[str, Any] = {}
    cyclic["to"] = cyclic
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]

    async with Runtime(sending([], raw=True)) as runtime:
        for arguments in (cyclic, {"to": deep}):
            assert (await runtime.call("send", arguments)).code == "invalid_arguments"


async def test_a_tool_error_of_a_handler_that_changed_its_arguments_leaves_those_of_the_caller_alone():
    arguments = {"to": {"account": "ann"}}

    @tool
    async def spoil(to: dict[str, Any]) -> None:
        """Spoil."""
        await asyncio.sleep(0)
        to["account"] = "mallory"
        raise ToolError("spoilt")

    async with Runtime(spoil) as runtime:
        await runtime.call("spoil", arguments)

    assert arguments == {"to": {"account": "ann"}}
