"""A visible call is one message in its space, whichever process answers and resumes it."""

from __future__ import annotations

import asyncio
import logging
from contextlib import aclosing
from typing import Any

import pytest

from surehand import Runtime, Store, tool
from surehand.store.tables.messages import Message
from surehand.store.tables.streams import run_stream, space_stream
from tests.durable.bank_tools import (
    Bank,
    assert_done,
    assert_failed,
    assert_pending,
    make_ask_tool,
    pending_call_id,
    read_rows,
    simulate_dead_owner,
    wait_until,
)
from tests.durable.child_process import refund

pytestmark = pytest.mark.timeout(30)  # the first test on PostgreSQL starts the server


async def team(address: str) -> None:
    async with Store.open(address) as store:
        await store.spaces.create("team")
        await store.spaces.join("team", "helper", "agent")
        await store.spaces.join("team", "critic", "agent")


async def shown(runtime: Runtime) -> Message:
    """The one message of the space."""
    assert runtime.store is not None
    [message] = await runtime.store.spaces.history("team")
    return message


async def streamed(runtime: Runtime, stream: str = space_stream("team")) -> list[tuple[str, Any]]:
    """What was told of it, and how it stood each time."""
    assert runtime.store is not None
    return [
        (event.kind, event.data.get("content", event.data)["status"])
        for event in await runtime.store.streams.read(stream)
    ]


async def test_approved_with_edited_arguments_in_another_process_and_failed_it_is_one_message(address, child):
    await team(address)
    async with Runtime(refund, store=address) as runtime:
        scope = runtime.scope(space="team", agent="helper", turn="run-1")
        call_id = pending_call_id(await scope.call("refund", {"amount": 5}))
        waiting = await shown(runtime)
        async with child("approve_edited", address, call_id, "500") as process:
            told = await process.read_message()
        ended = await shown(runtime)
        stream = await streamed(runtime)
        woken = await runtime.store.inbox.count("critic")

    assert told["failed"] == "failed"
    assert (waiting.content["status"], waiting.content["args"]) == ("requires_action", {"amount": 5})
    assert (ended.message_id, ended.number, ended.call_id) == (waiting.message_id, 1, call_id)
    assert (ended.content["status"], ended.content["args"]) == ("error", {"amount": 500})
    assert "500 is more than there is" in ended.content["result"]
    assert (ended.content["toolName"], ended.content["toolCallId"], ended.content["runId"]) == (
        "refund",
        call_id,
        "run-1",
    )
    assert stream == [
        ("tool-call.start", "running"),
        ("message.amended", "requires_action"),
        ("message.amended", "running"),
        ("tool-call.error", "error"),
    ]
    assert woken == 0


async def test_a_call_that_simply_runs_is_shown_from_running_to_complete(address):
    await team(address)
    bank = Bank()
    async with Runtime(bank, store=address) as runtime:
        scope = runtime.scope(space="team", agent="helper", turn="run-1")
        assert_done(await scope.call("pay", {"amount": 5}))
        message, stream, run = (
            await shown(runtime),
            await streamed(runtime),
            await streamed(runtime, run_stream("run-1")),
        )

    assert stream == [("tool-call.start", "running"), ("tool-call.complete", "complete")]
    assert (message.content["result"], message.sender_id) == ("sent 5 to ann", "helper")
    assert run == [("call.ended", "ok")]


async def test_a_call_that_only_reads_is_shown_as_well(address):
    @tool(effects={"read"})
    async def look(at: str) -> str:
        """Look at something."""
        return f"seen {at}"

    await team(address)
    async with Runtime(look, store=address) as runtime:
        scope = runtime.scope(space="team", turn="run-1")
        assert_done(await scope.call("look", {"at": "home"}))
        message, stream = await shown(runtime), await streamed(runtime)
        run = await wait_until(lambda: streamed(runtime, run_stream("run-1")))

    assert stream == [("tool-call.start", "running"), ("tool-call.complete", "complete")]
    assert message.content["result"] == "seen home"
    assert run == [("call.ended", "ok")]


async def test_an_answer_and_its_message_are_committed_together(address):
    await team(address)
    async with Runtime(make_ask_tool(), store=address) as runtime:
        call_id = pending_call_id(await runtime.scope(space="team", agent="helper", turn="run-1").call("ask"))
    async with Runtime(store=address) as without_the_tool:
        assert_done(await without_the_tool.settle(call_id, "blue"))
        message, stream = await shown(without_the_tool), await streamed(without_the_tool)
        run = await streamed(without_the_tool, run_stream("run-1"))
        (item,) = await without_the_tool.store.inbox.drain("helper")

    assert (message.content["status"], message.content["result"]) == ("complete", "blue")
    assert stream == [
        ("tool-call.start", "running"),
        ("message.amended", "requires_action"),
        ("tool-call.complete", "complete"),
    ]
    assert run == [("call.pending", "result"), ("call.settled", "settle"), ("call.ended", "ok")]
    assert item.data["result"] == "blue"


@pytest.mark.parametrize("verb", ["reject", "cancel"])
async def test_a_rejected_call_is_shown_as_an_error(address, verb):
    await team(address)
    bank = Bank()
    async with Runtime(bank, store=address) as runtime:
        call_id = pending_call_id(await runtime.scope(space="team").call("transfer", {"amount": 5}))
        await (runtime.reject(call_id, "no money") if verb == "reject" else runtime.cancel(call_id))
        message, stream = await shown(runtime), await streamed(runtime)

    assert message.content["status"] == "error"
    assert [status for _, status in stream] == ["running", "requires_action", "error"]
    assert bank.ran == []


async def test_a_call_whose_process_died_asks_for_a_person(address):
    await team(address)
    bank = Bank()
    bank.gate.clear()
    async with Runtime(bank, store=address) as runtime:
        calling = asyncio.create_task(runtime.scope(space="team").call("pay", {"amount": 5}, call_id="c1"))
        await bank.started.wait()
        await simulate_dead_owner(runtime, "c1")
        async with Runtime(store=address) as other:
            await wait_until(lambda: _has_status(other, "requires_action"))
            assert_done(await other.settle("c1", "it was paid"))
            message = await shown(other)
        bank.gate.set()
        assert assert_done(await calling) == "it was paid"  # what is kept is what counts
        after = await shown(runtime)

    assert (message.content["status"], message.content["result"]) == ("complete", "it was paid")
    assert after.content == message.content


@pytest.mark.parametrize("given", [[], ["c1"]])
async def test_a_call_that_only_reads_is_shown_as_interrupted_when_its_process_dies(address, child, given):
    await team(address)
    async with child("show", address, *given) as process:
        call_id = (await process.read_message())["started"]
        async with Runtime(store=address) as other:
            assert await statuses(other) == ["running"]
            await process.kill()
            await wait_until(lambda: _has_status(other, "error"))
            message, stream, run = await shown(other), await streamed(other), await streamed(other, run_stream("run-1"))
            journal = await other.store.journal.of_call(call_id)
            left = await read_rows(other, "SELECT owner FROM messages WHERE owner IS NOT NULL")

    assert message.content["result"] == "(tool failed: look was interrupted: its process died. It may be called again.)"
    assert stream == [("tool-call.start", "running"), ("tool-call.error", "error")]
    assert run == [("call.ended", "interrupted")]
    assert [(entry.kind, entry.status, entry.tool) for entry in journal] == [("ended", "interrupted", "look")]
    assert left == []


async def test_it_is_found_by_the_next_runtime_even_if_another_one_released_the_dead_owner(address, child):
    await team(address)
    async with child("show", address) as process:
        await process.read_message()
        await process.kill()
    async with Store.open(address) as store:
        await wait_until(lambda: _nobody_at_work(store))
    async with Runtime(store=address) as runtime:
        assert await statuses(runtime) == ["error"]


async def _nobody_at_work(store: Store) -> bool:
    await store.owners.release_dead_owners("")
    return not await store.database.read("SELECT owner FROM owners")


async def test_one_that_still_runs_is_not_taken_for_interrupted(address, child):
    await team(address)
    async with child("show", address) as process:
        await process.read_message()
        async with Runtime(store=address) as other:
            await other._runtime_parts.store.recover_dead_runtimes()
            assert await statuses(other) == ["running"]
            process.resume()
            assert await process.read_message() == {"done": "seen"}
            assert await statuses(other) == ["complete"]


async def test_repeated_under_its_id_an_interrupted_call_is_the_same_message(address, child):
    await team(address)
    async with child("show", address, "c1") as process:
        await process.read_message()
        await process.kill()

    @tool(effects={"read"})
    async def look() -> str:
        """Look around."""
        return "seen at last"

    async with Runtime(look, store=address) as runtime:
        await wait_until(lambda: _has_status(runtime, "error"))
        assert_done(await runtime.scope(space="team", agent="helper", turn="run-1").call("look", call_id="c1"))
        message = await shown(runtime)

    assert (message.number, message.content["status"], message.content["result"]) == (1, "complete", "seen at last")


async def _has_status(runtime: Runtime, status: str) -> bool:
    return await statuses(runtime) == [status]


async def test_without_an_active_space_nothing_is_posted_and_it_is_logged(address, caplog):
    await team(address)
    with caplog.at_level(logging.WARNING, "surehand"):
        async with Runtime(Bank(), store=address) as runtime:
            assert_done(await runtime.call("pay", {"amount": 5}))
            assert await read_rows(runtime, "SELECT number FROM messages") == []
            assert await runtime.store.streams.last(space_stream("team")) == 0

    assert "no space is active" in caplog.text


async def test_a_space_that_is_not_there_stops_no_call(address, caplog):
    bank = Bank()
    with caplog.at_level(logging.WARNING, "surehand"):
        async with Runtime(bank, store=address) as runtime:
            assert_done(await runtime.scope(space="nowhere").call("pay", {"amount": 5}))
            assert_pending(await runtime.scope(space="nowhere").call("transfer", {"amount": 5}))

    assert "no space nowhere" in caplog.text
    assert bank.ran == [(5, "ann")]


async def test_a_message_that_is_gone_stops_no_outcome(address):
    await team(address)
    async with Runtime(make_ask_tool(), store=address) as runtime:
        call_id = pending_call_id(await runtime.scope(space="team").call("ask"))
        await runtime.store.write([_gone()])
        assert assert_done(await runtime.settle(call_id, "blue")) == "blue"
        assert await streamed(runtime) == [("tool-call.start", "running"), ("message.amended", "requires_action")]
        assert await runtime.store.streams.last(space_stream("team")) == 2


def _gone() -> Any:
    from surehand.store.database import Statement

    return Statement("DELETE FROM messages")


async def test_tools_that_are_not_visible_show_nothing(address):
    hidden = tool(effects={"write"}, visible=False, name="hidden")(_nothing)
    await team(address)
    async with Runtime(hidden, store=address) as runtime:
        assert_done(await runtime.scope(space="team").call("hidden"))
        assert await runtime.store.spaces.history("team") == []


async def _nothing() -> None:
    """Do nothing."""


async def test_a_second_runtime_sees_the_changes_of_the_first(address):
    await team(address)
    bank = Bank()
    async with Runtime(bank, store=address) as first, Runtime(store=address) as second:
        kinds: list[str] = []

        async def follow() -> None:
            async with aclosing(second.store.streams.follow(space_stream("team"))) as stream:
                async for event in stream:
                    kinds.append(event.kind)
                    if event.kind == "tool-call.complete":
                        return

        following = asyncio.create_task(follow())
        call_id = pending_call_id(await first.scope(space="team").call("transfer", {"amount": 5}))
        assert_done(await first.approve(call_id))
        await asyncio.wait_for(following, 25)

    assert kinds == ["tool-call.start", "message.amended", "message.amended", "tool-call.complete"]


async def test_a_refused_answer_does_not_change_the_message(address):
    await team(address)
    async with Runtime(Bank(), store=address) as runtime:
        call_id = pending_call_id(await runtime.scope(space="team", user="ann").call("transfer", {"amount": 5}))
        assert_failed(await runtime.scope(user="eve").reject(call_id), "not_found")
        message = await shown(runtime)

    assert message.content["status"] == "requires_action"


async def statuses(runtime: Runtime) -> list[str]:
    assert runtime.store is not None
    return [message.content["status"] for message in await runtime.store.spaces.history("team")]


@pytest.mark.parametrize("turns", range(4))
async def test_a_call_that_is_cancelled_while_it_is_posted_is_not_shown_as_running_for_ever(address, turns):
    @tool(effects={"read"})
    async def look() -> str:
        """Look around."""
        await asyncio.sleep(10)
        return "seen"

    await team(address)
    async with Runtime(look, store=address) as runtime:
        calling = asyncio.create_task(runtime.scope(space="team").call("look"))
        for _ in range(turns):
            await asyncio.sleep(0)
        calling.cancel()
        await asyncio.wait([calling])
    async with Runtime(store=address) as runtime:
        assert await statuses(runtime) in ([], ["error"])


async def test_the_same_id_at_once_in_two_runtimes_is_one_message(address):
    bank = Bank()
    bank.gate.clear()
    await team(address)
    async with Runtime(bank, store=address) as one, Runtime(bank, store=address) as other:
        calls = [
            asyncio.create_task(runtime.scope(space="team").call("pay", {"amount": 5}, call_id="c1"))
            for runtime in (one, other)
        ]
        await bank.started.wait()
        await asyncio.wait(calls, return_when=asyncio.FIRST_COMPLETED)
        bank.gate.set()
        await asyncio.gather(*calls)

        assert await statuses(one) == ["complete"]
    assert bank.ran == [(5, "ann")]


async def test_a_second_answer_does_not_change_the_message(address):
    await team(address)
    bank = Bank()
    async with Runtime(bank, store=address) as one, Runtime(bank, store=address) as other:
        for number in range(8):
            call_id = f"c{number}"
            await one.scope(space="team").call("transfer", {"amount": 5}, call_id=call_id)
            await asyncio.gather(one.approve(call_id), other.reject(call_id))
        ends = [kind for kind, _ in await streamed(one) if kind in ("tool-call.complete", "tool-call.error")]
        last = {}
        for event in await one.store.streams.read(space_stream("team")):
            last[event.data["messageId"]] = event.kind

        assert set(await statuses(one)) <= {"complete", "error"}
    assert len(ends) == 8
    assert set(last.values()) <= {"tool-call.complete", "tool-call.error"}


async def test_a_cancelled_caller_does_not_end_the_message(address):
    await team(address)
    async with Runtime(make_ask_tool(reply="wait"), store=address) as runtime:
        calling = asyncio.create_task(runtime.scope(space="team").call("ask", call_id="c1"))
        await wait_until(lambda: _has_status(runtime, "requires_action"))
        calling.cancel()
        await asyncio.wait([calling])

        assert await statuses(runtime) == ["requires_action"]
        assert_done(await runtime.settle("c1", "blue"))
        assert await statuses(runtime) == ["complete"]
        assert "tool-call.error" not in [kind for kind, _ in await streamed(runtime)]


async def test_arguments_that_cannot_be_shown_stop_no_call(address):
    @tool(effects={"read"})
    async def look(at: Any) -> str:
        """Look at something."""
        return "seen"

    await team(address)
    async with Runtime(look, store=address) as runtime:
        assert assert_done(await runtime.scope(space="team").call("look", {"at": object()})) == "seen"
        assert await statuses(runtime) == []
