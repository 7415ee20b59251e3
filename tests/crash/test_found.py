"""What the harness has found by lot, each once more on purpose."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from surehand import Context, Done, Outcome, Pending, Runtime, Store, tool
from surehand.store.database import StoreUnavailable

pytestmark = pytest.mark.timeout(30)  # the runtime tries again by itself, and a busy machine takes its time


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


def break_write(runtime: Runtime, word: str, *, kept: bool) -> Callable[[], int]:
    """The next write that tells of this fails, and was kept or not, as when a server dies."""
    store: Any = runtime.store
    write, broken = store.database.write, []

    async def breaking(statements: Any) -> Any:
        if broken or not any(word in statement.sql or word in statement.params.values() for statement in statements):
            return await write(statements)
        broken.append(word)
        if kept:
            await write(statements)
        raise StoreUnavailable("The server is gone.")

    store.database.write = breaking
    return lambda: len(broken)


async def ended(runtime: Runtime, name: str, arguments: dict[str, Any], call_id: str) -> Outcome:
    while isinstance(outcome := await runtime.call(name, arguments, call_id=call_id), Pending):  # noqa: ASYNC110 - the runtime goes on by itself
        await asyncio.sleep(0.01)
    return outcome


async def test_a_yes_to_a_call_that_waits_for_another_one_may_be_repeated(file):
    async with Runtime(wire, travel, store=file) as runtime:
        await runtime.call("travel", {"to": "rome"}, call_id="trip")

        assert await runtime.approve("trip") == Done("wired to rome")
        assert await runtime.approve("trip") == Done("wired to rome")
        assert (await runtime.reject("trip")).code == "conflict"


async def test_an_output_that_another_process_kept_can_be_read_here(file):
    async with Runtime(report, store=file) as one, Runtime(report, store=file) as other:
        await one.call("report", {}, call_id="reported")

        assert "tool_output" in (await other.call("report", {}, call_id="reported")).text

        assert other.catalogue.find("tool_output") is not None


@pytest.mark.parametrize("kept", [True, False])
@pytest.mark.parametrize("word", ["answer", "intent"])
async def test_a_yes_holds_when_the_server_dies_with_it(file, word, kept):
    async with Runtime(wire, store=file) as runtime:
        await runtime.call("wire", {"to": "bob"}, call_id="wired")
        broken = break_write(runtime, word, kept=kept)

        first = await runtime.approve("wired")
        if word == "answer" and not kept:
            await runtime.approve("wired")

        assert broken() == 1
        assert isinstance(first, Pending) if word == "intent" else first.code == "unavailable"
        assert await ended(runtime, "wire", {"to": "bob"}, "wired") == Done("wired to bob")


async def test_the_journal_tells_of_an_end_once_though_the_runtime_closes_just_then(file):
    async with Runtime(look_up, store=file) as runtime:
        for _ in range(20):
            await runtime.call("look_up")

    async with Store.open(file) as store:
        entries = [entry.call_id for entry in await store.journal.after()]
        assert len(entries) == len(set(entries)) == 20
