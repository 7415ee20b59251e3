"""The stage `approve`: an approval is for one call, with the arguments that were shown, and is used once."""

import asyncio
import json
from collections.abc import Callable
from dataclasses import fields
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from surehand import Approval, Call, Context, Done, Failed, Outcome, Pending, Provider, Queue, Runtime, Tool, tool
from surehand.testing import ManualClock

pytestmark = pytest.mark.timeout(30)  # some of these have much to do, and a busy machine takes its time


class Bank:
    """A tool that asks before it runs, and what it did."""

    def __init__(self) -> None:
        self.transfers: list[tuple[int, str]] = []
        self.started, self.gate = asyncio.Event(), asyncio.Event()
        self.gate.set()

    @tool(effects={"write"}, confirm=True)
    async def transfer(self, amount: int, to: str = "ann") -> str:
        """Transfer money."""
        self.transfers.append((amount, to))
        self.started.set()
        await self.gate.wait()
        return f"sent {amount} to {to}"


def pending(outcome: Outcome) -> Pending:
    assert isinstance(outcome, Pending), outcome
    return outcome


def failed(outcome: Outcome, code: str) -> Failed:
    assert isinstance(outcome, Failed), outcome
    assert outcome.code == code, outcome
    return outcome


def id_of(outcome: Outcome) -> str:
    found = pending(outcome).call_id
    assert found
    return found


def asking(confirm: Any = True, **options: Any) -> Tool[..., Any]:
    """A tool with the given confirmation."""

    @tool(confirm=confirm, **options)
    async def transfer(amount: int = 0) -> int:
        """Transfer money."""
        return amount

    return transfer


# Asking


async def test_a_tool_with_confirm_is_pending_until_it_is_approved() -> None:
    bank = Bank()
    async with Runtime(bank) as runtime:
        asked = pending(await runtime.call("transfer", {"amount": 5}))
        ran_before = list(bank.transfers)
        outcome = await runtime.approve(id_of(asked))

    assert asked.waiting_for == "approval"
    assert ran_before == []
    assert outcome == Done("sent 5 to ann")
    assert bank.transfers == [(5, "ann")]


async def is_large(args: dict[str, Any], ctx: Context) -> bool:
    await asyncio.sleep(0)
    return args["amount"] >= 100


@pytest.mark.parametrize("confirm", [is_large, lambda args, ctx: args["amount"] >= 100], ids=["async", "sync"])
async def test_a_function_decides_by_the_arguments_whether_to_ask(confirm: Any) -> None:
    async with Runtime(asking(confirm)) as runtime:
        small = await runtime.call("transfer", {"amount": 99})
        large = await runtime.call("transfer", {"amount": 100})

    assert small.ok
    assert pending(large).waiting_for == "approval"


async def test_the_functions_see_checked_arguments_and_the_context() -> None:
    seen: list[Any] = []

    def confirm(args: dict[str, Any], ctx: Context) -> bool:
        seen.append((args["amount"], ctx.user, ctx.session))
        return True

    async with Runtime(asking(confirm)) as runtime:
        await runtime.scope(user="ann", session="s1").call("transfer", '{"amount": "7"}')

    assert seen == [(7, "ann", "s1")]


async def test_a_function_cannot_change_the_arguments_it_is_shown() -> None:
    def confirm(args: dict[str, Any], ctx: Context) -> bool:
        args["amount"] = 1_000_000
        return False

    async with Runtime(asking(confirm)) as runtime:
        assert (await runtime.call("transfer", {"amount": 1})).unwrap() == 1


async def test_a_confirmation_that_fails_asks_a_person() -> None:
    async with Runtime(asking(lambda args, ctx: 1 / 0)) as runtime:
        asked = await runtime.call("transfer", {"amount": 5})

        assert pending(asked).waiting_for == "approval"
        assert (await runtime.approve(id_of(asked))).unwrap() == 5


async def message(args: dict[str, Any], ctx: Context) -> str:
    return f"Send {args['amount']}?"


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        (None, "Allow transfer to execute?"),
        ("Really?", "Really?"),
        (lambda args, ctx: f"Send {args['amount']}?", "Send 7?"),
        (message, "Send 7?"),
        (lambda args, ctx: 1 / 0, "Allow transfer to execute?"),
    ],
    ids=["default", "text", "function", "async function", "failing function"],
)
async def test_the_question_is_the_message_of_the_tool(given: Any, shown: str) -> None:
    options = {} if given is None else {"confirm_message": given}

    async with Runtime(asking(**options)) as runtime:
        asked = pending(await runtime.call("transfer", {"amount": 7}))
        (wait,) = await runtime.pending()

    assert asked.message == wait.message == shown


async def preview(args: dict[str, Any], ctx: Context) -> dict[str, Any]:
    return {"type": "diff", "patch": f"+{args['amount']}"}


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ({"type": "text"}, {"type": "text"}),
        (lambda args, ctx: {"type": "diff", "patch": f"+{args['amount']}"}, {"type": "diff", "patch": "+7"}),
        (preview, {"type": "diff", "patch": "+7"}),
        (lambda args, ctx: 1 / 0, None),
    ],
    ids=["value", "function", "async function", "failing function"],
)
async def test_a_preview_is_part_of_the_question_and_never_blocks_it(given: Any, shown: Any) -> None:
    async with Runtime(asking(preview=given)) as runtime:
        asked = pending(await runtime.call("transfer", {"amount": 7}))
        outcome = await runtime.approve(id_of(asked))

    assert asked.request["preview"] == shown
    assert asked.request["schema"]["properties"].keys() == {"amount"}
    assert outcome.unwrap() == 7


async def test_a_person_is_shown_the_waiting_call() -> None:
    clock = ManualClock(start=1000.0)
    async with Runtime(asking(), clock=clock, defaults={"pending_ttl": 60.0}) as runtime:
        asked = await runtime.scope(user="ann", session="s1").call("transfer", {"amount": 7})
        (wait,) = await runtime.pending()

    assert (wait.call_id, wait.tool, wait.waiting_for) == (id_of(asked), "transfer", "approval")
    assert wait.arguments == {"amount": 7}
    assert (wait.user, wait.session) == ("ann", "s1")
    assert (wait.created_at, wait.expires_at) == (1000.0, 1060.0)


async def test_a_model_is_shown_that_the_call_is_pending_and_under_which_id() -> None:
    async with Runtime(asking()) as runtime:
        asked = await runtime.call("transfer", call_id="c1")

    told = json.loads(asked.text)
    assert (told["status"], told["pendingToolCallId"], told["waiting_for"]) == ("pending", "c1", "approval")
    assert told["message"] == "Allow transfer to execute?"
    assert "do not repeat" in told["next"]


# Approving


async def test_the_call_runs_from_the_stored_arguments() -> None:
    arguments: dict[str, Any] = {"lines": [{"text": "kept"}]}

    @tool(confirm=True)
    async def write(lines: list[dict[str, str]]) -> list[dict[str, str]]:
        """Write lines."""
        return lines

    async with Runtime(write) as runtime:
        asked = await runtime.call("write", arguments)
        arguments["lines"][0]["text"] = "changed"
        arguments["lines"].append({"text": "more"})
        outcome = await runtime.approve(id_of(asked))

    assert outcome.unwrap() == [{"text": "kept"}]


def changed(arguments: Any) -> None:
    arguments["lines"].append("more")


async def test_changing_the_shown_arguments_does_not_change_the_call() -> None:
    @tool(confirm=True)
    async def write(lines: list[str]) -> list[str]:
        """Write lines."""
        return lines

    async with Runtime(write) as runtime:
        runtime.listen(lambda event: changed(event.arguments) if type(event).__name__ == "CallPending" else None)
        asked = await runtime.call("write", {"lines": ["kept"]})
        for wait in await runtime.pending():
            changed(wait.arguments)
        outcome = await runtime.approve(id_of(asked))

    assert outcome.unwrap() == ["kept"]


async def test_arguments_given_as_json_text_are_stored_as_they_were_meant() -> None:
    bank = Bank()
    async with Runtime(bank) as runtime:
        asked = await runtime.call("transfer", "{'amount': 5, 'to': 'bob',}")
        (wait,) = await runtime.pending()
        outcome = await runtime.approve(id_of(asked))

    assert wait.arguments == {"amount": 5, "to": "bob"}
    assert outcome.unwrap() == "sent 5 to bob"


async def test_approving_again_gives_the_same_outcome_and_runs_nothing() -> None:
    bank = Bank()
    async with Runtime(bank) as runtime:
        asked = id_of(await runtime.call("transfer", {"amount": 5}))
        first = await runtime.approve(asked)
        second = await runtime.approve(asked, by="somebody else")

    assert first == second == Done("sent 5 to ann")
    assert bank.transfers == [(5, "ann")]


async def test_a_hundred_approvals_at_once_are_one_run() -> None:
    bank = Bank()
    async with Runtime(bank) as runtime:
        asked = id_of(await runtime.call("transfer", {"amount": 5}))
        bank.gate.clear()
        approvals = [asyncio.create_task(runtime.approve(asked)) for _ in range(100)]
        await bank.started.wait()
        bank.gate.set()
        outcomes = await asyncio.gather(*approvals)

    assert outcomes == [Done("sent 5 to ann")] * 100
    assert bank.transfers == [(5, "ann")]


async def test_an_approval_is_for_one_call_and_the_next_one_asks_again() -> None:
    bank = Bank()
    async with Runtime(bank) as runtime:
        await runtime.approve(id_of(await runtime.call("transfer", {"amount": 5})))
        again = await runtime.call("transfer", {"amount": 5})

    assert pending(again).waiting_for == "approval"
    assert bank.transfers == [(5, "ann")]


async def test_cancelling_the_task_that_approves_does_not_cancel_the_call() -> None:
    bank = Bank()
    async with Runtime(bank) as runtime:
        asked = id_of(await runtime.call("transfer", {"amount": 5}))
        bank.gate.clear()
        leaver, stayer = (asyncio.create_task(runtime.approve(asked)) for _ in range(2))
        await bank.started.wait()
        leaver.cancel()
        await asyncio.wait({leaver})
        bank.gate.set()

        assert await stayer == Done("sent 5 to ann")
        assert await runtime.approve(asked) == Done("sent 5 to ann")
    assert bank.transfers == [(5, "ann")]


async def test_an_approved_call_can_be_cancelled_by_its_id_while_it_runs() -> None:
    bank = Bank()
    async with Runtime(bank) as runtime:
        asked = id_of(await runtime.call("transfer", {"amount": 5}))
        bank.gate.clear()
        approving = asyncio.create_task(runtime.approve(asked))
        await bank.started.wait()

        assert await runtime.cancel(asked)
        assert failed(await approving, "cancelled").executed
        assert failed(await runtime.approve(asked), "cancelled").executed


async def test_a_runtime_that_closes_answers_the_approver_of_a_running_call() -> None:
    bank = Bank()
    async with Runtime(bank) as runtime:
        asked = id_of(await runtime.call("transfer", {"amount": 5}))
        bank.gate.clear()
        approving = asyncio.create_task(runtime.approve(asked))
        await bank.started.wait()

    failed(await approving, "cancelled")


async def test_yes_after_no_is_a_conflict() -> None:
    bank = Bank()
    async with Runtime(bank) as runtime:
        asked = id_of(await runtime.call("transfer", {"amount": 5}))
        await runtime.reject(asked)

        failed(await runtime.approve(asked), "conflict")
    assert bank.transfers == []


async def test_no_after_yes_is_a_conflict() -> None:
    bank = Bank()
    async with Runtime(bank) as runtime:
        asked = id_of(await runtime.call("transfer", {"amount": 5}))
        await runtime.approve(asked)

        failed(await runtime.reject(asked), "conflict")
        assert await runtime.approve(asked) == Done("sent 5 to ann")


async def test_no_while_the_approved_call_runs_is_a_conflict() -> None:
    bank = Bank()
    async with Runtime(bank) as runtime:
        asked = id_of(await runtime.call("transfer", {"amount": 5}))
        bank.gate.clear()
        approving = asyncio.create_task(runtime.approve(asked))
        await bank.started.wait()
        rejected = await runtime.reject(asked)
        bank.gate.set()

        failed(rejected, "conflict")
        assert (await approving).ok


async def test_a_value_does_not_answer_a_question_for_approval() -> None:
    bank = Bank()
    async with Runtime(bank) as runtime:
        asked = id_of(await runtime.call("transfer", {"amount": 5}))
        settled = await runtime.settle(asked, "sent")

        failed(settled, "conflict")
        assert len(await runtime.pending()) == 1
    assert bank.transfers == []


# Rejecting


async def test_the_reason_for_a_no_reaches_the_model() -> None:
    bank = Bank()
    async with Runtime(bank) as runtime:
        asked = id_of(await runtime.call("transfer", {"amount": 5}))
        outcome = failed(await runtime.reject(asked, reason="too expensive"), "rejected")

    assert "rejected by the user: too expensive" in outcome.text
    assert not outcome.executed
    assert bank.transfers == []


async def test_a_no_needs_no_reason_and_repeating_it_changes_nothing() -> None:
    bank = Bank()
    async with Runtime(bank) as runtime:
        asked = id_of(await runtime.call("transfer", {"amount": 5}))
        first = await runtime.reject(asked)
        second = await runtime.reject(asked, "another reason")

    assert first == second
    assert failed(first, "rejected").text == (
        "(tool failed: the call was rejected by the user. Do not repeat it unless asked to.)"
    )


# Editing


async def test_the_handler_runs_with_the_edited_arguments() -> None:
    bank = Bank()
    async with Runtime(bank) as runtime:
        asked = id_of(await runtime.call("transfer", {"amount": 500, "to": "eve"}))
        outcome = await runtime.approve(asked, arguments={"amount": "5"})

    assert outcome == Done("sent 5 to ann")
    assert bank.transfers == [(5, "ann")]


@pytest.mark.parametrize("wrong", [{"amount": "much"}, {}, {"amount": 1, "currency": "EUR"}])
async def test_invalid_edits_leave_the_wait_open(wrong: dict[str, Any]) -> None:
    bank = Bank()
    async with Runtime(bank) as runtime:
        asked = id_of(await runtime.call("transfer", {"amount": 5}))
        refused = failed(await runtime.approve(asked, arguments=wrong), "invalid_arguments")
        still_open = [wait.call_id for wait in await runtime.pending()]
        outcome = await runtime.approve(asked)

    assert not refused.executed
    assert still_open == [asked]
    assert outcome.unwrap() == "sent 5 to ann"
    assert bank.transfers == [(5, "ann")]


async def test_approving_again_with_other_arguments_is_a_conflict() -> None:
    bank = Bank()
    async with Runtime(bank) as runtime:
        asked = id_of(await runtime.call("transfer", {"amount": 5}))
        await runtime.approve(asked, arguments={"amount": 6})

        failed(await runtime.approve(asked, arguments={"amount": 7}), "conflict")
        assert (await runtime.approve(asked, arguments={"amount": 6})).unwrap() == "sent 6 to ann"
    assert bank.transfers == [(6, "ann")]


async def test_edited_arguments_obey_a_deny_rule() -> None:
    bank = Bank()
    rules = [{"tools": "transfer", "arguments": {"to": "eve"}, "decision": "deny"}]
    async with Runtime(bank, policy=rules) as runtime:
        asked = id_of(await runtime.call("transfer", {"amount": 5}))

        failed(await runtime.approve(asked, arguments={"amount": 5, "to": "eve"}), "denied")
    assert bank.transfers == []


# Always


async def test_always_lets_later_calls_of_the_same_user_run_unasked() -> None:
    bank = Bank()
    async with Runtime(bank) as runtime:
        ann = runtime.scope(user="ann")
        await runtime.approve(id_of(await ann.call("transfer", {"amount": 5})), always=True)
        hers = await ann.call("transfer", {"amount": 6})
        her_other_session = await runtime.scope(user="ann", session="s2").call("transfer", {"amount": 7})
        bobs = await runtime.scope(user="bob").call("transfer", {"amount": 8})
        nobodys = await runtime.call("transfer", {"amount": 9})

    assert hers.ok
    assert her_other_session.ok
    assert pending(bobs).waiting_for == pending(nobodys).waiting_for == "approval"
    assert [amount for amount, _ in bank.transfers] == [5, 6, 7]


async def test_always_counts_against_an_ask_rule_but_never_against_a_deny() -> None:
    rules = [
        {"arguments": {"amount": lambda amount: amount > 100}, "decision": "deny"},
        {"decision": "ask"},
    ]
    bank = Bank()
    async with Runtime(bank, policy=rules) as runtime:
        await runtime.approve(id_of(await runtime.call("transfer", {"amount": 5})), always=True)
        small = await runtime.call("transfer", {"amount": 6})
        large = await runtime.call("transfer", {"amount": 101})
        runtime.policy = [{"decision": "deny"}]
        now_denied = await runtime.call("transfer", {"amount": 6})

    assert small.ok
    failed(large, "denied")
    failed(now_denied, "denied")
    assert [amount for amount, _ in bank.transfers] == [5, 6]


async def test_always_is_void_once_the_definition_has_changed() -> None:
    async with Runtime(asking()) as runtime:
        await runtime.approve(id_of(await runtime.call("transfer")), always=True)
        unchanged = await runtime.call("transfer")
        runtime.catalogue.add(asking(effects={"write"}), on_conflict="replace")
        changed = await runtime.call("transfer")

    assert unchanged.ok
    assert pending(changed).waiting_for == "approval"


async def test_always_is_for_one_tool_and_not_for_its_double_elsewhere() -> None:
    class Server(Provider):
        def __init__(self, namespace: str) -> None:
            self.namespace = namespace

        async def tools(self) -> list[Tool[..., Any]]:
            return [tool.external("run", "Run a job.").evolve(handler=None)]

        async def invoke(self, call: Call, context: Context) -> str:
            return self.namespace

    async with Runtime(Server("mine"), Server("theirs"), policy=[{"decision": "ask"}]) as runtime:
        await runtime.approve(id_of(await runtime.call("mine__run")), always=True)
        mine = await runtime.call("mine__run")
        theirs = await runtime.call("theirs__run")

    assert mine.unwrap() == "mine"
    assert pending(theirs).waiting_for == "approval"


async def test_a_yes_that_was_refused_by_policy_grants_nothing() -> None:
    bank = Bank()
    async with Runtime(bank) as runtime:
        asked = id_of(await runtime.call("transfer", {"amount": 5}))
        runtime.policy = [{"decision": "deny"}]
        failed(await runtime.approve(asked, always=True), "denied")
        runtime.policy = []

        assert pending(await runtime.call("transfer", {"amount": 5})).waiting_for == "approval"
    assert bank.transfers == []


# Who, and what exactly


@pytest.mark.parametrize("verb", ["approve", "reject", "settle"])
async def test_a_stranger_cannot_tell_a_waiting_call_from_an_unknown_one(verb: str) -> None:
    bank = Bank()
    async with Runtime(bank) as runtime:
        asked = id_of(await runtime.scope(user="ann", session="s1").call("transfer", {"amount": 5}))
        unknown = "0" * len(asked)
        for stranger in (
            runtime.scope(user="eve"),
            runtime.scope(user="eve", session="s1"),
            runtime.scope(user="ann", session="s2"),
            runtime.scope(session="s2"),
        ):
            on_hers = failed(await getattr(stranger, verb)(asked), "not_found")
            on_nothing = failed(await getattr(stranger, verb)(unknown), "not_found")

            assert on_hers.text.replace(asked, "ID") == on_nothing.text.replace(unknown, "ID")
            assert await stranger.pending() == []
            assert not await stranger.cancel(asked)

        assert [wait.call_id for wait in await runtime.pending()] == [asked]
    assert bank.transfers == []


async def test_a_stranger_learns_nothing_from_edited_arguments_either() -> None:
    bank = Bank()
    async with Runtime(bank) as runtime:
        asked = id_of(await runtime.scope(user="ann").call("transfer", {"amount": 5}))

        failed(await runtime.scope(user="eve").approve(asked, arguments={"wrong": 1}), "not_found")


async def test_after_the_end_a_stranger_still_sees_nothing() -> None:
    bank = Bank()
    async with Runtime(bank) as runtime:
        asked = id_of(await runtime.scope(user="ann").call("transfer", {"amount": 5}))
        await runtime.approve(asked)

        failed(await runtime.scope(user="eve").approve(asked), "not_found")


async def test_an_unknown_id_is_not_found() -> None:
    async with Runtime(asking()) as runtime:
        for outcome in (
            await runtime.approve("nonsense"),
            await runtime.reject("nonsense"),
            await runtime.settle("nonsense", 1),
        ):
            failed(outcome, "not_found")
        assert not await runtime.cancel("nonsense")


@pytest.mark.parametrize("verb", ["reject", "cancel", "expire"])
async def test_a_rejection_counts_even_if_the_policy_no_longer_asks(verb: str) -> None:
    clock, ran = ManualClock(), []

    @tool(effects={"write"})
    async def transfer() -> None:
        """Transfer money."""
        ran.append(1)

    async with Runtime(transfer, policy=[{"decision": "ask"}], clock=clock) as runtime:
        asked = id_of(await runtime.call("transfer", call_id="c1"))
        runtime.policy = []
        if verb == "expire":
            await clock.advance(8 * 86_400)
        else:
            await getattr(runtime, verb)(asked)
        outcome = await runtime.call("transfer", call_id="c1")

    assert isinstance(outcome, Failed)
    assert outcome.code == {"reject": "rejected", "cancel": "cancelled", "expire": "expired"}[verb]
    assert ran == []


async def test_a_definition_that_changed_after_the_question_is_asked_about_again_and_does_not_run() -> None:
    ran: list[int] = []

    @tool(effects={"write"})
    async def transfer(amount: int = 0) -> None:
        """Transfer money, and the fee as well."""
        ran.append(amount)

    async with Runtime(asking()) as runtime:
        asked = id_of(await runtime.call("transfer", {"amount": 5}))
        runtime.catalogue.add(transfer, on_conflict="replace")
        again = await runtime.approve(asked)
        ran_before_second_yes = list(ran)
        await runtime.approve(asked)

    assert isinstance(again, Pending)
    assert (again.waiting_for, again.call_id) == ("approval", asked)
    assert again.message.startswith("transfer has changed since it was asked about: its effects are write instead")
    assert again.message.endswith("Allow transfer to execute?")
    assert (ran_before_second_yes, ran) == ([], [5])


async def test_a_definition_that_no_longer_takes_the_stored_arguments_ends_the_call_as_a_conflict() -> None:
    @tool
    async def transfer(cents: int) -> int:
        """Transfer money."""
        return cents

    async with Runtime(asking()) as runtime:
        asked = id_of(await runtime.call("transfer", {"amount": 5}))
        runtime.catalogue.add(transfer, on_conflict="replace")
        outcome = failed(await runtime.approve(asked), "conflict")

    assert "its parameters are different" in outcome.message
    assert "does not take these arguments any more" in outcome.message
    assert not outcome.executed


async def test_a_deny_rule_that_came_after_the_question_wins_over_the_yes() -> None:
    bank = Bank()
    async with Runtime(bank) as runtime:
        asked = id_of(await runtime.call("transfer", {"amount": 5}))
        runtime.policy = [{"tools": "transfer", "decision": "deny"}]
        outcome = await runtime.approve(asked)

    assert not failed(outcome, "denied").executed
    assert bank.transfers == []


def test_a_call_has_no_place_for_an_approval() -> None:
    assert not [field.name for field in fields(Call) if "approv" in field.name or "allow" in field.name]
    with pytest.raises(TypeError):
        Call("transfer", {}, approved=True)


@pytest.mark.parametrize("extra", [{"approved": True}, {"approval": {"allow": True}}, {"always": True}])
async def test_arguments_cannot_smuggle_an_approval_in(extra: dict[str, Any]) -> None:
    bank = Bank()
    async with Runtime(bank) as runtime:
        failed(await runtime.call("transfer", {"amount": 5, **extra}), "invalid_arguments")
        failed((await runtime.call_many([Call("transfer", {"amount": 5, **extra})]))[0], "invalid_arguments")
    assert bank.transfers == []


FIELDS = st.fixed_dictionaries(
    {
        "tool": st.sampled_from(["transfer", "refund"]),
        "amount": st.integers(-3, 3),
        "note": st.text(max_size=3),
        "user": st.sampled_from([None, "ann", "bob"]),
        "session": st.sampled_from([None, "s1", "s2"]),
    }
)


@given(asked=FIELDS, field=st.sampled_from(["tool", "amount", "note", "user", "session"]), other=FIELDS)
async def test_an_approval_for_one_call_never_runs_a_call_that_differs_in_one_field(
    asked: dict[str, Any], field: str, other: dict[str, Any]
) -> None:
    ran: list[tuple[Any, ...]] = []
    changed = {**asked, field: other[field]}

    async def work(amount: int, note: str, ctx: Context) -> None:
        """Move money."""
        ran.append((amount, note, ctx.user, ctx.session))

    def call(runtime: Runtime, what: dict[str, Any], call_id: str) -> Any:
        scope = runtime.scope(user=what["user"], session=what["session"])
        return scope.call(what["tool"], {"amount": what["amount"], "note": what["note"]}, call_id=call_id)

    tools = [tool(name=name, confirm=True)(work) for name in ("transfer", "refund")]
    async with Runtime(tools) as runtime:
        first = pending(await call(runtime, asked, "c1"))
        await runtime.approve("c1")
        same_id = await call(runtime, changed, "c1")
        own_id = await call(runtime, changed, "c2")

    assert first.call_id == "c1"
    assert ran == [(asked["amount"], asked["note"], asked["user"], asked["session"])]
    assert pending(own_id).waiting_for == "approval"
    if changed == asked:
        assert same_id == Done(None)
    else:
        failed(same_id, "conflict")


# The approver


async def by_approver(answer: Any, arguments: dict[str, Any] | None = None, **options: Any) -> tuple[Outcome, Bank]:
    async def approver(wait: Any) -> Any:
        if isinstance(answer, Exception):
            raise answer
        return answer

    bank = Bank()
    async with Runtime(bank, approver=approver, **options) as runtime:
        return await runtime.call("transfer", arguments or {"amount": 5}), bank


async def test_an_approver_is_shown_the_wait() -> None:
    shown: list[Any] = []

    async def approver(wait: Any) -> bool:
        shown.append(wait)
        return True

    async with Runtime(asking(confirm_message="Really?"), approver=approver) as runtime:
        await runtime.scope(user="ann").call("transfer", {"amount": 5}, call_id="c1")

    (wait,) = shown
    assert (wait.call_id, wait.tool, wait.arguments, wait.message) == ("c1", "transfer", {"amount": 5}, "Really?")
    assert (wait.waiting_for, wait.user) == ("approval", "ann")


async def test_an_approver_that_says_yes_lets_the_call_run_at_once() -> None:
    outcome, bank = await by_approver(True)

    assert outcome == Done("sent 5 to ann")
    assert bank.transfers == [(5, "ann")]


async def test_an_approver_that_says_no_ends_the_call() -> None:
    for answer in (False, Approval(False, reason="too expensive")):
        outcome, bank = await by_approver(answer)

        assert not failed(outcome, "rejected").executed
        assert bank.transfers == []
    assert "too expensive" in outcome.text


async def test_an_approver_that_says_not_now_leaves_the_wait_for_a_person() -> None:
    async def approver(wait: Any) -> None:
        return None

    bank = Bank()
    async with Runtime(bank, approver=approver) as runtime:
        asked = id_of(await runtime.call("transfer", {"amount": 5}))

        assert (await runtime.approve(asked)).unwrap() == "sent 5 to ann"


async def test_an_approver_may_edit_the_arguments() -> None:
    outcome, bank = await by_approver(Approval(arguments={"amount": 3}))

    assert outcome.unwrap() == "sent 3 to ann"
    assert bank.transfers == [(3, "ann")]


async def test_invalid_edits_of_an_approver_do_not_run() -> None:
    outcome, bank = await by_approver(Approval(arguments={"amount": "much"}))

    assert not failed(outcome, "invalid_arguments").executed
    assert bank.transfers == []


async def test_edits_of_an_approver_obey_a_deny_rule() -> None:
    rules = [{"arguments": {"to": "eve"}, "decision": "deny"}]
    outcome, bank = await by_approver(Approval(arguments={"amount": 5, "to": "eve"}), policy=rules)

    failed(outcome, "denied")
    assert bank.transfers == []


async def test_an_approver_may_say_always() -> None:
    asked: list[Any] = []

    async def approver(wait: Any) -> Approval:
        asked.append(wait)
        return Approval(always=True)

    bank = Bank()
    async with Runtime(bank, approver=approver) as runtime:
        await runtime.call("transfer", {"amount": 5})
        await runtime.call("transfer", {"amount": 6})

    assert len(asked) == 1
    assert [amount for amount, _ in bank.transfers] == [5, 6]


@pytest.mark.parametrize("answer", [RuntimeError("no connection"), "perhaps", 1])
async def test_an_approver_that_fails_or_answers_nonsense_leaves_the_wait_for_a_person(answer: Any) -> None:
    outcome, bank = await by_approver(answer)

    assert pending(outcome).waiting_for == "approval"
    assert bank.transfers == []


# Waiting


async def test_a_pending_call_holds_no_slot_and_blocks_no_other_call() -> None:
    @tool(queue="bank")
    async def balance() -> int:
        """The balance."""
        return 7

    async with Runtime(asking(queue="bank"), balance, queues={"bank": Queue(concurrent=1)}) as runtime:
        waiting = [await runtime.call("transfer", {"amount": number}) for number in range(3)]
        others = await runtime.call_many([Call("balance") for _ in range(3)])
        in_use = runtime.queues()["bank"].in_use
        approved = await runtime.approve(id_of(waiting[1]))

    assert [outcome.data for outcome in others if isinstance(outcome, Done)] == [7, 7, 7]
    assert in_use == 0
    assert approved.unwrap() == 1


async def test_other_calls_run_while_the_approver_decides() -> None:
    asked, answer = asyncio.Event(), asyncio.Event()

    async def approver(wait: Any) -> bool:
        asked.set()
        await answer.wait()
        return True

    @tool
    async def balance() -> int:
        """The balance."""
        return 7

    async with Runtime(asking(queue="bank"), balance, approver=approver, queues={"bank": Queue(1)}) as runtime:
        question = asyncio.create_task(runtime.call("transfer", {"amount": 5}))
        await asked.wait()
        other = await runtime.call("balance")
        in_use = runtime.queues()["bank"].in_use
        answer.set()

        assert (await question).unwrap() == 5
    assert other.unwrap() == 7
    assert in_use == 0


async def test_the_time_limit_of_a_tool_does_not_count_while_it_waits() -> None:
    clock = ManualClock()
    async with Runtime(asking(timeout=1), clock=clock) as runtime:
        asked = id_of(await runtime.call("transfer", {"amount": 5}))
        await clock.advance(3600)

        assert (await runtime.approve(asked)).unwrap() == 5


async def test_a_call_that_is_not_answered_in_time_expires() -> None:
    clock, bank, ended = ManualClock(), Bank(), []
    async with Runtime(bank, clock=clock, defaults={"pending_ttl": 60.0}) as runtime:
        asked = id_of(await runtime.call("transfer", {"amount": 5}))
        runtime.listen(lambda event: ended.append(event) if type(event).__name__ == "CallEnded" else None)
        await clock.advance(59)
        open_before = len(await runtime.pending())
        await clock.advance(1)
        open_after = len(await runtime.pending())
        approved, rejected = await runtime.approve(asked), await runtime.reject(asked)

    assert (open_before, open_after) == (1, 0)
    assert [event.outcome.code for event in ended] == ["expired"]
    assert not failed(approved, "expired").executed
    failed(rejected, "expired")
    assert bank.transfers == []


async def test_an_approval_in_the_last_moment_is_in_time_and_nothing_expires_later() -> None:
    clock, bank = ManualClock(), Bank()
    async with Runtime(bank, clock=clock, defaults={"pending_ttl": 60.0}) as runtime:
        asked = id_of(await runtime.call("transfer", {"amount": 5}))
        await clock.advance(59.9)
        outcome = await runtime.approve(asked)
        await clock.advance(60)

        assert await runtime.approve(asked) == outcome == Done("sent 5 to ann")


async def test_without_a_limit_a_call_waits_for_ever() -> None:
    clock = ManualClock()
    async with Runtime(asking(), clock=clock, defaults={"pending_ttl": None}) as runtime:
        asked = pending(await runtime.call("transfer", {"amount": 5}))
        await clock.advance(10**9)

        assert asked.expires_at is None
        assert (await runtime.approve(id_of(asked))).unwrap() == 5


async def test_a_waiting_call_can_be_cancelled() -> None:
    bank = Bank()
    async with Runtime(bank) as runtime:
        asked = id_of(await runtime.call("transfer", {"amount": 5}, call_id="c1"))
        cancelled = await runtime.cancel(asked)
        again = await runtime.call("transfer", {"amount": 5}, call_id="c1")

        assert cancelled
        assert await runtime.pending() == []
        failed(again, "cancelled")
        failed(await runtime.approve(asked), "conflict")
        assert not await runtime.cancel(asked)
    assert bank.transfers == []


async def test_a_scope_cancels_only_its_own_waits() -> None:
    bank = Bank()
    async with Runtime(bank) as runtime:
        ann, bob = runtime.scope(user="ann"), runtime.scope(user="bob")
        await ann.call("transfer", {"amount": 1})
        await bob.call("transfer", {"amount": 2})
        await ann.cancel()

        assert [wait.user for wait in await runtime.pending()] == ["bob"]


async def test_a_tool_that_is_gone_is_waited_for_and_never_run_blindly() -> None:
    made: Callable[[], Tool[..., Any]] = asking
    async with Runtime(made()) as runtime:
        asked = id_of(await runtime.call("transfer", {"amount": 5}))
        runtime.catalogue.remove("transfer")
        while_gone = await runtime.approve(asked)
        runtime.catalogue.add(made())
        when_back = await runtime.approve(asked)

    assert pending(while_gone).waiting_for == "result"
    assert when_back.unwrap() == 5


async def test_a_no_ends_the_call_of_a_tool_that_changed_or_is_gone() -> None:
    async with Runtime(asking()) as runtime:
        changed = id_of(await runtime.call("transfer", {"amount": 5}))
        gone = id_of(await runtime.call("transfer", {"amount": 6}))
        runtime.catalogue.add(asking(effects={"write"}), on_conflict="replace")
        of_changed = await runtime.reject(changed)
        runtime.catalogue.remove("transfer")
        of_gone = await runtime.reject(gone)

    failed(of_changed, "rejected")
    failed(of_gone, "rejected")
