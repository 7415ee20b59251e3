"""A model as approver: it can remove questions, and nothing else."""

import pytest

from surehand import Agent, Approval, DefinitionError, Runtime
from surehand.agent.models.base import ModelError
from surehand.testing import ScriptedModel
from tests.agent.test_pending import Bank

APPROVE = '{"decision": "approve", "reason": "A small sum."}'


async def test_what_the_model_approves_runs_and_is_in_the_audit_with_its_reason(tmp_path):
    bank = Bank()
    approver = ScriptedModel(APPROVE, name="judge")
    agent = Agent("clerk", model=ScriptedModel([("pay", {"amount": 5})], "Paid."), approver=approver)
    async with Runtime(bank.tool, store=str(tmp_path / "agent.db")) as runtime:
        run = await agent.run("Pay", user="ada", runtime=runtime)
        [answer] = [row for row in await runtime.store.audit.list() if row.kind == "answer"]

    assert (run.status, bank.transfers) == ("done", [(5, "Ada")])
    assert (answer.by, answer.detail["answer"], answer.detail["reason"]) == ("model:judge", "approve", "A small sum.")
    [request] = approver.requests
    assert '"amount":5' in request.messages[-1]["content"]
    assert request.tools == []


@pytest.mark.parametrize(
    "reply",
    [
        '{"decision": "unsure", "reason": "A large sum."}',
        '{"decision": "deny", "reason": "No."}',
        '{"decision": "unsure", "decision": "approve"}',
        "approve",
        "[1]",
        [("pay", {"amount": 1})],
        ModelError("down"),
    ],
)
async def test_whatever_else_it_says_a_person_is_asked(store, reply):
    bank = Bank()
    agent = Agent("clerk", model=ScriptedModel([("pay", {"amount": 5})]), approver=ScriptedModel(reply))
    async with Runtime(bank.tool, store=store) as runtime:
        run = await agent.run("Pay", runtime=runtime)

    assert (run.status, [wait.tool for wait in run.waiting], bank.transfers) == ("waiting", ["pay"], [])


async def test_the_runtimes_own_approver_is_asked_if_the_model_is_unsure():
    bank = Bank()

    async def reject(pending):
        return Approval(False, reason="no money")

    model = ScriptedModel([("pay", {"amount": 5})], "Not paid.")
    agent = Agent("clerk", model=model, approver=ScriptedModel("unsure"))
    async with Runtime(bank.tool, approver=reject) as runtime:
        await agent.run("Pay", runtime=runtime)

    assert "no money" in model.requests[1].messages[-1]["content"]


async def test_it_never_approves_what_the_policy_denies(store):
    bank = Bank()
    model = ScriptedModel([("pay", {"amount": 5})], "Not paid.")
    agent = Agent("clerk", model=model, approver=ScriptedModel(APPROVE))
    async with Runtime(bank.tool, store=store, policy=[{"tools": "pay", "decision": "deny"}]) as runtime:
        await agent.run("Pay", runtime=runtime)

    assert bank.transfers == []


def test_an_approver_that_cannot_be_asked_is_refused():
    with pytest.raises(DefinitionError, match="cannot be asked"):
        Agent("clerk", model=ScriptedModel(), approver=42)


async def test_a_model_can_be_the_approver_of_a_runtime(tmp_path):
    bank = Bank()
    judge = ScriptedModel(APPROVE, '{"decision": "unsure", "reason": "A large sum."}', name="judge")
    async with Runtime(bank.tool, approver=judge, store=str(tmp_path / "agent.db")) as runtime:
        approved = await runtime.call("pay", {"amount": 5}, call_id="c1")
        unsure = await runtime.call("pay", {"amount": 5_000}, call_id="c2")
        [answer] = [row for row in await runtime.store.audit.list() if row.kind == "answer"]

    assert (approved.ok, unsure.waiting_for, bank.transfers) == (True, "approval", [(5, "Ada")])
    assert (answer.by, answer.detail["reason"]) == ("model:judge", "A small sum.")


def test_the_approver_of_a_runtime_may_be_named():
    assert isinstance(Runtime(approver="openai:gpt-5-mini"), Runtime)
    with pytest.raises(DefinitionError, match="cannot be asked"):
        Runtime(approver=7)
