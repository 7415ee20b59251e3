"""The status of a stored call."""

import asyncio

import pytest

from surehand import Done, Failed, Pending, Runtime, tool
from surehand.testing import ManualClock


class Work:
    """A tool that works until it is let go."""

    def __init__(self, effects: str = "write", **more) -> None:
        self.runs, self.may_end = asyncio.Event(), asyncio.Event()

        @tool(effects={effects}, timeout="off", **more)
        async def work(what: str = "it") -> str:
            """Work."""
            self.runs.set()
            await self.may_end.wait()
            return f"did {what}"

        self.tool = work


@pytest.fixture(params=[None, "calls.db"])
def store(request, tmp_path):
    return None if request.param is None else tmp_path / request.param


async def test_nothing_is_known_of_an_id_that_was_never_used(store):
    async with Runtime(Work().tool, store=store) as runtime:
        for strange in ("none", "", "\x00", "x" * 10_000, "\ud800"):
            assert await runtime.status(strange) is None


@pytest.mark.parametrize("effects", ["read", "write"])
async def test_a_call_runs_and_then_has_ended(store, effects):
    work = Work(effects)
    async with Runtime(work.tool, store=store) as runtime:
        calling = asyncio.create_task(runtime.call("work", {"what": "more"}, call_id="c1"))
        await work.runs.wait()
        running = await runtime.status("c1")
        work.may_end.set()
        await calling
        ended = await runtime.status("c1")

    assert (running.tool, running.arguments, running.outcome) == ("work", {"what": "more"}, None)
    assert running.state == ("idle" if effects == "read" else "running")
    assert (ended.state, ended.outcome, ended.round) == ("ended", Done("did more"), 0)
    assert ended.created_at == running.created_at <= ended.changed_at


async def test_the_status_of_a_pending_call_contains_its_question(store):
    work = Work(confirm=True, confirm_message="Work?")
    work.may_end.set()
    async with Runtime(work.tool, store=store) as runtime:
        pending = await runtime.call("work")
        waiting = await runtime.status(pending.call_id)
        await runtime.approve(pending.call_id)
        ended = await runtime.status(pending.call_id)

    assert isinstance(waiting.outcome, Pending)
    assert (waiting.state, waiting.round, waiting.outcome.message) == ("waiting", 1, "Work?")
    assert (ended.state, ended.round, ended.outcome) == ("ended", 0, Done("did it"))


async def test_an_answered_call_is_resumed(store):
    work = Work(confirm=True)
    async with Runtime(work.tool, store=store) as runtime:
        pending = await runtime.call("work")
        answering = asyncio.create_task(runtime.approve(pending.call_id))
        await work.runs.wait()
        going = await runtime.status(pending.call_id)
        work.may_end.set()
        await answering

    assert (going.outcome, going.round) == (None, 0)


async def test_times_are_those_of_the_clock():
    clock, work = ManualClock(start=1000.0), Work(confirm=True)
    work.may_end.set()
    async with Runtime(work.tool, clock=clock) as runtime:
        pending = await runtime.call("work")
        await clock.advance(5)
        await runtime.approve(pending.call_id)
        standing = await runtime.status(pending.call_id)

    assert (standing.created_at, standing.changed_at) == (1000.0, 1005.0)


async def test_only_its_own_user_and_session_know_of_a_call(store):
    asking = Work(confirm=True)
    working = Work(name="other")
    working.may_end.set()
    async with Runtime(asking.tool, working.tool, store=store) as runtime:
        ann = runtime.scope(user="ann", session="s1")
        waits = (await ann.call("work")).call_id
        await ann.call("other", call_id="c1")
        for call_id in (waits, "c1"):
            assert await ann.status(call_id) is not None
            assert await runtime.status(call_id) is not None
            assert await runtime.scope(user="ann").status(call_id) is not None
            assert await runtime.scope(user="bob").status(call_id) is None
            assert await runtime.scope(user="ann", session="s2").status(call_id) is None


async def test_a_failed_call_can_be_recorded_once(store):
    work = Work("read")
    async with Runtime(work.tool, store=store) as runtime:
        calling = asyncio.create_task(runtime.call("work", call_id="c1"))
        await work.runs.wait()
        await runtime.cancel("c1")
        stopped = await calling
        open_yet = await runtime.status("c1")
        await runtime.record_failed_call("c1", stopped)
        await runtime.record_failed_call("c1", Failed("failed", "something else"))
        await runtime.record_failed_call("never used", Failed("failed", "something else"))
        ended = await runtime.status("c1")

    assert (open_yet.state, open_yet.outcome) in (("idle", None), ("ended", stopped))
    assert (ended.state, ended.outcome.code) == ("ended", "cancelled")


async def test_a_runtime_is_at_work_until_it_leaves(tmp_path):
    async with Runtime(store=tmp_path / "calls.db") as one:
        async with Runtime(store=tmp_path / "calls.db") as two:
            assert await one.is_alive(one.runtime_id)
            assert await one.is_alive(two.runtime_id)
        assert not await one.is_alive(two.runtime_id)
        assert not await one.is_alive("nobody")
        assert not await one.is_alive("")
    async with Runtime() as alone:
        assert await alone.is_alive(alone.runtime_id)
        assert not await alone.is_alive(one.runtime_id)


async def test_without_a_store_a_retained_call_is_kept_until_it_is_forgotten(monkeypatch):
    monkeypatch.setattr("surehand.runtime.durability.ledger.MAX_CALLS_IN_MEMORY", 10)

    @tool(effects={"write"})
    async def note(what: str = "") -> str:
        """Note."""
        return "noted"

    weights: list[int] = []
    async with Runtime(note) as runtime:
        ledger = runtime._calls.load().ledger
        ledger.retained_calls["promised"] = weigh = weights.append
        for call_id in ("promised", "not promised"):
            await runtime.call("note", {}, call_id=call_id)
        for number in range(30):
            await runtime.call("note", {}, call_id=f"c{number}")
        await ledger.forget_retained("promised", lambda _: None)  # which is another's promise
        kept = [await runtime.status(each) is not None for each in ("promised", "not promised", "c29")]
        await ledger.forget_retained("promised", weigh)
        after = await runtime.status("promised")

    [weight] = weights
    assert weight >= len("noted")
    assert kept == [True, False, True]
    assert after is None
    assert ledger.retained_calls == {}


async def test_large_arguments_of_ended_calls_are_kept_only_in_a_configured_store(store):
    @tool(effects={"write"})
    async def note(what: str = "") -> str:
        """Note."""
        return "noted"

    async with Runtime(note, store=store) as runtime:
        await runtime.call("note", {"what": "x" * 100_000}, call_id="large")
        await runtime.call("note", {"what": "x"}, call_id="small")
        large, small = await runtime.status("large"), await runtime.status("small")
        again = await runtime.call("note", {"what": "x" * 100_000}, call_id="large")
        other = await runtime.call("note", {"what": "y" * 100_000}, call_id="large")

    assert large.arguments == ({} if store is None else {"what": "x" * 100_000})
    assert small.arguments == {"what": "x"}
    assert (large.outcome.data, again.data, other.code) == ("noted", "noted", "conflict")
