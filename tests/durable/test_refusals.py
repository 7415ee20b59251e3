"""Denials, refusals and conflicts are rows of the audit, and say who did what; unknown tools are in the journal."""

from __future__ import annotations

from typing import Any

import pytest

from surehand import Approval, Policy, Runtime, tool
from surehand.store.tables.audit import AuditRow

pytestmark = pytest.mark.timeout(30)
DENY = Policy([{"tools": "pay", "decision": "deny"}])


@tool(effects={"write"})
async def pay(amount: int, note: str = "") -> str:
    """Pay."""
    return f"Paid {amount}."


@tool(confirm=True)
async def ask(amount: int) -> str:
    """Ask first."""
    return f"Paid {amount}."


def summary(row: AuditRow) -> tuple[Any, ...]:
    return row.kind, row.call_id, row.tool, row.user, row.session, row.detail["code"]


async def test_a_denied_call_is_an_audit_row_that_says_who_tried_what(any_address):
    async with Runtime(pay, policy=DENY, store=any_address) as runtime:
        scope = runtime.scope(user="ada", session="s1")
        outcome = await scope.call("pay", {"amount": 5, "note": "sesame"}, call_id="c1")
        rows = await runtime.store.audit.list()
        again = await scope.call("pay", {"amount": 5, "note": "sesame"})
        digests = {row.detail["arguments"] for row in await runtime.store.audit.list(tool="pay")}

    assert (outcome.code, again.code) == ("denied", "denied")
    assert [summary(row) for row in rows] == [("denied", "c1", "pay", "ada", "s1", "denied")]
    assert len(digests) == 1
    assert len(digests.pop()) == 64
    assert "sesame" not in repr(rows)


async def test_a_conflict_is_an_audit_row_of_the_one_who_caused_it(any_address):
    async with Runtime(pay, store=any_address) as runtime:
        await runtime.scope(user="ada").call("pay", {"amount": 5}, call_id="c1")
        outcome = await runtime.scope(user="bob", session="s2").call("pay", {"amount": 5}, call_id="c1")
        [row] = await runtime.store.audit.list(user="bob")

    assert outcome.code == "conflict"
    assert summary(row) == ("conflict", "c1", "pay", "bob", "s2", "conflict")


async def test_a_call_over_the_limit_of_its_turn_is_refused_in_the_audit(any_address):
    async with Runtime(pay, store=any_address) as runtime:
        scope = runtime.scope(user="ada", max_calls=1)
        await scope.call("pay", {"amount": 1})
        outcome = await scope.call("pay", {"amount": 2})
        newest = (await runtime.store.audit.list())[0]

    assert outcome.code == "limit_exceeded"
    assert (newest.kind, newest.tool, newest.detail["code"]) == ("refused", "pay", "limit_exceeded")


async def test_what_an_approver_decides_is_in_the_audit_with_its_name(any_address):
    async def approver(call):
        return Approval(allow=call.arguments["amount"] < 10, by="Grace")

    async with Runtime(ask, approver=approver, store=any_address) as runtime:
        outcomes = [await runtime.scope(user="ada").call("ask", {"amount": amount}) for amount in (1, 100)]
        rows = await runtime.store.audit.list(tool="ask")

    assert [outcome.ok for outcome in outcomes] == [True, False]
    answers = [(row.by, row.user, row.detail["answer"]) for row in rows if row.kind == "answer"]
    assert answers == [("Grace", "ada", "reject"), ("Grace", "ada", "approve")]
    assert [(row.by, row.detail["code"]) for row in rows if row.kind == "refused"] == [("Grace", "rejected")]


async def test_a_refused_answer_says_who_gave_it(any_address):
    async with Runtime(ask, store=any_address) as runtime:
        pending = await runtime.scope(user="ada", session="s1").call("ask", {"amount": 1})
        await runtime.reject(pending.call_id, by="Grace")
        late = await runtime.scope(user="ada", session="s1").approve(pending.call_id, by="Mallory")
        rows = await runtime.store.audit.list(call=pending.call_id, session="s1")

    assert late.code == "conflict"
    told = [(row.kind, row.by) for row in reversed(rows)]
    assert told == [("wait", None), ("answer", "Grace"), ("outcome", None), ("refused", "Mallory")]


@pytest.mark.parametrize("name", ["pya", "x" * 5_000, "a\0b", "\ud800", "Ünï__code"])
async def test_a_call_to_an_unknown_tool_is_in_the_journal_under_its_name(any_address, name):
    async with Runtime(pay, store=any_address) as runtime:
        outcome = await runtime.scope(user="ada", session="s1", turn="t1").call(name, {"amount": 5})
        [entry] = await runtime.store.journal.list()

    assert outcome.code == "not_found"
    assert (entry.kind, entry.status, entry.user, entry.session) == ("ended", "not_found", "ada", "s1")
    assert entry.tool == name[:200] or entry.tool == ascii(name)
    assert len(entry.tool) <= 200


async def test_denied_and_refused_calls_are_in_the_journal_too(any_address):
    async with Runtime(pay, policy=DENY, store=any_address) as runtime:
        await runtime.call("pay", {"amount": 5})
        await runtime.call("pay", {"amount": "many"})
        entries = await runtime.store.journal.list(tool="pay")

    assert [entry.status for entry in entries] == ["invalid_arguments", "denied"]


async def test_the_seals_cover_refusals(any_address):
    async with Runtime(pay, policy=DENY, store=any_address) as runtime:
        await runtime.scope(session="s1").call("pay", {"amount": 5})
        await runtime.store.audit.list()
        await runtime.store.audit.seal()
        found = await runtime.store.audit.verify()

    assert (found.rows, found.unsealed, found.problem) == (1, 0, None)


async def test_an_approval_with_invalid_arguments_is_an_audit_row_and_the_call_waits(any_address):
    async with Runtime(ask, store=any_address) as runtime:
        await runtime.scope(user="ada").call("ask", {"amount": 5}, call_id="c1")
        outcome = await runtime.approve("c1", arguments={"amount": "much"}, by="grace")
        rows = [row for row in await runtime.store.audit.list() if row.kind == "refused"]
        waiting = await runtime.pending()

    assert outcome.code == "invalid_arguments"
    assert [(row.call_id, row.tool, row.by) for row in rows] == [("c1", "ask", "grace")]
    assert rows[0].detail == {"answer": "approve", "code": "invalid_arguments"}
    assert [each.call_id for each in waiting] == ["c1"]
