"""Scripted approvals."""

import pytest

from surehand import Approval, Done, tool
from surehand.testing import Unscripted, approvals, runtime


@tool(confirm=True, confirm_message=lambda args, ctx: f"Pay {args['amount']}?")
async def pay(amount: int) -> str:
    """Pay an amount."""
    return f"paid {amount}"


@tool(confirm=True)
async def wipe() -> str:
    """Wipe the disk."""
    return "wiped"


async def test_decisions_are_used_in_order_and_questions_are_recorded() -> None:
    approver = approvals(True, False, None)
    async with runtime(pay, approver=approver) as rt:
        outcomes = [await rt.call("pay", {"amount": amount}) for amount in (1, 2, 3)]

    assert outcomes[0] == Done("paid 1")
    assert outcomes[1].code == "rejected"
    assert outcomes[2].waiting_for == "approval"
    assert [wait.message for wait in approver.asked] == ["Pay 1?", "Pay 2?", "Pay 3?"]
    assert [wait.arguments for wait in approver.asked] == [{"amount": 1}, {"amount": 2}, {"amount": 3}]


async def test_decisions_by_tool_apply_to_all_calls_or_in_order() -> None:
    approver = approvals({"pay": [True, False], "w*": Approval(False, reason="no disk is worth that")})
    async with runtime(pay, wipe, approver=approver) as rt:
        assert (await rt.call("pay", {"amount": 1})).ok
        assert "no disk is worth that" in (await rt.call("wipe")).text
        assert (await rt.call("pay", {"amount": 2})).code == "rejected"
        assert (await rt.call("wipe")).code == "rejected"

    assert [wait.tool for wait in approver.asked] == ["pay", "wipe", "pay", "wipe"]


async def test_an_approval_may_edit_the_arguments() -> None:
    async with runtime(pay, approver=approvals(Approval(arguments={"amount": 5}))) as rt:
        assert (await rt.call("pay", {"amount": 500})).unwrap() == "paid 5"


@pytest.mark.parametrize("script", [(True,), ({"pay": [True]},)])
async def test_an_unscripted_question_fails_the_call_and_the_test(script) -> None:
    approver = approvals(*script)
    async with runtime(pay, approver=approver) as rt:
        await rt.call("pay", {"amount": 1})
        with pytest.raises(Unscripted, match=r'for pay\(\{"amount":2\}\), question 2'), approver:
            outcome = await rt.call("pay", {"amount": 2})

    assert outcome.code == "failed"
    assert "No approval is scripted" in outcome.text


async def test_a_tool_that_no_glob_matches_is_not_scripted() -> None:
    approver = approvals({"wipe": True})
    async with runtime(pay, approver=approver) as rt:
        assert (await rt.call("pay", {"amount": 1})).code == "failed"

    assert len(approver.missing) == 1


async def test_another_failure_of_the_test_gets_a_note_about_missing_scripts() -> None:
    approver = approvals()
    async with runtime(pay, approver=approver) as rt:
        with pytest.raises(AssertionError) as failure, approver:
            assert (await rt.call("pay", {"amount": 1})).ok

    assert failure.value.__notes__ == approver.missing


def test_an_invalid_decision_is_rejected_at_once() -> None:
    with pytest.raises(TypeError, match="got 3"):
        approvals(3)
