"""Tools that a session's client brings exist in every process on the store."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from surehand import Done, Pending, Runtime, tool
from tests.durable.bank_tools import Bank, assert_failed, assert_pending, pending_call_id, read_rows, wait_until
from tests.durable.conftest import ON_BOTH_DATABASES


class Choice(BaseModel):
    """What to choose from."""

    of: int = 3


PICK = tool.client(
    "pick",
    "Let the person pick.",
    parameters=Choice,
    reply="later",
    confirm=True,
    aliases=("choose",),
    expires="1h",
    display={"customUI": "picker"},
    effects={"write"},
)


def names(scope: Any) -> list[str]:
    return [each["function"]["name"] for each in scope.describe("openai")]


@ON_BOTH_DATABASES
async def test_a_tool_that_a_session_offers_can_be_called_in_another_process(address: str) -> None:
    async with Runtime(store=address) as one, Runtime(store=address) as other:
        one.scope(user="ada", session="s1").offer(PICK)
        await wait_until(lambda: read_rows(one, "SELECT name FROM offered_tools"))
        scope = other.scope(user="ada", session="s1")
        called = await scope.call("choose", {"of": 2})
        stranger = await other.scope(user="bob", session="s1").call("pick")
        found = scope.find("pick")

        assert assert_pending(called, "approval").message == "Allow pick to execute?"
        assert_failed(stranger, "not_found")
        assert found is not None
        assert found.tool.definition_digest == PICK.definition_digest
        assert (found.tool.limits, found.tool.presentation) == (PICK.limits, PICK.presentation)
        assert_failed(await scope.call("pick", {"of": "many"}), "invalid_arguments")


@ON_BOTH_DATABASES
async def test_a_call_of_an_offered_tool_goes_on_where_its_client_never_was(address: str) -> None:
    async with Runtime(store=address) as one:
        scope = one.scope(user="ada", session="s1")
        scope.offer(PICK)
        call_id = pending_call_id(await scope.call("pick"))

    async with Runtime(store=address) as other:
        approved = await other.approve(call_id)
        settled = await other.settle(call_id, "two")

    assert assert_pending(approved, "result").request == {"customUI": "picker"}
    assert settled == Done("two")


async def test_other_processes_describe_what_a_session_offers(address: str) -> None:
    async with Runtime(store=address) as one, Runtime(store=address) as other:
        one.scope(user="ada", session="s1").offer(PICK)
        scope = other.scope(user="ada", session="s1")
        await wait_until(lambda: names(scope) == ["pick"])
        strangers = names(other.scope(user="bob", session="s1")) + names(other.scope(user="ada", session="s2"))
        changed = PICK.evolve(description="Let the person choose.")
        one.scope(user="ada", session="s1").offer(changed)
        await wait_until(lambda: "Let the person choose." in str(scope.describe("openai")))

        assert strangers == []


async def test_a_runtime_that_starts_later_knows_what_sessions_offer(address: str) -> None:
    async with Runtime(store=address) as one:
        one.scope(session="s1").offer(PICK)

    async with Runtime(store=address) as later:
        assert names(later.scope(session="s1")) == ["pick"]


async def test_an_offered_function_stays_in_its_process(address: str) -> None:
    @tool
    async def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    async with Runtime(store=address) as one, Runtime(store=address) as other:
        one.scope(session="s1").offer(add)

        assert await one.scope(session="s1").call("add", {"a": 1, "b": 2}) == Done(3)
        assert_failed(await other.scope(session="s1").call("add", {"a": 1, "b": 2}), "not_found")


async def test_a_tool_of_the_runtime_is_not_replaced_by_one_that_a_session_offers_elsewhere(address: str) -> None:
    bank = Bank()
    async with Runtime(store=address) as one, Runtime(bank, store=address) as other:
        one.scope(session="s1").offer(tool.client("pay", "Pay by hand.", parameters={"type": "object"}, reply="later"))
        await wait_until(lambda: read_rows(one, "SELECT name FROM offered_tools"))

        assert isinstance(await one.scope(session="s1").call("pay", {"amount": 5}), Pending)
        assert await other.scope(session="s1").call("pay", {"amount": 6}) == Done("sent 6 to ann")
        assert bank.ran == [(6, "ann")]
