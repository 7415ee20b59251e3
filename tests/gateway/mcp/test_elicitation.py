"""Pending calls whose client asks its user, in both protocols."""

import asyncio
import sys
from typing import Any

import pytest
from mcp import Client, MCPError
from mcp_types import ElicitResult

from surehand import Context, Failed, Pending, Provider, Runtime, Tool, gateway, tool
from surehand.testing import ManualClock
from tests.gateway.mcp.raw_client import (
    ACCEPT,
    CANCEL,
    DECLINE,
    FORMS,
    FORMS_AND_URLS,
    accepted,
    eventually,
    raw_client,
    text_of,
)
from tests.gateway.mcp.sdk_clients import ERAS, HANDSHAKE, sdk_client, within

eras = pytest.mark.parametrize("era", ERAS)


class Till:
    """A tool that asks before it pays, and what it paid."""

    def __init__(self) -> None:
        self.paid: list[int] = []
        self.runs = asyncio.Event()
        self.may_end = asyncio.Event()
        self.may_end.set()

        @tool(effects={"write"}, confirm=True, confirm_message="Pay?")
        async def pay(amount: int) -> str:
            """Pay somebody."""
            self.paid.append(amount)
            self.runs.set()
            await self.may_end.wait()
            return f"paid {amount}"

        self.tool = pay


class Person:
    """Whoever sits before the client."""

    def __init__(self, *answers: dict[str, Any]) -> None:
        self._answers = list(answers)
        self.asked: list[Any] = []

    async def __call__(self, context: Any, params: Any) -> ElicitResult:
        self.asked.append(params)
        return ElicitResult(**self._answers.pop(0))


class Away:
    """Somebody who never answers."""

    def __init__(self) -> None:
        self.asked, self.withdrawn = asyncio.Event(), asyncio.Event()

    async def __call__(self, context: Any, params: Any) -> ElicitResult:
        self.asked.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.withdrawn.set()
        raise AssertionError


def said(result: Any) -> str:
    return "\n".join(block.text for block in result.content)


async def was_cancelled(runtime: Runtime, call_id: str) -> bool:
    standing = await runtime.status(call_id)
    return standing is not None and isinstance(standing.outcome, Failed) and standing.outcome.code == "cancelled"


# Approval


@eras
async def test_a_person_who_agrees_lets_the_call_run(era):
    till, person = Till(), Person(ACCEPT)
    async with sdk_client(Runtime(till.tool), era, elicitation_callback=person) as client:
        result = await client.call_tool("pay", {"amount": 5})

    assert (said(result), result.is_error, till.paid) == ("paid 5", False, [5])
    assert person.asked[0].message == "Pay?\n\nThis would run: pay\n  amount: 5"


@eras
async def test_a_person_who_declines_keeps_the_call_from_running(era):
    till = Till()
    async with sdk_client(Runtime(till.tool), era, elicitation_callback=Person(DECLINE)) as client:
        result = await client.call_tool("pay", {"amount": 5})

    assert (result.is_error, result.meta["surehand/code"], till.paid) == (True, "rejected", [])


@eras
async def test_a_dialog_that_is_dismissed_leaves_the_call_waiting(era):
    till = Till()
    async with Runtime(till.tool) as runtime:
        async with sdk_client(runtime, era, elicitation_callback=Person(CANCEL)) as client:
            result = await client.call_tool("pay", {"amount": 5})
        [waiting] = await runtime.pending()
        outcome = await runtime.approve(waiting.call_id)

    assert waiting.call_id in said(result)
    assert result.meta["surehand/waitingFor"] == "approval"
    assert outcome.data == "paid 5"


@eras
async def test_a_person_need_not_be_asked_again(era):
    till, person = Till(), Person(accepted(always=True))
    async with sdk_client(Runtime(till.tool), era, elicitation_callback=person) as client:
        for amount in (1, 2):
            assert said(await client.call_tool("pay", {"amount": amount})) == f"paid {amount}"

    assert len(person.asked) == 1


@eras
@pytest.mark.parametrize("always", [False, "yes", 1, None])
async def test_only_a_plain_yes_lets_later_calls_run_unasked(era, always):
    person = Person(accepted(always=always), DECLINE)
    async with sdk_client(Runtime(Till().tool), era, elicitation_callback=person) as client:
        for amount in (1, 2):
            await client.call_tool("pay", {"amount": amount})

    assert len(person.asked) == 2


@eras
async def test_a_client_that_cannot_be_asked_gets_a_pending_text_and_the_call_is_answered_elsewhere(era):
    till = Till()
    async with Runtime(till.tool) as runtime:
        async with sdk_client(runtime, era) as client:
            result = await client.call_tool("pay", {"amount": 5})
        [waiting] = await runtime.pending()
        outcome = await runtime.approve(waiting.call_id)

    assert waiting.call_id in said(result)
    assert result.meta["surehand/callId"] == waiting.call_id
    assert outcome.data == "paid 5"


@pytest.mark.timeout(60)
async def test_another_process_with_the_same_store_may_answer(tmp_path):
    till, store = Till(), tmp_path / "calls.db"
    approve = (
        "import asyncio, sys\nfrom surehand import Runtime\nasync def main():\n"
        "    async with Runtime(store=sys.argv[1]) as runtime:\n"
        "        [waiting] = await runtime.pending()\n"
        "        await runtime.approve(waiting.call_id)\nasyncio.run(main())"
    )
    away = Away()
    async with sdk_client(Runtime(till.tool, store=store), HANDSHAKE, elicitation_callback=away) as client:
        calling = asyncio.create_task(client.call_tool("pay", {"amount": 5}))
        await away.asked.wait()
        other = await asyncio.create_subprocess_exec(sys.executable, "-c", approve, str(store))
        assert await other.wait() == 0
        result = await calling

    assert (said(result), till.paid) == ("paid 5", [5])


# While a client of the older protocol is asked


async def test_a_question_that_is_answered_elsewhere_is_cancelled_and_the_call_resumes():
    till, away = Till(), Away()
    async with Runtime(till.tool) as runtime, sdk_client(runtime, HANDSHAKE, elicitation_callback=away) as client:
        calling = asyncio.create_task(client.call_tool("pay", {"amount": 5}))
        await away.asked.wait()
        [waiting] = await runtime.pending()
        await runtime.approve(waiting.call_id)
        async with within():
            result = await calling
            await away.withdrawn.wait()

    assert said(result) == "paid 5"


async def test_a_call_that_is_rejected_elsewhere_ends_while_its_client_is_asked():
    till, away = Till(), Away()
    async with Runtime(till.tool) as runtime, sdk_client(runtime, HANDSHAKE, elicitation_callback=away) as client:
        calling = asyncio.create_task(client.call_tool("pay", {"amount": 5}))
        await away.asked.wait()
        [waiting] = await runtime.pending()
        await runtime.reject(waiting.call_id, "too much")
        async with within():
            result = await calling

    assert result.is_error
    assert "too much" in said(result)


async def test_a_client_that_leaves_while_it_is_asked_has_its_call_cancelled():
    till, away = Till(), Away()
    async with Runtime(till.tool) as runtime, sdk_client(runtime, HANDSHAKE, elicitation_callback=away) as client:
        calling = asyncio.create_task(client.call_tool("pay", {"amount": 5}))
        await away.asked.wait()
        [waiting] = await runtime.pending()
        calling.cancel()
        await asyncio.wait({calling})
        await eventually(lambda: was_cancelled(runtime, waiting.call_id))

    assert till.paid == []


async def test_a_connection_that_breaks_while_its_client_is_asked_cancels_the_call():
    till, away = Till(), Away()
    async with Runtime(till.tool) as runtime:
        async with sdk_client(runtime, HANDSHAKE, elicitation_callback=away) as client:
            calling = asyncio.create_task(client.call_tool("pay", {"amount": 5}))
            await away.asked.wait()
            [waiting] = await runtime.pending()
        with pytest.raises((MCPError, asyncio.CancelledError)):
            await calling
        await eventually(lambda: was_cancelled(runtime, waiting.call_id))

    assert till.paid == []


async def test_a_call_that_runs_after_its_client_agreed_ends_when_the_client_leaves():
    till = Till()
    till.may_end.clear()
    async with (
        Runtime(till.tool) as runtime,
        sdk_client(runtime, HANDSHAKE, elicitation_callback=Person(ACCEPT)) as client,
    ):
        calling = asyncio.create_task(client.call_tool("pay", {"amount": 5}))
        await till.runs.wait()
        calling.cancel()
        await asyncio.wait({calling})
        await eventually(lambda: not runtime.stats().running)

    assert till.paid == [5]


# The state of the newer protocol


async def test_a_question_is_a_result_of_its_own_and_the_answer_the_same_call_again():
    till = Till()
    async with raw_client(Runtime(till.tool)) as client:
        asks = await client.call("pay", {"amount": 5})
        result = await client.answer(asks, "pay", ACCEPT, {"amount": 5})

    assert asks["resultType"] == "input_required"
    assert asks["inputRequests"]["approve"]["method"] == "elicitation/create"
    assert (text_of(result), till.paid) == ("paid 5", [5])


async def test_an_answer_that_is_brought_twice_runs_the_call_once():
    till = Till()
    till.may_end.clear()
    async with raw_client(Runtime(till.tool)) as client:
        asks = await client.call("pay", {"amount": 5})
        first = asyncio.create_task(client.answer(asks, "pay", ACCEPT, {"amount": 5}))
        await till.runs.wait()
        second = asyncio.create_task(client.answer(asks, "pay", ACCEPT, {"amount": 5}))
        await asyncio.sleep(0)
        till.may_end.set()
        results = [await first, await second, await client.answer(asks, "pay", ACCEPT, {"amount": 5})]

    assert [text_of(result) for result in results] == ["paid 5"] * 3
    assert till.paid == [5]


async def test_the_first_of_two_answers_counts():
    till = Till()
    till.may_end.clear()
    async with raw_client(Runtime(till.tool)) as client:
        asks = await client.call("pay", {"amount": 5})
        yes = asyncio.create_task(client.answer(asks, "pay", ACCEPT, {"amount": 5}))
        await till.runs.wait()
        no = asyncio.create_task(client.answer(asks, "pay", DECLINE, {"amount": 5}))
        await client.call("pay", {"amount": 1})  # by now the other one waits, too
        till.may_end.set()

        assert [text_of(await yes), text_of(await no)] == ["paid 5", "paid 5"]


async def test_a_client_that_answers_and_disconnects_does_not_cancel_the_call_for_others():
    till = Till()
    till.may_end.clear()
    async with raw_client(Runtime(till.tool)) as client:
        asks = await client.call("pay", {"amount": 5})
        again = {"name": "pay", "arguments": {"amount": 5}, "requestState": asks["requestState"]}
        number, _ = await client.begin("tools/call", **again, inputResponses={"approve": ACCEPT})
        await till.runs.wait()
        staying = asyncio.create_task(client.answer(asks, "pay", ACCEPT, {"amount": 5}))
        await client.call("pay", {"amount": 1})  # by now the other one waits, too
        await client.cancel(number)
        await client.call("pay", {"amount": 1})
        till.may_end.set()
        result = await staying

    assert text_of(result) == "paid 5"


async def test_the_last_client_that_disconnects_cancels_the_call():
    till = Till()
    till.may_end.clear()
    async with Runtime(till.tool) as runtime, raw_client(runtime) as client:
        asks = await client.call("pay", {"amount": 5})
        again = {"name": "pay", "arguments": {"amount": 5}, "requestState": asks["requestState"]}
        number, _ = await client.begin("tools/call", **again, inputResponses={"approve": ACCEPT})
        await till.runs.wait()
        await client.cancel(number)
        await eventually(lambda: not runtime.stats().running)
        result = await client.answer(asks, "pay", ACCEPT, {"amount": 5})

    assert result["_meta"]["surehand/code"] == "cancelled"


@pytest.mark.parametrize("change", ["{}-TAMPERED", "x{}", "{}0", "", "-1.", "{}\n", "9" * 400, "\ud800"])
async def test_a_malformed_request_state_is_refused(change):
    till = Till()
    async with raw_client(Runtime(till.tool)) as client:
        asks = await client.call("pay", {"amount": 5})
        forged = {**asks, "requestState": change.format(asks["requestState"]).encode(errors="replace").decode()}
        with pytest.raises(MCPError) as error:
            await client.answer(forged, "pay", ACCEPT, {"amount": 5})

    assert (error.value.code, till.paid) == (-32602, [])


async def test_a_state_counts_only_for_its_own_user_tool_and_arguments():
    till = Till()

    @tool(effects={"write"}, confirm=True)
    async def lend(amount: int) -> str:
        """Lend somebody money."""
        return "lent"

    async with (
        Runtime(till.tool, lend) as runtime,
        raw_client(runtime, user="ann") as ann,
        raw_client(runtime, user="bob") as bob,
    ):
        asks = await ann.call("pay", {"amount": 5})
        for client, name, arguments in (
            (bob, "pay", {"amount": 5}),
            (ann, "lend", {"amount": 5}),
            (ann, "pay", {"amount": 6}),
        ):
            with pytest.raises(MCPError) as error:
                await client.answer(asks, name, ACCEPT, arguments)
            assert error.value.code == -32602
        result = await ann.answer(asks, "pay", ACCEPT, {"amount": 5})

    assert (text_of(result), till.paid) == ("paid 5", [5])


async def test_a_call_that_was_approved_with_other_arguments_is_still_the_same_call():
    till = Till()
    async with Runtime(till.tool) as runtime, raw_client(runtime) as client:
        asks = await client.call("pay", {"amount": 5})
        [waiting] = await runtime.pending()
        await runtime.approve(waiting.call_id, arguments={"amount": 3})
        result = await client.answer(asks, "pay", ACCEPT, {"amount": 5})

    assert text_of(result) == "paid 3"


async def test_a_question_outlives_the_server_that_asked_it(tmp_path):
    store, till = tmp_path / "calls.db", Till()
    async with raw_client(Runtime(till.tool, store=store)) as client:
        asks = await client.call("pay", {"amount": 5})

    later = Till()
    async with raw_client(Runtime(later.tool, store=store)) as client:
        result = await client.answer(asks, "pay", ACCEPT, {"amount": 5})
    async with raw_client(Runtime(Till().tool, store=store)) as client:
        again = await client.answer(asks, "pay", ACCEPT, {"amount": 5})

    assert (text_of(result), text_of(again), till.paid, later.paid) == ("paid 5", "paid 5", [], [5])


async def test_a_late_answer_gets_an_error():
    clock, till = ManualClock(), Till()
    async with (
        Runtime(till.tool, clock=clock, defaults={"pending_ttl": 60.0}) as runtime,
        raw_client(runtime) as client,
    ):
        asks = await client.call("pay", {"amount": 5})
        await clock.advance(61)
        result = await client.answer(asks, "pay", ACCEPT, {"amount": 5})

    assert (result["_meta"]["surehand/code"], till.paid) == ("expired", [])


async def test_an_approval_cannot_be_sent_with_the_call():
    till = Till()
    async with raw_client(Runtime(till.tool)) as client:
        asks = await client.call("pay", {"amount": 5}, inputResponses={"approve": ACCEPT})

    assert (asks["resultType"], till.paid) == ("input_required", [])


# What providers ask

NAME = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}


def form(message: str = "Who?") -> dict[str, Any]:
    return {"mode": "form", "message": message, "schema": NAME}


class Clerk(Provider):
    """Asks what it is told to, one round after the other, and says what it heard."""

    namespace = "clerk"

    def __init__(self, *rounds: Any) -> None:
        self.rounds = rounds

    async def tools(self) -> list[Tool[..., Any]]:
        return [tool.provided("ask", "Ask a person.", effects={"read"})]

    async def invoke(self, call: Any, context: Context) -> Any:
        return self._next([])

    async def resume(self, call: Any, state: Any, answer: Any, context: Any) -> Any:
        if answer == {"action": "accept", "content": {"name": "?"}}:
            return self._next(state, "That is no name. ")
        return self._next([*state, answer])

    def _next(self, heard: list[Any], mistake: str = "") -> Any:
        if len(heard) == len(self.rounds):
            return {"heard": heard}
        return Pending("input", message=f"{mistake}Tell me.", request=self.rounds[len(heard)], state=heard)


def heard(result: Any) -> list[Any]:
    return result.structured_content["heard"]


@eras
@pytest.mark.parametrize("answer", [accepted(name="Ann"), DECLINE, CANCEL])
async def test_the_answer_to_a_form_reaches_the_tool_that_asked(era, answer):
    person = Person(answer)
    async with sdk_client(Runtime(Clerk(form())), era, elicitation_callback=person) as client:
        result = await client.call_tool("clerk__ask")

    assert heard(result) == [answer]
    assert person.asked[0].requested_schema["properties"] == NAME["properties"]
    assert person.asked[0].message == "Tell me."


@eras
async def test_a_person_may_be_sent_to_an_address(era):
    person = Person({"action": "accept"})
    async with sdk_client(Runtime(Clerk(_URL)), era, elicitation_callback=person) as client:
        result = await client.call_tool("clerk__ask")

    assert heard(result) == [{"action": "accept"}]
    assert person.asked[0].url == "https://example.com/in"


_URL = {"mode": "url", "message": "Sign in.", "url": "https://example.com/in"}


async def test_a_client_that_opens_no_addresses_is_not_sent_to_one():
    async with raw_client(Runtime(Clerk(_URL)), FORMS) as client:
        assert (await client.call("clerk__ask"))["_meta"]["surehand/waitingFor"] == "input"
    async with raw_client(Runtime(Clerk(_URL)), FORMS_AND_URLS) as client:
        assert (await client.call("clerk__ask"))["resultType"] == "input_required"
    async with raw_client(Runtime(Clerk({"mode": "several", "requests": {"a": form(), "b": _URL}})), FORMS) as client:
        assert (await client.call("clerk__ask"))["resultType"] == "complete"


@eras
async def test_several_questions_are_answered_by_their_keys(era):
    person = Person(accepted(name="Ann"), DECLINE)
    several = {"mode": "several", "requests": {"first": form("First?"), "second": form("Second?")}}
    async with sdk_client(Runtime(Clerk(several)), era, elicitation_callback=person) as client:
        result = await client.call_tool("clerk__ask")

    assert heard(result) == [{"first": accepted(name="Ann"), "second": DECLINE}]
    assert [each.message for each in person.asked] == ["First?", "Second?"]


@eras
async def test_a_call_may_ask_several_rounds(era):
    person = Person(accepted(name="Ann"), accepted(name="Bob"))
    async with sdk_client(Runtime(Clerk(form(), form())), era, elicitation_callback=person) as client:
        result = await client.call_tool("clerk__ask")

    assert heard(result) == [accepted(name="Ann"), accepted(name="Bob")]


@eras
async def test_an_answer_that_does_not_fit_is_asked_for_again(era):
    person = Person(accepted(name="?"), accepted(name="Ann"))
    async with sdk_client(Runtime(Clerk(form())), era, elicitation_callback=person) as client:
        result = await client.call_tool("clerk__ask")

    assert heard(result) == [accepted(name="Ann")]
    assert person.asked[1].message == "That is no name. Tell me."


async def test_an_answer_to_an_earlier_round_does_not_count_for_a_later_one():
    async with raw_client(Runtime(Clerk(form(), form()))) as client:
        first = await client.call("clerk__ask")
        second = await client.answer(first, "clerk__ask", accepted(name="Ann"))
        again = await client.answer(first, "clerk__ask", accepted(name="Ann"))
        result = await client.answer(again, "clerk__ask", accepted(name="Bob"))

    assert first["requestState"] != second["requestState"]
    assert again == second
    assert result["structuredContent"]["heard"] == [accepted(name="Ann"), accepted(name="Bob")]


async def test_answers_that_are_missing_are_asked_for_again_and_strange_ones_ignored():
    several = {"mode": "several", "requests": {"first": form(), "second": form()}}
    async with raw_client(Runtime(Clerk(several))) as client:
        asks = await client.call("clerk__ask")
        again = await client.answer(asks, "clerk__ask", {"first": ACCEPT, "strange": ACCEPT})
        result = await client.answer(again, "clerk__ask", {"first": ACCEPT, "second": DECLINE, "strange": ACCEPT})

    assert again == asks
    assert result["structuredContent"]["heard"] == [{"first": ACCEPT, "second": DECLINE}]


async def test_expected_questions_can_be_answered_with_the_call():
    one = {"mode": "several", "requests": {"who": form()}}
    async with raw_client(Runtime(Clerk(one, one))) as client:
        asks = await client.call("clerk__ask", inputResponses={"who": accepted(name="Ann"), "strange": DECLINE})
        unknown = await client.call("clerk__ask", inputResponses={"strange": DECLINE})
        result = await client.answer(asks, "clerk__ask", accepted(name="Bob"))

    assert [each["resultType"] for each in (asks, unknown)] == ["input_required"] * 2
    assert result["structuredContent"]["heard"] == [{"who": accepted(name="Ann")}, {"who": accepted(name="Bob")}]


@eras
async def test_a_plain_schema_is_a_form_and_its_answer_the_values(era):
    schema = {**NAME, "title": "Who", "additionalProperties": False}
    person = Person(accepted(name="Ann"))
    async with sdk_client(Runtime(Clerk(schema)), era, elicitation_callback=person) as client:
        result = await client.call_tool("clerk__ask")

    assert heard(result) == [{"name": "Ann"}]


@eras
async def test_values_that_do_not_fit_a_plain_schema_are_asked_for_again(era):
    person = Person(accepted(), accepted(name=5), accepted(name="Ann"))
    async with sdk_client(Runtime(Clerk(NAME)), era, elicitation_callback=person) as client:
        result = await client.call_tool("clerk__ask")

    assert heard(result) == [{"name": "Ann"}]
    assert "name" in person.asked[1].message
    assert person.asked[1].message.endswith("Tell me.")


@eras
async def test_declining_a_form_rejects_the_call(era):
    async with sdk_client(Runtime(Clerk(NAME)), era, elicitation_callback=Person(DECLINE)) as client:
        result = await client.call_tool("clerk__ask")

    assert (result.is_error, result.meta["surehand/code"]) == (True, "rejected")


@pytest.mark.parametrize(
    "request_",
    [
        {"type": "object", "properties": {"deep": {"type": "object"}}},
        {"type": "object", "properties": {}},
        {"mode": "form", "message": "Who?", "schema": {"type": "object"}},
        {"mode": "url", "url": 5},
        {"mode": "several", "requests": {"a": {"mode": "song"}}},
        "a sentence",
        None,
    ],
)
async def test_a_request_that_is_not_a_form_is_not_asked_and_the_call_stays_pending(request_):
    async with raw_client(Runtime(Clerk(request_)), FORMS_AND_URLS) as client:
        result = await client.call("clerk__ask")

    assert result["_meta"]["surehand/waitingFor"] == "input"


@eras
async def test_a_question_with_a_lone_surrogate_is_asked(era):
    broken = {
        "mode": "form",
        "message": "\ud800",
        "schema": {"properties": {"a": {"type": "string", "title": "\udfff"}}},
    }
    several = {"mode": "several", "requests": {"who": broken}}
    person = Person(DECLINE)
    async with sdk_client(Runtime(Clerk(several)), era, elicitation_callback=person) as client:
        assert heard(await client.call_tool("clerk__ask")) == [{"who": DECLINE}]


async def test_a_client_that_fails_to_ask_gets_a_pending_text():
    async def broken(context: Any, params: Any) -> Any:
        raise MCPError(code=-32603, message="no screen")

    async with sdk_client(Runtime(Clerk(form())), HANDSHAKE, elicitation_callback=broken) as client:
        result = await client.call_tool("clerk__ask")

    assert result.meta["surehand/waitingFor"] == "input"


async def test_the_sdk_client_in_memory_is_asked_as_well():
    for era in ERAS:
        till = Till()
        server = gateway.mcp.server(Runtime(till.tool))
        async with Client(server, mode=era, elicitation_callback=Person(ACCEPT)) as client:
            assert said(await client.call_tool("pay", {"amount": 5})) == "paid 5"


async def test_a_reported_step_reaches_the_client_after_it_agreed():
    @tool(effects={"write"}, confirm=True)
    async def build(ctx: Context) -> str:
        """Build it."""
        ctx.report(0.5, "half")
        return "built"

    for era in ERAS:
        steps: list[Any] = []

        async def step(*told: Any, steps: list[Any] = steps) -> None:
            steps.append(told)

        async with sdk_client(Runtime(build), era, elicitation_callback=Person(ACCEPT)) as client:
            await client.call_tool("build", progress_callback=step)
        assert steps == [(50.0, 100.0, "half")]
