"""Regression tests for the bugs that the crash harness has found."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from surehand import Context, Done, Outcome, Pending, Runtime, Store, tool
from surehand.store.database import StoreUnavailable

pytestmark = pytest.mark.timeout(30)  # the runtime retries by itself, which takes long on a busy machine


@tool(effects={"write"}, confirm=True)
async def wire(to: str) -> str:
    """Wire money."""
    return f"wired to {to}"


@tool(effects={"write"})
async def travel(to: str, ctx: Context) -> Outcome:
    """Leave, once the fare is paid."""
    return await ctx.call("wire", {"to": to})


@tool(effects={"write"}, max_bytes=1_000)
async def report() -> str:
    """Write a long report."""
    return "A line.\n" * 1_000


@tool(effects={"read"})
async def look_up() -> str:
    """Look something up."""
    return "found"


@pytest.fixture
def file(tmp_path: Path) -> str:
    return str(tmp_path / "store.db")


def break_write(runtime: Runtime, word: str, *, stored: bool) -> Callable[[], int]:
    """Fail the next write with this word, after or before it is stored, as when a server dies."""
    store: Any = runtime.store
    write, fault = store.database.write, []

    async def write_or_fail(statements: Any) -> Any:
        if fault or not any(word in statement.sql or word in statement.params.values() for statement in statements):
            return await write(statements)
        fault.append(word)
        if stored:
            await write(statements)
        raise StoreUnavailable("The server is gone.")

    store.database.write = write_or_fail
    return lambda: len(fault)


def break_next_read_after(runtime: Runtime, count_faults: Callable[[], int]) -> None:
    """Fail the first read of the tables after a write has failed."""
    store: Any = runtime.store
    read, failed = store.database.read, []

    async def read_or_fail(*args: Any) -> Any:
        if count_faults() and not failed:
            failed.append(True)
            raise StoreUnavailable("The server is still gone.")
        return await read(*args)

    store.database.read = read_or_fail


async def wait_for_outcome(runtime: Runtime, name: str, arguments: dict[str, Any], call_id: str) -> Outcome:
    while isinstance(outcome := await runtime.call(name, arguments, call_id=call_id), Pending):  # noqa: ASYNC110 - the runtime continues the call by itself
        await asyncio.sleep(0.01)
    return outcome


async def test_an_approval_of_a_call_with_a_pending_nested_call_may_be_repeated(file):
    async with Runtime(wire, travel, store=file) as runtime:
        await runtime.call("travel", {"to": "rome"}, call_id="trip")

        assert await runtime.approve("trip") == Done("wired to rome")
        assert await runtime.approve("trip") == Done("wired to rome")
        assert (await runtime.reject("trip")).code == "conflict"


async def test_an_output_that_another_process_stored_can_be_read(file):
    async with Runtime(report, store=file) as one, Runtime(report, store=file) as other:
        await one.call("report", {}, call_id="reported")

        assert "tool_output" in (await other.call("report", {}, call_id="reported")).text

        assert other.catalogue.find("tool_output") is not None


@pytest.mark.parametrize("stored", [True, False])
@pytest.mark.parametrize("word", ["answer", "intent"])
async def test_an_approval_survives_a_server_failure_during_its_write(file, word, stored):
    async with Runtime(wire, store=file) as runtime:
        await runtime.call("wire", {"to": "bob"}, call_id="wired")
        fault = break_write(runtime, word, stored=stored)

        first = await runtime.approve("wired")
        if word == "answer" and not stored:
            await runtime.approve("wired")

        assert fault() == 1
        assert isinstance(first, Pending) if word == "intent" else first.code == "unavailable"
        assert await wait_for_outcome(runtime, "wire", {"to": "bob"}, "wired") == Done("wired to bob")


@pytest.mark.parametrize("stored", [True, False])
async def test_an_approval_survives_a_server_that_also_fails_the_reads_after_the_claim(file, stored):
    async with Runtime(wire, store=file) as runtime:
        await runtime.call("wire", {"to": "bob"}, call_id="wired")
        fault = break_write(runtime, "intent", stored=stored)
        break_next_read_after(runtime, fault)

        first = await runtime.approve("wired")

        assert fault() == 1
        assert isinstance(first, Pending)
        assert await wait_for_outcome(runtime, "wire", {"to": "bob"}, "wired") == Done("wired to bob")


async def test_the_journal_records_each_end_once_when_the_runtime_closes_right_after(file):
    async with Runtime(look_up, store=file) as runtime:
        for _ in range(20):
            await runtime.call("look_up")

    async with Store.open(file) as store:
        entries = [entry.call_id for entry in await store.journal.after()]
        assert len(entries) == len(set(entries)) == 20
