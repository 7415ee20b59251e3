"""Standing approvals are listed, and revoked for the next call in every process on the store."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from surehand import Policy, Runtime, tool
from surehand.core.events import CallSettled
from tests.durable.bank_tools import Bank, assert_done, assert_pending, ledger_state, pending_call_id, read_rows
from tests.durable.conftest import ON_BOTH_DATABASES

pytestmark = pytest.mark.timeout(30)  # the first test on PostgreSQL starts the server


async def granted(runtime: Runtime, *users: str | None, name: str = "transfer") -> None:
    """Each of these users may call it without being asked."""
    for user in users:
        scope = runtime.scope(user=user)
        assert_done(
            await scope.approve(pending_call_id(await scope.call(name, {"amount": 1})), always=True, by="grace")
        )


async def holders(runtime: Runtime) -> list[tuple[str, str | None]]:
    return [(grant.tool, grant.user) for grant in await runtime.grants()]


async def test_grants_are_listed_with_the_person_who_gave_them(any_address):
    async with Runtime(Bank(), store=any_address) as runtime:
        assert await runtime.grants() == []
        await granted(runtime, "ann", None)
        both = await runtime.grants()
        mine = await runtime.scope(user="ann").grants()
        theirs = await runtime.scope(user="eve").grants()

    assert [(grant.tool, grant.user, grant.by) for grant in both] == [
        ("transfer", None, "grace"),
        ("transfer", "ann", "grace"),
    ]
    assert mine == both[1:]
    assert theirs == []
    assert both[0].given_at > 0
    assert both[0].definition == both[1].definition


async def test_a_revoked_grant_asks_again_from_the_next_call_on_in_every_process(address):
    bank = Bank()
    async with Runtime(bank, store=address) as one, Runtime(bank, store=address) as other:
        await granted(one, "ann")
        ann = other.scope(user="ann")
        assert_done(await ann.call("transfer", {"amount": 2}))

        assert await one.scope(user="ann").revoke("transfer")

        assert_pending(await ann.call("transfer", {"amount": 3}), "approval")
        assert await one.grants() == []
        assert not await other.revoke("transfer")
    assert [amount for amount, _ in bank.ran] == [1, 2]


async def test_a_user_revokes_only_their_own_grants(any_address):
    async with Runtime(Bank(), store=any_address) as runtime:
        await granted(runtime, "ann", "bob", None)

        assert not await runtime.scope(user="eve").revoke("transfer")
        assert await runtime.scope(user="ann").revoke("transfer")
        assert await holders(runtime) == [("transfer", None), ("transfer", "bob")]

        assert await runtime.scope(user="").revoke("transfer")  # calls without a user
        assert await holders(runtime) == [("transfer", "bob")]
        assert await runtime.revoke("transfer")  # everybody's
        assert await holders(runtime) == []


async def test_one_tool_is_revoked_and_no_other(any_address):
    @tool(effects={"write"}, aliases=("give",))
    async def pa_y(amount: int) -> str:
        """Pay."""
        return "paid"

    @tool(effects={"write"})
    async def pa5y(amount: int) -> str:
        """Pay five."""
        return "paid"

    async with Runtime(pa_y, pa5y, policy=Policy.default(), store=any_address) as runtime:
        await granted(runtime, None, name="pa_y")
        await granted(runtime, None, name="pa5y")
        assert not await runtime.revoke("pa")
        assert not await runtime.revoke("pa%")
        assert not await runtime.revoke("\0")
        assert await runtime.revoke("give")  # by another name that it goes by
        assert await holders(runtime) == [("pa5y", None)]


async def test_a_runtime_without_a_store_of_its_own_lists_and_revokes_as_well():
    async with Runtime(Bank()) as runtime:
        assert await runtime.grants() == []
        assert not await runtime.revoke("transfer")
        await granted(runtime, "ann")
        assert await holders(runtime) == [("transfer", "ann")]
        assert await runtime.revoke("transfer")
        assert_pending(await runtime.scope(user="ann").call("transfer", {"amount": 3}))


async def test_grants_of_older_definitions_are_listed_and_revoked_too(address):
    async with Runtime(Bank(), store=address) as runtime:
        await granted(runtime, "ann")

    @tool(effects={"write"}, confirm=True)
    async def transfer(amount: int) -> str:
        """Transfer money in another way."""
        return "sent"

    async with Runtime(transfer, store=address) as runtime:
        await granted(runtime, "ann")
        assert await holders(runtime) == [("transfer", "ann")] * 2
        assert await runtime.revoke("transfer")
        assert await runtime.grants() == []


async def test_a_yes_for_good_to_a_call_that_has_not_run_yet_is_revoked_with_the_rest(address):
    bank = Bank()
    async with Runtime(bank, store=address) as runtime:
        call_id = pending_call_id(await runtime.scope(user="ann").call("transfer", {"amount": 1}))
    async with Runtime(store=address) as without_the_tool:
        assert_pending(await without_the_tool.approve(call_id, always=True), "result")
        assert await ledger_state(without_the_tool, call_id) == "ready"
        assert not await without_the_tool.scope(user="eve").revoke("transfer")
        assert await without_the_tool.scope(user="ann").revoke("transfer")
    async with Runtime(bank, store=address) as runtime:
        assert assert_done(await runtime.approve(call_id)) == "sent 1 to ann"  # this one yes still counts
        assert await runtime.grants() == []
        assert_pending(await runtime.scope(user="ann").call("transfer", {"amount": 2}))


@ON_BOTH_DATABASES
async def test_a_grant_that_is_revoked_while_its_call_is_resumed_is_not_stored_afterwards(address):
    written, revoked = asyncio.Event(), asyncio.Event()
    revoked.set()

    @asynccontextmanager
    async def slow() -> AsyncIterator[None]:
        written.set()
        await revoked.wait()
        yield

    @tool(effects={"write"}, confirm=True, lifespan=slow)
    async def transfer(amount: int) -> str:
        """Transfer money."""
        return f"sent {amount}"

    async with Runtime(transfer, store=address) as one, Runtime(store=address) as other:
        ann = one.scope(user="ann")
        call_id = pending_call_id(await ann.call("transfer", {"amount": 1}))
        other.catalogue.add(transfer)  # after the start: its lifespan begins when the approved call goes on
        written.clear()
        revoked.clear()

        going = asyncio.create_task(other.approve(call_id, always=True))
        await written.wait()
        assert await ann.revoke("transfer", by="heidi")
        revoked.set()

        assert assert_done(await going) == "sent 1"  # this one yes still counts
        assert await one.grants() == []
        assert_pending(await ann.call("transfer", {"amount": 2}), "approval")
        assert await told(one) == [("revoked", "ann", "heidi")]


@ON_BOTH_DATABASES
async def test_of_several_concurrent_revocations_one_succeeds_and_no_grant_is_left(address):
    bank, written = Bank(), asyncio.Event()

    async def revoke(runtime: Runtime, user: str) -> bool:
        await written.wait()
        return await runtime.scope(user=user).revoke("transfer")

    async with Runtime(bank, store=address) as one, Runtime(bank, store=address) as other:
        other.listen(lambda event: written.set() if isinstance(event, CallSettled) else None)
        for user in map(str, range(20)):
            written.clear()
            call_id = pending_call_id(await one.scope(user=user).call("transfer", {"amount": 1}))
            revoking = [revoke(runtime, user) for runtime in (one, other, one)]
            outcome, *revoked = await asyncio.gather(other.approve(call_id, always=True), *revoking)
            assert_done(outcome)
            assert sorted(revoked) == [False, False, True]
        assert await one.grants() == []
        assert sorted(user for kind, user, _ in await told(one) if kind == "revoked") == sorted(map(str, range(20)))


async def test_a_grant_is_revoked_once_though_its_call_still_runs(address):
    bank = Bank()
    bank.gate.clear()
    async with Runtime(bank, store=address) as runtime:
        call_id = pending_call_id(await runtime.scope(user="ann").call("transfer", {"amount": 1}))
        going = asyncio.create_task(runtime.approve(call_id, always=True, by="grace"))
        await bank.started.wait()
        assert runtime.store is not None
        assert await runtime.store.grants.revoke("transfer", by="heidi") == 1
        bank.gate.set()
        assert_done(await going)
        assert await told(runtime) == [("granted", "ann", "grace"), ("revoked", "ann", "heidi")]


async def test_a_yes_that_is_taken_back_before_its_call_ran_is_in_the_audit(address):
    async with Runtime(Bank(), store=address) as runtime:
        calls = [await runtime.scope(user=user).call("transfer", {"amount": 1}) for user in ("ann", "bob", None)]
        await granted(runtime, "ann")
    async with Runtime(store=address) as without_the_tool:
        for call in calls:
            await without_the_tool.approve(pending_call_id(call), always=True, by="grace")
        assert await without_the_tool.scope(user="bob").revoke("transfer", by="bob")
        assert await without_the_tool.revoke("transfer", by="heidi")
        assert not await without_the_tool.revoke("transfer", by="ivan")
        entries = await told(without_the_tool)
        details = await read_rows(
            without_the_tool, "SELECT DISTINCT detail, tool, call_id FROM audit WHERE kind = 'revoked'"
        )
        [row] = await read_rows(without_the_tool, "SELECT DISTINCT definition FROM ledger")
        await without_the_tool.store.audit.seal()
        verified = await without_the_tool.store.audit.verify()

    assert entries[:2] == [("granted", "ann", "grace"), ("revoked", "bob", "bob")]
    assert sorted(entries[2:]) == [("revoked", "", "heidi"), ("revoked", "ann", "heidi"), ("revoked", "ann", "heidi")]
    assert details == [{"detail": f'{{"definition": "{row["definition"]}"}}', "tool": "transfer", "call_id": ""}]
    assert verified.problem is None


async def told(runtime: Runtime) -> list[tuple[str, str, str | None]]:
    """What the audit says of standing approvals: which, whose, by whom."""
    about = "SELECT kind, user_id, by_whom FROM audit WHERE kind IN ('granted', 'revoked') ORDER BY id"
    return [(row["kind"], row["user_id"] or "", row["by_whom"]) for row in await read_rows(runtime, about)]


async def test_giving_and_revoking_are_in_the_audit(address):
    async with Runtime(Bank(), store=address) as runtime:
        await granted(runtime, "ann", None)
        await runtime.revoke("transfer", by="heidi")
        rows = await read_rows(
            runtime, "SELECT kind, tool, user_id, by_whom FROM audit WHERE kind IN ('granted', 'revoked') ORDER BY id"
        )
        await runtime.store.audit.seal()
        verified = await runtime.store.audit.verify()

    assert sorted((row["kind"], row["user_id"] or "", row["by_whom"]) for row in rows) == [
        ("granted", "", "grace"),
        ("granted", "ann", "grace"),
        ("revoked", "", "heidi"),
        ("revoked", "ann", "heidi"),
    ]
    assert {row["tool"] for row in rows} == {"transfer"}
    assert verified.problem is None
