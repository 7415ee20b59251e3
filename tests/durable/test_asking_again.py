"""An approval is bound to what decides what will run; where it no longer holds, the wait asks again and says why."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from surehand import Approval, Done, InvalidArguments, Policy, Provider, Runtime, Tool, tool
from surehand.store.tables.pending import compute_answer_binding
from tests.durable.bank_tools import (
    assert_done,
    assert_failed,
    assert_pending,
    execute,
    ledger_state,
    pending_call_id,
    read_rows,
    wait_until,
)
from tests.durable.conftest import ON_BOTH_DATABASES

pytestmark = pytest.mark.timeout(30)  # the first test on PostgreSQL starts the server
RAN: list[Any] = []


@pytest.fixture(autouse=True)
def nothing_ran() -> None:
    RAN.clear()


def transfer(
    description: str = "Transfer money.", effects: Any = ("write",), maximum: int = 100, **options: Any
) -> Tool[..., Any]:
    """The tool as it was asked about, or with one thing changed."""
    schema = {"type": "object", "properties": {"amount": {"type": "integer", "maximum": maximum}}}

    async def transfer(amount: int = 0) -> str:
        RAN.append(amount)
        return f"sent {amount}"

    options = {"confirm": True, **options}
    return tool(name="transfer", description=description, parameters=schema, effects=set(effects), **options)(transfer)


async def ask(address: str, *sources: Any, **arguments: Any) -> str:
    """The id of a call of `transfer` that waits for an approval in the store."""
    async with Runtime(*sources, store=address) as runtime:
        return pending_call_id(await runtime.call("transfer", {"amount": 5, **arguments}))


async def approve_elsewhere(address: str, call_id: str, **options: Any) -> None:
    """Approve a call in a process that does not have the tool."""
    async with Runtime(store=address) as without_the_tool:
        assert_pending(await without_the_tool.approve(call_id, by="grace", **options), "result")


async def audit_of(runtime: Runtime, call_id: str) -> list[tuple[str, str | None, str]]:
    """The audit of a call: kind, by whom, and what the row says."""
    sql = "SELECT kind, by_whom, detail FROM audit WHERE call_id = :call_id ORDER BY id"
    rows = await read_rows(runtime, sql, call_id=call_id)
    details = [json.loads(row["detail"]) for row in rows]
    said = [each.get("answer") or each.get("waiting_for") or each.get("code") or "" for each in details]
    return [(row["kind"], row["by_whom"], text) for row, text in zip(rows, said, strict=True)]


CHANGES = [
    ({"maximum": 10}, "its parameters are different"),
    ({"effects": ("write", "network")}, "its effects are network, write instead of write"),
    ({"maximum": 10, "effects": ("read",)}, "its parameters are different and its effects are read instead of write"),
]


@pytest.mark.parametrize(("changed", "why"), CHANGES)
async def test_a_tool_that_changed_before_the_answer_is_asked_about_again(
    address: str, changed: dict[str, Any], why: str
) -> None:
    call_id = await ask(address, transfer())

    async with Runtime(transfer(**changed), store=address) as runtime:
        again = assert_pending(await runtime.approve(call_id, by="grace"), "approval")
        [waiting] = await runtime.pending()
        ran_after_first_yes = list(RAN)
        outcome = await runtime.approve(call_id, by="hopper")
        audit = await audit_of(runtime, call_id)

    assert (again.call_id, waiting.call_id, waiting.round) == (call_id, call_id, 2)
    assert again.message == f"transfer has changed since it was asked about: {why}. Allow transfer to execute?"
    assert waiting.message == again.message
    assert waiting.request["schema"] == transfer(**changed).schema
    assert ran_after_first_yes == []
    assert (outcome, RAN) == (Done("sent 5"), [5])
    assert [row[:3] for row in audit if row[0] != "intent"] == [
        ("wait", None, "approval"),
        ("answer", "grace", "approve"),
        ("wait", None, "approval"),
        ("answer", "hopper", "approve"),
        ("outcome", None, "ok"),
    ]


@pytest.mark.parametrize(("changed", "why"), CHANGES)
async def test_a_tool_that_changed_between_approval_and_resumption_is_asked_about_again(
    address: str, changed: dict[str, Any], why: str
) -> None:
    call_id = await ask(address, transfer())
    await approve_elsewhere(address, call_id)

    async with Runtime(transfer(**changed), store=address) as runtime:
        [waiting] = await wait_until(lambda: _open_questions(runtime))
        assert await ledger_state(runtime, call_id) == "waiting"
        outcome = await runtime.approve(call_id, by="hopper")

    assert (waiting.call_id, waiting.round) == (call_id, 2)
    assert why in waiting.message
    assert (outcome, RAN) == (Done("sent 5"), [5])


async def _open_questions(runtime: Runtime) -> list[Any]:
    return [each for each in await runtime.pending() if each.waiting_for == "approval"]


async def test_the_audit_says_why_the_wait_asks_again(address: str) -> None:
    call_id = await ask(address, transfer())

    async with Runtime(transfer(maximum=10), store=address) as runtime:
        await runtime.approve(call_id)
        rows = await read_rows(runtime, "SELECT detail FROM audit WHERE kind = 'wait' ORDER BY id")

    assert [json.loads(row["detail"]) for row in rows] == [
        {"waiting_for": "approval"},
        {
            "waiting_for": "approval",
            "asks_again_because": "transfer has changed since it was asked about: its parameters are different.",
        },
    ]


def documented(docstring: str) -> Tool[..., Any]:
    async def transfer(amount: int, to: str = "ann") -> str:
        RAN.append(amount)
        return f"sent {amount}"

    transfer.__doc__ = docstring
    return tool(effects={"write"}, confirm=True)(transfer)


FIRST_DOCSTRING = "Transfer money.\n\nArgs:\n    amount: how much."
SECOND_DOCSTRING = "Transfer an amount of money.\n\nArgs:\n    amount: how much, in euros.\n    to: to whom."


@pytest.mark.parametrize("approved_elsewhere", [False, True])
async def test_a_changed_docstring_of_our_own_function_leaves_the_approval_valid(
    address: str, approved_elsewhere: bool
) -> None:
    first = documented(FIRST_DOCSTRING)
    second = documented(SECOND_DOCSTRING)
    assert first.schema != second.schema
    call_id = await ask(address, first)
    if approved_elsewhere:
        await approve_elsewhere(address, call_id)

    async with Runtime(second, store=address) as runtime:
        if not approved_elsewhere:
            assert_done(await runtime.approve(call_id, by="grace"))
        await wait_until(lambda: _has_ended(runtime, call_id))
        audit = await audit_of(runtime, call_id)

    assert RAN == [5]
    assert ("answer", "grace", "approve") in audit
    assert not any(said == "reject" for _, _, said in audit)


async def _has_ended(runtime: Runtime, call_id: str) -> bool:
    return await ledger_state(runtime, call_id) == "ended"


class RemoteBank(Provider):
    """A provider of another program."""

    kind = "mcp"
    namespace = "bank"

    def __init__(self, description: str, amount_description: str = "How much.") -> None:
        self._description = description
        self._schema = {"type": "object", "properties": {"amount": {"description": amount_description}}}

    async def tools(self) -> list[Tool[..., Any]]:
        return [tool.provided("send", self._description, parameters=self._schema, effects={"write"})]

    async def invoke(self, call: Any, context: Any) -> str:
        RAN.append(call.arguments)
        return "sent"


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        (RemoteBank("Send money, and a fee."), "its description is different"),
        (RemoteBank("Send money.", "How much, and a fee."), "its parameters are different"),
    ],
)
async def test_a_description_counts_for_tools_of_remote_providers(address: str, changed: RemoteBank, why: str) -> None:
    policy = Policy.default()
    async with Runtime(RemoteBank("Send money."), store=address, policy=policy) as runtime:
        call_id = pending_call_id(await runtime.call("bank__send"))

    async with Runtime(changed, store=address, policy=policy) as runtime:
        again = assert_pending(await runtime.approve(call_id), "approval")

    assert why in again.message
    assert RAN == []


async def test_a_tool_that_changes_back_holds_to_the_last_question(address: str) -> None:
    call_id = await ask(address, transfer())
    async with Runtime(transfer(maximum=10), store=address) as runtime:
        assert_pending(await runtime.approve(call_id), "approval")

    async with Runtime(transfer(), store=address) as runtime:
        third = assert_pending(await runtime.approve(call_id), "approval")
        [waiting] = await runtime.pending()
        assert_done(await runtime.approve(call_id))

    assert "its parameters are different" in third.message
    assert (waiting.round, RAN) == (3, [5])


async def test_the_second_question_can_be_rejected_and_its_call_ends_once(address: str) -> None:
    call_id = await ask(address, transfer())

    async with Runtime(transfer(maximum=10), store=address) as runtime:
        await runtime.approve(call_id)
        rejected = assert_failed(await runtime.reject(call_id, "not any more", by="hopper"), "rejected")
        audit = await audit_of(runtime, call_id)

    assert "not any more" in rejected.message
    assert [row for row in audit if row[0] in ("answer", "outcome")] == [
        ("answer", None, "approve"),
        ("answer", "hopper", "reject"),
        ("outcome", None, "rejected"),
    ]
    assert RAN == []


async def test_the_arguments_that_a_person_edited_are_asked_about_again(address: str) -> None:
    call_id = await ask(address, transfer())

    async with Runtime(transfer(maximum=10), store=address) as runtime:
        assert_pending(await runtime.approve(call_id, arguments={"amount": 7}), "approval")
        [waiting] = await runtime.pending()
        assert_done(await runtime.approve(call_id))

    assert waiting.arguments == {"amount": 7}
    assert RAN == [7]


async def test_arguments_that_the_changed_tool_does_not_take_end_the_call_with_the_reason(address: str) -> None:
    call_id = await ask(address, transfer(), amount=50)

    async with Runtime(transfer(maximum=10), store=address) as runtime:
        outcome = assert_failed(await runtime.approve(call_id, by="grace"), "conflict")
        audit = await audit_of(runtime, call_id)
        again = await runtime.approve(call_id, by="grace")

    assert "its parameters are different" in outcome.message
    assert not outcome.executed
    assert again == outcome
    assert audit[-2:] == [("answer", "grace", "approve"), ("outcome", None, "conflict")]
    assert RAN == []


async def test_a_preview_that_refuses_the_second_question_ends_the_call(address: str) -> None:
    def preview(args: dict[str, Any]) -> None:
        raise InvalidArguments("The account was closed.")

    call_id = await ask(address, transfer())
    async with Runtime(transfer(maximum=10, preview=preview), store=address) as runtime:
        outcome = assert_failed(await runtime.approve(call_id), "invalid_arguments")
        assert await runtime.pending() == []

    assert outcome.message == "The account was closed."


async def test_a_deny_rule_for_the_changed_tool_ends_the_call(address: str) -> None:
    call_id = await ask(address, transfer())

    denied = Policy([{"effects": ["network"], "decision": "deny"}])
    async with Runtime(transfer(effects=("write", "network")), store=address, policy=denied) as runtime:
        assert_failed(await runtime.approve(call_id), "denied")
        assert await runtime.pending() == []


async def test_a_changed_tool_that_would_not_be_asked_about_is_asked_about_too(address: str) -> None:
    call_id = await ask(address, transfer())

    async with Runtime(transfer(maximum=10, confirm=False), store=address) as runtime:
        assert_pending(await runtime.approve(call_id), "approval")

    assert RAN == []


@ON_BOTH_DATABASES
async def test_of_two_simultaneous_yeses_none_counts_for_the_second_question(address: str) -> None:
    call_id = await ask(address, transfer())
    changed = transfer(maximum=10)

    async with Runtime(changed, store=address) as one, Runtime(changed, store=address) as other:
        # Without `round`, an answer counts for the question that is open when it arrives: here that may be the second.
        answers = [runtime.approve(call_id, round=1) for runtime in (one, other) for _ in range(3)]
        outcomes = await asyncio.gather(*answers)
        [waiting] = await wait_until(lambda: _open_questions(one))

    assert waiting.round == 2
    assert not any(isinstance(outcome, Done) for outcome in outcomes)
    assert RAN == []


# Standing approvals


async def test_a_standing_approval_is_bound_in_the_same_way(address: str) -> None:
    async with Runtime(documented(FIRST_DOCSTRING), store=address) as runtime:
        asked = await runtime.call("transfer", {"amount": 1})
        assert_done(await runtime.approve(pending_call_id(asked), always=True))

    async with Runtime(documented(SECOND_DOCSTRING), store=address) as runtime:
        assert_done(await runtime.call("transfer", {"amount": 2}))
    for changed in (transfer(maximum=10), transfer(effects=("write", "network"))):
        async with Runtime(changed, store=address) as runtime:
            assert_pending(await runtime.call("transfer", {"amount": 3}), "approval")


async def test_an_always_that_is_asked_again_is_no_standing_approval(address: str) -> None:
    call_id = await ask(address, transfer())

    async with Runtime(transfer(maximum=10), store=address) as runtime:
        assert_pending(await runtime.approve(call_id, always=True), "approval")
        assert await runtime.grants() == []
        assert_pending(await runtime.call("transfer", {"amount": 6}), "approval")
        assert_done(await runtime.approve(call_id))
        assert await runtime.grants() == []


# Stores of earlier versions, and rows that were altered


async def test_an_approval_in_a_store_of_an_earlier_version_still_holds(address: str) -> None:
    made = transfer()
    call_id = await ask(address, made)
    async with Runtime(store=address) as runtime:
        assert runtime.store is not None
        row = await runtime.store.pending.find(call_id)
        assert row is not None
        earlier = row.call._replace(definition=made.earlier_approval_binding)
        await execute(runtime, "UPDATE ledger SET definition = :value", value=earlier.definition)
        await execute(runtime, "UPDATE pending SET binding = :value", value=compute_answer_binding(earlier))
        assert_pending(await runtime.approve(call_id), "result")

    async with Runtime(transfer(), store=address) as runtime:
        await wait_until(lambda: _has_ended(runtime, call_id))
    assert RAN == [5]


async def test_a_standing_approval_of_an_earlier_version_still_holds(address: str) -> None:
    made = transfer()
    async with Runtime(made, store=address) as runtime:
        assert runtime.store is not None
        await runtime.store.grants.give(None, f"transfer {made.earlier_approval_binding}")
        assert_done(await runtime.call("transfer", {"amount": 1}))


async def test_the_audit_of_an_altered_call_says_what_the_person_answered(address: str) -> None:
    call_id = await ask(address, transfer())

    async with Runtime(transfer(), store=address) as runtime:
        await execute(runtime, "UPDATE ledger SET arguments = :value", value='{"amount": 6}')
        assert_failed(await runtime.approve(call_id, by="grace"), "conflict")
        audit = await audit_of(runtime, call_id)

    assert audit[-2:] == [("answer", "grace", "approve"), ("outcome", None, "conflict")]
    assert RAN == []


async def test_a_tool_that_changes_while_the_approver_decides_does_not_run() -> None:
    async def approver(pending_call: Any) -> bool:
        runtime.catalogue.add(transfer(maximum=10), on_conflict="replace")
        return True

    async with Runtime(transfer(), approver=approver) as runtime:
        outcome = assert_failed(await runtime.call("transfer", {"amount": 5}), "conflict")
        again = await runtime.call("transfer", {"amount": 5})

    assert "its parameters are different" in outcome.message
    assert (again, RAN) == (Done("sent 5"), [5])


async def test_the_approver_of_the_runtime_answers_the_second_question_and_its_edits_count(address: str) -> None:
    call_id = await ask(address, transfer())
    questions: list[str] = []

    async def approver(pending_call: Any) -> Approval:
        questions.append(pending_call.message)
        return Approval(arguments={"amount": 3})

    async with Runtime(transfer(maximum=10), store=address, approver=approver) as runtime:
        outcome = await runtime.approve(call_id)

    assert (outcome, RAN) == (Done("sent 3"), [3])
    assert "its parameters are different" in questions[0]
