"""A server asks a person: the call waits for input, in both protocols."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from pathlib import Path
from typing import Annotated, Any

import mcp_types as types
import pytest
from mcp import UrlElicitationRequiredError
from mcp.server import MCPServer
from mcp.server.mcpserver import AcceptedElicitation, Context, Elicit, ElicitationResult, Resolve
from pydantic import BaseModel

from surehand import Done, Failed, Pending, Queue, Runtime, mcp
from surehand.core.events import CallProgress
from surehand.providers.mcp.connection import elicitation_order
from surehand.testing import ManualClock
from tests.providers.mcp.steady_server import SteadyServer, wait_until

REPEATABLE = {"ask*": ["read"]}


def asks(outcome: Any) -> Pending:
    assert isinstance(outcome, Pending), outcome
    assert outcome.waiting_for == "input"
    return outcome


def given(outcome: Any) -> list[Any]:
    assert isinstance(outcome, Done), outcome
    return json.loads(outcome.data)


class Sure(BaseModel):
    sure: bool


async def ask_first() -> Elicit[Sure]:
    return Elicit(message="Shred it?", schema=Sure)


async def test_a_question_makes_the_call_wait_for_input(steady: SteadyServer) -> None:
    async with Runtime(steady.provider()) as runtime:
        waiting = asks(await runtime.call("steady__ask", {"text": "it"}))
        [listed] = await runtime.pending()
        outcome = await runtime.settle(waiting.call_id, {"sure": True, "times": "2"})

    assert waiting.message == "steady asks: Sure about it?"
    assert waiting.request["schema"]["required"] == ["sure"]
    assert listed.call_id == waiting.call_id
    assert given(outcome) == [{"action": "accept", "content": {"sure": True, "times": 2}}]
    assert steady.effects == ["asked"]


async def test_a_person_can_decline(steady: SteadyServer) -> None:
    async with Runtime(steady.provider()) as runtime:
        for action in ("decline", "cancel"):
            waiting = asks(await runtime.call("steady__ask", {"text": "it"}))
            assert given(await runtime.settle(waiting.call_id, {"action": action})) == [{"action": action}]


async def test_an_invalid_answer_leaves_the_question_open(steady: SteadyServer) -> None:
    async with Runtime(steady.provider()) as runtime:
        waiting = asks(await runtime.call("steady__ask", {"text": "it"}))
        again = asks(await runtime.settle(waiting.call_id, {"sure": "perhaps"}))
        outcome = await runtime.settle(waiting.call_id, {"sure": False})

    assert again.call_id == waiting.call_id
    assert "perhaps" in again.message
    assert given(outcome)[0]["content"] == {"sure": False}


async def test_a_server_can_ask_several_times(steady: SteadyServer) -> None:
    async with Runtime(steady.provider()) as runtime:
        waiting = asks(await runtime.call("steady__ask_twice"))
        asks(await runtime.settle(waiting.call_id, {"sure": True}))
        outcome = await runtime.settle(waiting.call_id, {"sure": False})
    assert [answer["content"]["sure"] for answer in given(outcome)] == [True, False]


async def test_a_server_can_send_a_person_to_a_url(steady: SteadyServer) -> None:
    async with Runtime(steady.provider()) as runtime:
        waiting = asks(await runtime.call("steady__open_url"))
        outcome = await runtime.settle(waiting.call_id, True)
    assert waiting.request["mode"] == "url"
    assert waiting.request["url"] == "https://example.com/in"
    assert given(outcome) == [{"action": "accept"}]


async def test_a_pending_call_holds_no_slot_and_has_no_deadline(steady: SteadyServer, silence: Any) -> None:
    provider, clock = steady.provider(timeout=0.2, total=30, queue="one"), ManualClock()
    async with Runtime(provider, queues={"one": Queue(concurrent=1)}, clock=clock) as runtime:
        waiting = [asks(await runtime.call("steady__ask", {"text": str(number)})) for number in range(3)]
        await clock.advance(60)  # longer than any call may take
        silence.seconds += 60
        await asyncio.sleep(0.4)  # so that it is looked at
        assert await runtime.call("steady__echo", {"text": "free"}) == Done("free")
        for each in waiting:
            assert given(await runtime.settle(each.call_id, {"sure": True}))[0]["action"] == "accept"


@pytest.mark.parametrize("protocol", ["auto", "legacy"])
async def test_progress_after_an_answer_is_reported(protocol: Any) -> None:
    desk, progress_events = MCPServer("desk", log_level="WARNING"), list[CallProgress]()

    @desk.tool()
    async def shred(ctx: Context, sure: Annotated[ElicitationResult[Sure], Resolve(ask_first)]) -> str:
        await ctx.report_progress(1, 2, "half of it")
        return "gone" if isinstance(sure, AcceptedElicitation) else "kept"

    async with Runtime(mcp.server(desk, protocol=protocol)) as runtime:
        waiting = asks(await runtime.call("desk__shred"))
        runtime.listen(lambda event: progress_events.append(event) if isinstance(event, CallProgress) else None)
        outcome = await runtime.settle(waiting.call_id, {"sure": True})

    assert outcome.text == "gone"
    assert [(each.call_id, each.fraction, each.message) for each in progress_events] == [
        (waiting.call_id, 0.5, "half of it")
    ]


async def test_concurrent_questions_each_get_their_own_answer(steady: SteadyServer) -> None:
    async with Runtime(steady.provider()) as runtime:
        calls = [runtime.call("steady__ask", {"text": str(number)}) for number in range(8)]
        waiting = [asks(outcome) for outcome in await asyncio.gather(*calls)]
        outcomes = [await runtime.settle(each.call_id, {"sure": True, "times": n}) for n, each in enumerate(waiting)]
    assert sorted(given(outcome)[0]["content"]["times"] for outcome in outcomes) == list(range(8))


async def test_a_question_of_the_modern_protocol_can_be_answered_after_a_restart(tmp_path: Path) -> None:
    steady, store = SteadyServer(tmp_path / "steady", "modern"), str(tmp_path / "store.db")
    async with Runtime(steady.provider(), store=store) as runtime:
        waiting = asks(await runtime.call("steady__ask_twice"))
        asks(await runtime.settle(waiting.call_id, {"sure": True}))
    async with Runtime(steady.provider(), store=store) as runtime:
        [listed] = await runtime.pending()
        outcome = await runtime.settle(listed.call_id, {"sure": False})

    assert [answer["content"]["sure"] for answer in given(outcome)] == [True, False]
    assert steady.effects == ["asked"]
    assert steady.starts == 2


@pytest.mark.parametrize(("effects", "code"), [(REPEATABLE, "interrupted"), (None, "unknown_effect")])
async def test_a_question_of_the_handshake_protocol_ends_with_the_program(
    tmp_path: Path, effects: Any, code: str
) -> None:
    steady, store = SteadyServer(tmp_path / "steady", "legacy"), str(tmp_path / "store.db")
    async with Runtime(steady.provider(effects=effects), store=store) as runtime:
        waiting = asks(await runtime.call("steady__ask", {"text": "it"}))
        given = waiting.call_id
    async with Runtime(steady.provider(effects=effects), store=store) as runtime:
        left = await runtime.pending()
        outcome = await runtime.settle(given, {"sure": True})

    assert left == []  # no question stays open that cannot be answered
    assert isinstance(outcome, Failed)
    assert outcome.code == code
    assert "no longer waits for this answer" in outcome.message
    assert steady.effects == []


async def test_a_question_of_the_handshake_protocol_ends_with_its_server(tmp_path: Path) -> None:
    steady = SteadyServer(tmp_path / "steady", "legacy")
    async with Runtime(steady.provider()) as runtime:
        waiting = asks(await runtime.call("steady__ask", {"text": "it"}))
        os.kill(int(steady.lines("starts")[-1]), signal.SIGKILL)
        await wait_until(lambda: steady.starts == 2)
        outcome = await runtime.settle(waiting.call_id, {"sure": True})
    assert isinstance(outcome, Failed)
    assert outcome.code == "unknown_effect"


@pytest.mark.parametrize("how", ["cancelled", "expired"])
async def test_a_waiting_server_is_notified_when_its_call_is_cancelled(tmp_path: Path, how: str) -> None:
    steady, clock = SteadyServer(tmp_path / "steady", "legacy"), ManualClock()
    provider = steady.provider()
    async with Runtime(provider, clock=clock) as runtime:
        waiting = asks(await runtime.call("steady__ask", {"text": "it"}))
        [connection] = list(provider.connections)
        assert len(connection.open_requests) == 1
        if how == "cancelled":
            await runtime.cancel(waiting.call_id)
        else:
            await clock.advance(8 * 86_400)
        await wait_until(lambda: not connection.open_requests)
        assert await runtime.call("steady__echo", {"text": "well"}) == Done("well")


async def test_a_server_with_an_open_question_is_not_stopped_as_idle(tmp_path: Path) -> None:
    steady = SteadyServer(tmp_path / "steady", "legacy")
    async with Runtime(steady.provider(idle=0.1)) as runtime:
        waiting = asks(await runtime.call("steady__ask", {"text": "it"}))
        starts = steady.starts  # two on a slow machine: the first was stopped before the question
        await asyncio.sleep(0.4)  # four times what an idle server is given
        assert given(await runtime.settle(waiting.call_id, {"sure": True}))[0]["action"] == "accept"
        assert steady.starts == starts


async def test_a_question_of_the_handshake_protocol_is_assigned_to_its_own_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(elicitation_order, "ASK_TIMEOUT_SECONDS", 30.0)  # a busy machine may ask late
    steady = SteadyServer(tmp_path / "steady", "legacy")
    async with Runtime(steady.provider()) as runtime:
        await asyncio.gather(*(runtime.call("steady__echo", {"text": "x"}) for _ in range(3)))
        calls = [runtime.call("steady__ask", {"text": f"number {number}"}) for number in range(8)]
        busy = asyncio.create_task(runtime.call("steady__wait", {"text": "x"}))
        waiting = [asks(outcome) for outcome in await asyncio.gather(*calls)]
        busy.cancel()
        assert [each.message for each in waiting] == [f"steady asks: Sure about number {n}?" for n in range(8)]


async def test_a_question_is_not_assigned_if_it_may_belong_to_another_user(tmp_path: Path) -> None:
    steady = SteadyServer(tmp_path / "steady", "legacy")
    async with Runtime(steady.provider(per="everyone")) as runtime:
        waiting = [
            asyncio.create_task(runtime.scope(user=user).call("steady__ask_late", {"text": user}))
            for user in ("anna", "ben")
        ]
        await wait_until(lambda: len(steady.lines("late")) == 2)
        steady.set_flag("ask now")
        outcomes = await asyncio.gather(*waiting)
        assert not any(isinstance(outcome, Pending) for outcome in outcomes)


async def test_an_answer_given_in_another_runtime_reaches_the_runtime_that_holds_the_request(tmp_path: Path) -> None:
    steady, store = SteadyServer(tmp_path / "steady", "legacy"), str(tmp_path / "store.db")
    async with Runtime(steady.provider(), store=store) as here, Runtime(steady.provider(), store=store) as there:
        waiting = asks(await here.call("steady__ask", {"text": "it"}))
        assert [each.call_id for each in await there.pending()] == [waiting.call_id]
        first_outcome = await there.settle(waiting.call_id, {"sure": True})
        assert isinstance(first_outcome, Pending)
        await wait_until(lambda: steady.effects == ["asked"])
        outcome = first_outcome
        async with asyncio.timeout(25):
            while isinstance(outcome, Pending):  # the server is done before its answer is written down
                await asyncio.sleep(0.01)
                outcome = await here.call("steady__ask", {"text": "it"}, call_id=waiting.call_id)
    assert given(outcome)[0]["action"] == "accept"


async def test_the_result_of_a_server_that_did_not_wait_for_the_answer_is_used(tmp_path: Path) -> None:
    steady = SteadyServer(tmp_path / "steady", "legacy")
    async with Runtime(steady.provider()) as runtime:
        waiting = asks(await runtime.call("steady__ask_briefly", {"text": "it"}))
        steady.set_flag("give up")
        await wait_until(lambda: steady.effects == ["gave-up"])
        assert await runtime.settle(waiting.call_id, {"sure": True}) == Done("without you")


# URLs that a person has to open before the server accepts a call


class Bank:
    """A server of the MCP SDK that refuses to pay until its URLs have been opened."""

    def __init__(self, *addresses: str) -> None:
        self.addresses, self.paid, self.calls = addresses, list[str](), 0
        self.server = MCPServer("bank", log_level="WARNING")
        self.server.add_tool(self.pay)

    async def pay(self, to: str) -> str:
        """Pay somebody."""
        self.calls += 1
        if self.addresses:
            asked = [
                types.ElicitRequestURLParams(mode="url", message="Connect your account.", url=url, elicitation_id=url)
                for url in self.addresses
            ]
            raise UrlElicitationRequiredError(asked)
        self.paid.append(to)
        return f"paid {to}"


@pytest.mark.parametrize("protocol", ["auto", "legacy"])
async def test_a_call_refused_until_a_url_is_opened_is_repeated_afterwards(protocol: Any) -> None:
    bank = Bank("https://bank.example/connect")
    async with Runtime(mcp.server(bank.server, protocol=protocol)) as runtime:
        waiting = asks(await runtime.call("bank__pay", {"to": "ada"}))
        bank.addresses = ()
        outcome = await runtime.settle(waiting.call_id, True)

    assert waiting.message == "bank asks: Connect your account. Open https://bank.example/connect (on bank.example)"
    assert (waiting.request["mode"], waiting.request["url"]) == ("url", "https://bank.example/connect")
    assert outcome.text == "paid ada"
    assert (bank.paid, bank.calls) == (["ada"], 2)


@pytest.mark.parametrize("protocol", ["auto", "legacy"])
@pytest.mark.parametrize("answer", [False, {"action": "decline"}, {"action": "cancel"}])
async def test_a_call_is_not_made_if_the_person_declines_to_open_the_url(protocol: Any, answer: Any) -> None:
    bank = Bank("https://bank.example/connect")
    async with Runtime(mcp.server(bank.server, protocol=protocol)) as runtime:
        waiting = asks(await runtime.call("bank__pay", {"to": "ada"}))
        outcome = await runtime.settle(waiting.call_id, answer)

    assert isinstance(outcome, Failed)
    assert (outcome.code, outcome.message) == ("rejected", "The person who was asked did not agree.")
    assert (bank.paid, bank.calls) == ([], 1)


async def test_a_server_asks_again_if_the_url_was_not_opened() -> None:
    bank = Bank("https://bank.example/connect", "https://bank.example/terms")
    async with Runtime(mcp.server(bank.server)) as runtime:
        waiting = asks(await runtime.call("bank__pay", {"to": "ada"}))
        both = dict.fromkeys(waiting.request["requests"], True)
        bank.addresses = ("https://bank.example/terms",)
        again = asks(await runtime.settle(waiting.call_id, both))
        bank.addresses = ()
        outcome = await runtime.settle(waiting.call_id, True)

    assert [each["url"] for each in waiting.request["requests"].values()] == [
        "https://bank.example/connect",
        "https://bank.example/terms",
    ]
    assert again.request["url"] == "https://bank.example/terms"
    assert outcome.text == "paid ada"
