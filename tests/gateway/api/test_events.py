"""Event streams: what a client sees, where it reads on, and what it is told when it missed something."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from surehand import Agent, Context, Policy, Runtime, tool
from surehand.agent.models.base import ModelError, ModelRequest, ToolInputChunk
from surehand.builtin.agent.spaces import spaces
from surehand.gateway.access.answers import AnswerRule
from surehand.gateway.access.identity import Identity
from surehand.gateway.access.stream_access import RECHECK_SECONDS
from surehand.gateway.access.tokens import Token, bearer_tokens, hash_token
from surehand.gateway.events.event_log import LoggedEvent, StoredEventLog
from surehand.gateway.events.feed import MAX_BUFFERED_EVENTS, EventListener
from surehand.store.tables.streams import space_stream
from surehand.testing import ManualClock, ScriptedModel
from tests.gateway.api.served_gateway import EventReader, Gate, ServedGateway, bearer, build_runtime, serve

ADA = Token(hash_token("ada"), "ada")
BOB = Token(hash_token("bob"), "bob")


def names(events):
    return [event["sse_event"] for event in events]


async def test_a_stream_starts_with_what_happens_from_now_on():
    async with serve(build_runtime()) as gateway:
        await gateway.call("add", {"a": 1, "b": 2})
        async with gateway.events() as events:
            call_id = (await gateway.call("add", {"a": 3, "b": 4})).json()["call_id"]
            seen = await events.until("CallEnded")

    assert names(seen) == ["CallStarted", "CallEnded"]
    assert {event["call_id"] for event in seen} == {call_id}
    assert seen[0]["arguments"] == {"a": 3, "b": 4}
    assert seen[1]["outcome"] == {"status": "done", "call_id": call_id, "data": 7, "text": "7"}


async def check_resuming(first_runtime: Runtime, second_runtime: Runtime | None) -> None:
    async with serve(first_runtime) as gateway:
        async with gateway.events() as events:
            call_id = (await gateway.call("pay", {"amount": 5})).json()["call_id"]
            seen = await events.until("CallPending")
        await gateway.call("add", {"a": 1, "b": 2})
        if second_runtime is None:
            await gateway.client.post(f"/api/pending/{call_id}/approve")
            async with gateway.events(last_event_id=seen[-1]["sse_id"]) as events:
                rest = [*(await events.until("CallResumed")), *(await events.until("CallEnded"))]
    if second_runtime is not None:
        async with serve(second_runtime) as gateway:
            await gateway.client.post(f"/api/pending/{call_id}/approve")
            async with gateway.events(last_event_id=seen[-1]["sse_id"]) as events:
                rest = [*(await events.until("CallResumed")), *(await events.until("CallEnded"))]

    assert names(seen) == ["CallStarted", "CallPending"]
    calls = [name for name in names(rest) if name != "CatalogueChanged"]
    assert calls == ["CallEnded", "CallStarted", "CallEnded", "CallSettled", "CallResumed", "CallEnded"]
    assert rest[-1]["outcome"]["data"] == "None paid 5"
    numbers = [int(event["sse_id"].rpartition("-")[2]) for event in [*seen, *rest]]
    assert numbers == sorted(set(numbers))


async def test_a_client_reads_on_where_it_stopped():
    await check_resuming(build_runtime(), None)


async def test_a_client_reads_on_after_a_restart_of_the_gateway(tmp_path):
    path = tmp_path / "calls.db"
    await check_resuming(build_runtime(store=path), build_runtime(store=path))


async def test_an_id_of_an_earlier_process_without_a_store_is_answered_with_missed():
    async with serve(build_runtime()) as gateway:
        async with gateway.events(last_event_id="deadbeef-17") as events:
            first = await events.next()
        bad = await gateway.client.get("/api/events", headers={"last-event-id": "x"})

    assert first == {"sse_event": "Missed", "type": "Missed", "count": None}
    assert bad.status_code == 400


async def test_the_stream_of_a_call_ends_with_the_call():
    async with serve(build_runtime()) as gateway:
        call_id = (await gateway.call("pay", {"amount": 5})).json()["call_id"]
        async with gateway.events(f"/api/calls/{call_id}/events") as events:
            await gateway.call("add", {"a": 1, "b": 2})
            await gateway.client.post(f"/api/pending/{call_id}/approve")
            seen = await events.rest()
        async with gateway.events(f"/api/calls/{call_id}/events") as events:
            finished = await events.rest()
        unknown = await gateway.client.get("/api/calls/nothing/events")

    assert names(seen) == ["CallSettled", "CallResumed", "CallEnded"]
    assert names(finished) == ["CallEnded"]
    assert finished[0]["outcome"]["data"] == "None paid 5"
    assert unknown.status_code == 404


async def test_the_stream_of_a_run_shows_its_calls_alone():
    async with serve(build_runtime()) as gateway, gateway.events("/api/runs/r1/events") as events:
        await gateway.call("add", {"a": 1, "b": 2}, turn="r2")
        await gateway.call("add", {"a": 1, "b": 2}, turn="r1")
        seen = await events.until("CallEnded")

    assert {event["turn"] for event in seen} == {"r1"}


async def test_families_name_events_as_other_programs_do():
    expected = {
        "000": ["tool-call.start", "tool-call.complete"],
        "spaces": ["tool-call.start", "tool-call.complete"],
        "001": ["tool_started", "tool_finished"],
        "002": ["TOOL_CALL_REQUESTED", "TOOL_CALL_COMPLETED"],
        "003": ["tool_call", "tool_result"],
    }
    async with serve(build_runtime()) as gateway:
        for family, wanted in expected.items():
            async with gateway.events(f"/api/events?family={family}") as events:
                await gateway.call("add", {"a": 1, "b": 2})
                assert names(await events.until(wanted[-1])) == wanted
        unknown = await gateway.client.get("/api/events?family=nonsense")

    assert unknown.status_code == 422


async def test_a_user_sees_their_own_calls_and_the_waits_that_they_may_answer():
    rules = [AnswerRule(("user:bob",), tools=("pay",))]
    served = serve(build_runtime(), auth=bearer_tokens(ADA, BOB), answers=rules)
    async with served as gateway, gateway.events(token="bob") as events:
        await gateway.call("add", {"a": 1, "b": 2}, token="ada")
        call_id = (await gateway.call("pay", {"amount": 5}, token="ada")).json()["call_id"]
        await gateway.client.post(f"/api/pending/{call_id}/approve", headers=bearer("bob"))
        await gateway.call("add", {"a": 3, "b": 4}, token="bob")
        seen = await events.until("CallEnded")

    assert names(seen) == ["CallPending", "CallSettled", "CallStarted", "CallEnded"]
    assert [event["user"] for event in seen] == ["ada", "ada", "bob", "bob"]


async def test_a_client_that_does_not_read_is_told_how_much_it_missed():
    listener = EventListener(lambda fields: fields["is_mine"])
    listener.put([LoggedEvent(number, {"is_mine": number % 2 == 0}) for number in range(2 * MAX_BUFFERED_EVENTS + 20)])

    news = await listener.wait(1)

    assert [event.number for event in news[:-1]] == [*range(0, 2 * MAX_BUFFERED_EVENTS, 2)]
    assert news[-1].count == 10


async def test_a_space_is_followed_with_its_messages_and_visible_calls(tmp_path):
    async with serve(build_runtime(store=tmp_path / "calls.db"), auth=bearer_tokens(ADA, BOB)) as gateway:
        await gateway.client.post("/api/spaces", json={"id": "team"}, headers=bearer("ada"))
        async with gateway.events("/api/spaces/team/events", token="ada") as events:
            await gateway.client.post("/api/spaces/team/messages", json={"content": "hello"}, headers=bearer("ada"))
            await gateway.call("pick", token="ada", space="team")
            seen = [await events.next() for _ in range(3)]
        async with gateway.events("/api/spaces/team/events", token="ada", last_event_id=seen[0]["sse_id"]) as events:
            again = [await events.next() for _ in range(2)]
        hidden = await gateway.client.get("/api/spaces/team/events", headers=bearer("bob"))

    assert names(seen) == ["message", "tool-call.start", "message.amended"]
    assert seen[0]["content"] == "hello"
    assert again == seen[1:]
    assert hidden.status_code == 404


async def test_streams_end_cleanly_when_the_gateway_shuts_down_and_running_calls_finish():
    gate = Gate()
    async with serve(build_runtime(gate.tool)) as gateway:
        async with gateway.events() as events:
            request = asyncio.create_task(gateway.call("wait"))
            await gate.started.wait()
            gateway.api.begin_shutdown()
            seen = await events.rest()
        not_ready = await gateway.client.get("/readyz")
        gate.opened.set()
        answer = (await request).json()

    assert names(seen) == ["CallStarted"]
    assert not_ready.status_code == 503
    assert answer["data"] == "opened"


async def test_events_of_calls_in_another_process_appear(tmp_path: Path):
    path = tmp_path / "calls.db"
    async with serve(build_runtime(store=path)) as gateway, gateway.events() as events:
        call_id = (await gateway.call("pay", {"amount": 5})).json()["call_id"]
        async with Runtime(store=path) as other:  # as `surehand reject` opens one
            await other.reject(call_id, by="ada")
        seen = await events.until("CallSettled")

    assert seen[-1]["call_id"] == call_id
    assert seen[-1]["verdict"] == "reject"


async def test_a_member_who_was_removed_reads_no_more_of_the_space(tmp_path: Path):
    async with serve(build_runtime(store=tmp_path / "calls.db"), auth=bearer_tokens(ADA, BOB)) as gateway:
        await gateway.client.post("/api/spaces", json={"id": "team"}, headers=bearer("ada"))
        await gateway.client.post("/api/spaces/team/members", json={"id": "bob"}, headers=bearer("ada"))
        async with gateway.events("/api/spaces/team/events", token="bob") as events:
            await gateway.client.post("/api/spaces/team/messages", json={"content": "hello"}, headers=bearer("ada"))
            first = await events.next()
            await gateway.client.delete("/api/spaces/team/members/bob", headers=bearer("ada"))
            await gateway.client.post("/api/spaces/team/messages", json={"content": "secret"}, headers=bearer("ada"))
            rest = await events.rest()

    assert first["content"] == "hello"
    assert rest == []


@pytest.mark.parametrize("path", ["/api/events", "/api/spaces/team/events", "/api/runs/r1/events"])
async def test_a_stream_ends_when_its_token_expires(tmp_path: Path, path: str):
    clock = ManualClock(datetime(2030, 1, 1, tzinfo=UTC).timestamp())
    short = Token(hash_token("short"), "ada", name="short", expires_at=datetime(2030, 1, 1, 0, 1, tzinfo=UTC))
    runtime = build_runtime(store=tmp_path / "calls.db", clock=clock)
    async with serve(runtime, auth=bearer_tokens(ADA, short, now=clock.time)) as gateway:
        await gateway.client.post("/api/spaces", json={"id": "team"}, headers=bearer("ada"))
        async with gateway.events(path, token="short") as events:
            await clock.advance(60)
            await gateway.call("pick", token="ada", space="team", turn="r1")
            rest = await events.rest()
        again = await gateway.client.get(path, headers=bearer("short"))

    assert rest == []
    assert again.status_code == 401


async def test_a_stream_ends_by_itself_at_the_end_of_its_token():
    soon = Token(hash_token("soon"), "ada", expires_at=datetime.now(UTC) + timedelta(seconds=1))
    async with serve(build_runtime(), auth=bearer_tokens(soon)) as gateway, gateway.events(token="soon") as events:
        rest = await events.rest()

    assert rest == []


async def test_a_stream_ends_when_its_token_is_taken_away_or_may_do_less(tmp_path: Path):
    clock = ManualClock()
    identities = {"ada": Identity("ada"), "bob": Identity("bob")}

    async def auth(request):
        return identities.get(request.headers["authorization"].removeprefix("Bearer "))

    async with (
        serve(build_runtime(clock=clock), auth=auth) as gateway,
        gateway.events(token="ada") as taken_away,
        gateway.events(token="bob") as restricted,
        gateway.events(token="bob") as early,
    ):
        identities["bob"] = Identity("bob", frozenset({"tools:add"}))
        del identities["ada"]
        await gateway.call("add", {"a": 1, "b": 2}, token="bob")
        seen = await early.until("CallEnded")
        await clock.advance(RECHECK_SECONDS)
        await gateway.call("add", {"a": 1, "b": 2}, token="bob")
        rest = [await each.rest() for each in (taken_away, restricted, early)]

    assert names(seen) == ["CallStarted", "CallEnded"]
    assert [names(each) for each in rest] == [[], ["CallStarted", "CallEnded"], []]


@tool(effects={"write"}, confirm=True, visible=True)
async def order(amount: int) -> int:
    """Order something."""
    return amount


@tool(effects={"read"}, visible=True)
async def refund() -> str:
    """Fail."""
    raise ValueError("no luck")


_OWN = [
    "message",
    "tool-call.start",
    *["message.amended"] * 2,
    "tool-call.complete",
    "tool-call.start",
    "tool-call.error",
]
SPACE_EVENTS = {
    None: _OWN,
    "000": _OWN,
    "001": ["tool_started", "tool_finished", "tool_started", "tool_finished"],
    "002": ["TOOL_CALL_REQUESTED", "TOOL_CALL_COMPLETED", "TOOL_CALL_REQUESTED", "TOOL_CALL_FAILED"],
    "003": ["tool_call", "tool_confirmation_required", "tool_result", "tool_call", "tool_result"],
}


@pytest.mark.parametrize("family", [*SPACE_EVENTS])
async def test_the_events_of_a_space_are_named_as_other_programs_do(tmp_path: Path, family: str | None):
    query = "" if family is None else f"?family={family}"
    expected = SPACE_EVENTS[family]
    async with serve(Runtime(order, refund, store=tmp_path / "calls.db")) as gateway:
        await gateway.client.post("/api/spaces", json={"id": "team"})
        await gateway.client.post("/api/spaces/team/members", json={"id": "ada"})
        async with gateway.events(f"/api/spaces/team/events{query}") as events:
            await gateway.client.post("/api/spaces/team/messages", json={"content": "hello", "sender": "ada"})
            call_id = (await gateway.call("order", {"amount": 5}, space="team")).json()["call_id"]
            await gateway.client.post(f"/api/pending/{call_id}/approve")
            await gateway.call("refund", space="team")
            seen = await events.until(expected[-1])
            while len([each for each in seen if "type" in each]) < len(expected):
                seen += await events.until(expected[-1])
        unknown = await gateway.client.get("/api/spaces/team/events?family=nonsense")

    assert [each["sse_event"] for each in seen if "type" in each] == expected
    assert [int(each["sse_id"]) for each in seen] == sorted({int(each["sse_id"]) for each in seen})
    assert unknown.status_code == 422
    if family == "003":
        assert [each["callId"] for each in seen if "callId" in each][:3] == [call_id] * 3
        assert [each["isError"] for each in seen if each.get("type") == "tool_result"] == [False, True]


WRITTEN = '{"shape": "circle"}'


def read_deltas(events: list[dict[str, Any]]) -> str:
    """The pieces of arguments that a client got."""
    names = ("tool-input-delta", "tool_call_delta")
    return "".join(each["delta"] for each in events if each.get("type") in names)


@pytest.mark.parametrize("family", [None, "000", "003"])
async def test_a_space_sees_the_arguments_of_a_visible_call_as_they_are_written(tmp_path: Path, family: str | None):
    @tool(effects={"read"}, visible=True)
    async def draw(shape: str) -> str:
        """Draw a shape."""
        return shape

    @tool(effects={"read"}, visible=False)
    async def think(thought: str, ctx: Context) -> str:
        """Enter the space."""
        await ctx.enter_space("team")
        return thought

    replies = (
        [("think", {"thought": "a secret"})],
        [("think", {"thought": "more"}), ("draw", {"shape": "circle"})],
        "Ok.",
    )
    agent = Agent("artist", model=ScriptedModel(*replies), tools=[draw, think])
    query = "" if family is None else f"?family={family}"
    async with serve(Runtime(draw, think, store=tmp_path / "calls.db"), agents=[agent]) as gateway:
        await gateway.client.post("/api/spaces", json={"id": "team"})
        await gateway.client.post("/api/spaces", json={"id": "other"})
        async with (
            gateway.events(f"/api/spaces/team/events{query}") as events,
            gateway.events(f"/api/spaces/other/events{query}") as elsewhere,
        ):
            await gateway.client.post("/api/agents/artist/run", json={"prompt": "Draw.", "session": "s"})
            seen = []
            while len(read_deltas(seen)) < len(WRITTEN):
                seen.append(await events.next())
            gateway.api.begin_shutdown()
            seen += await events.rest()
            hidden = await elsewhere.rest()

    assert read_deltas(seen) == WRITTEN
    assert all("sse_id" not in each for each in seen if "delta" in each)
    assert "secret" not in json.dumps(seen)
    assert "Ok." not in json.dumps(seen)
    assert hidden == []


@tool(effects={"read"}, confirm=True, visible=False)
async def ask_boss() -> str:
    """Wait for the boss."""
    return "Yes."


def activity(events: list[dict[str, Any]]) -> list[tuple[str, str, str]]:
    """Which agents began and ended to work, and in which space."""
    return [
        (each["sse_event"], each["agentId"], each["spaceId"])
        for each in events
        if each.get("sse_event", "").startswith("agent.")
    ]


@pytest.mark.parametrize("family", [None, "000"])
async def test_a_space_is_told_while_an_agent_works_on_a_message_of_it(tmp_path: Path, family: str | None):
    query = "" if family is None else f"?family={family}"
    agent = Agent("planner", model=ScriptedModel([("ask_boss", {})], "Done."), tools=[ask_boss])
    async with serve(Runtime(store=tmp_path / "calls.db"), agents=[agent]) as gateway:
        await gateway.client.post("/api/spaces", json={"id": "team"})
        await gateway.client.post("/api/spaces/team/members", json={"id": "ada"})
        await gateway.client.post("/api/spaces/team/members", json={"id": "planner", "kind": "agent"})
        async with (
            gateway.events(f"/api/spaces/team/events{query}") as events,
            gateway.events("/api/spaces/team/events?family=003") as other_family,
        ):
            await gateway.client.post("/api/spaces/team/messages", json={"content": "Go on?", "sender": "ada"})
            until_it_waits = await events.until("agent.inactive")
            [wait] = (await gateway.client.get("/api/pending")).json()["items"]
            await gateway.client.post(f"/api/pending/{wait['call_id']}/approve")
            until_it_ends = await events.until("agent.inactive")
            gateway.api.begin_shutdown()
            of_other_family = await other_family.rest()
        [run] = (await gateway.client.get("/api/runs")).json()["items"]

    expected = [("agent.active", "planner", "team"), ("agent.inactive", "planner", "team")]
    assert [activity(until_it_waits), activity(until_it_ends)] == [expected, expected]
    assert {each["runId"] for each in [*until_it_waits, *until_it_ends] if "runId" in each} == {run["run_id"]}
    assert not any("type" in each for each in of_other_family)


async def test_an_agent_works_in_the_space_that_it_enters_until_it_leaves_it_or_its_run_ends(tmp_path: Path):
    replies = (
        [("enter_space", {"spaceId": "team"})],
        [("enter_space", {"spaceId": "other"})],
        "Here.",
        "Still here.",
    )
    agent = Agent("planner", model=ScriptedModel(*replies), tools=spaces())
    seen: list[dict[str, Any]] = []
    for prompt in ("Go there.", "Where are you?"):  # in another process, the agent still is where it was
        async with serve(Runtime(store=tmp_path / "calls.db"), agents=[agent]) as gateway:
            for space in ("team", "other"):
                await gateway.client.post("/api/spaces", json={"id": space})
                await gateway.client.post(f"/api/spaces/{space}/members", json={"id": "planner", "kind": "agent"})
            async with (
                gateway.events("/api/spaces/team/events") as in_team,
                gateway.events("/api/spaces/other/events") as in_other,
            ):
                await gateway.client.post("/api/agents/planner/run", json={"prompt": prompt, "session": "s"})
                seen += await in_other.until("agent.inactive")
                gateway.api.begin_shutdown()
                seen += await in_team.rest()

    in_other_space = [("agent.active", "planner", "other"), ("agent.inactive", "planner", "other")]
    in_team_space = [("agent.active", "planner", "team"), ("agent.inactive", "planner", "team")]
    assert activity(seen) == [*in_other_space, *in_team_space, *in_other_space]


@asynccontextmanager
async def watch_messages(
    tmp_path: Path, model: Any, query: str = "", **options: Any
) -> AsyncIterator[tuple[ServedGateway, EventReader, EventReader]]:
    """A gateway whose agent is in the space `team`, and readers of that space and of `other`."""
    runtime = Runtime(store=tmp_path / "calls.db", **options)
    agent = Agent("planner", model=model, tools=spaces())
    async with serve(runtime, agents=[agent]) as gateway:
        for space in ("team", "other"):
            await gateway.client.post("/api/spaces", json={"id": space})
            await gateway.client.post(f"/api/spaces/{space}/members", json={"id": "planner", "kind": "agent"})
        await runtime.scope(agent="planner", session="s").enter_space("team")
        async with (
            gateway.events(f"/api/spaces/team/events{query}") as in_team,
            gateway.events(f"/api/spaces/other/events{query}") as in_other,
        ):
            yield gateway, in_team, in_other


async def run_planner(gateway: ServedGateway) -> dict[str, Any]:
    body = {"prompt": "Say it.", "session": "s", "run_id": "r1"}
    return (await gateway.client.post("/api/agents/planner/run", json=body)).json()


def streamed(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [each for each in events if each.get("sse_event", "").startswith("space.message")]


SAID = 'Ünï said: "We start\nat noon 😀, all of us, in the small room." '


@pytest.mark.parametrize(("query", "text"), [("", SAID), ("?family=000", 100 * SAID)], ids=["short", "long"])
async def test_a_space_sees_a_message_while_a_model_writes_it(tmp_path: Path, query: str, text: str):
    model = ScriptedModel([("send_message", {"text": text})], "A secret.")
    async with watch_messages(tmp_path, model, query) as (gateway, in_team, in_other):
        await run_planner(gateway)
        seen = await in_team.until("agent.inactive")
        while "message" not in [each.get("sse_event") for each in seen]:  # it comes from another stream of the store
            seen += [await in_team.next() or {}]
        gateway.api.begin_shutdown()
        elsewhere = await in_other.rest()

    [message] = [each for each in seen if each.get("sse_event") == "message"]
    events = streamed(seen)
    assert [each["phase"] for each in events] == ["start", *["delta"] * (len(events) - 2), "done"]
    assert "".join(each.get("delta", "") for each in events) == message["content"] == text
    assert {each["streamId"] for each in events} == {message["streamId"]}
    assert "secret" not in json.dumps(seen)
    assert elsewhere == []


async def pass_on(invocation: Any, proceed: Any) -> Any:
    return await proceed(invocation)


@pytest.mark.parametrize(
    ("options", "calls"),
    [
        ({"policy": Policy.default()}, [("send_message", {"text": "Hello"})]),
        ({"middleware": [pass_on]}, [("send_message", {"text": "Hello"})]),
        ({}, [("enter_space", {"spaceId": "other"}), ("send_message", {"text": "Hello"})]),
    ],
    ids=["a policy may ask", "middleware may change it", "the space may change"],
)
async def test_a_message_that_may_not_be_posted_as_it_is_written_is_not_streamed(
    tmp_path: Path, options: dict[str, Any], calls: Any
):
    async with watch_messages(tmp_path, ScriptedModel(calls, "Done."), **options) as (gateway, in_team, in_other):
        await run_planner(gateway)
        seen = await in_team.until("agent.inactive")
        gateway.api.begin_shutdown()
        seen += [*await in_team.rest(), *await in_other.rest()]

    assert streamed(seen) == []


async def test_a_message_of_an_agent_that_is_no_member_is_not_streamed(tmp_path: Path):
    model = ScriptedModel([("send_message", {"text": "Hello"})], "Done.")
    async with watch_messages(tmp_path, model) as (gateway, in_team, _):
        await gateway.client.delete("/api/spaces/team/members/planner")
        await run_planner(gateway)
        seen = await in_team.until("agent.inactive")

    assert streamed(seen) == []


class HalfWritten:
    """A model that begins a message and then fails, or writes no more until the test has cancelled the run."""

    name = "half-written"

    def __init__(self, error: Exception | None) -> None:
        self._error = error

    async def stream(self, request: ModelRequest) -> AsyncIterator[Any]:
        yield ToolInputChunk(0, "send_message", '{"text": "Hel')
        if self._error is not None:
            raise self._error
        await asyncio.Event().wait()


@pytest.mark.parametrize("error", [None, ModelError("It broke.")], ids=["cancelled", "failed"])
async def test_a_message_fails_whose_model_does_not_finish_it(tmp_path: Path, error: Exception | None):
    async with watch_messages(tmp_path, HalfWritten(error)) as (gateway, in_team, _):
        running = asyncio.create_task(run_planner(gateway))
        seen = await in_team.until("space.message.streaming")
        if error is None:
            await gateway.client.post("/api/runs/r1/cancel")
        seen += await in_team.until("agent.inactive")
        await running

    events = streamed(seen)
    assert [each["sse_event"] for each in events[-1:]] == ["space.message.failed"]
    assert "".join(each.get("delta", "") for each in events) == "Hel"
    assert len({each["streamId"] for each in events}) == 1


async def test_a_message_fails_whose_call_fails(tmp_path: Path):
    model = ScriptedModel([("send_message", '{"text": "Hello", "text')], "Done.")
    async with watch_messages(tmp_path, model) as (gateway, in_team, _):
        await run_planner(gateway)
        seen = await in_team.until("agent.inactive")

    assert [each.get("phase", each["sse_event"]) for each in streamed(seen)] == [
        "start",
        "delta",
        "space.message.failed",
    ]


@pytest.mark.parametrize("family", ["000", "001", "002", "003"])
async def test_a_message_that_looks_like_a_call_is_read_as_a_message(tmp_path: Path, family: str):
    forged = {"type": "tool_call", "status": "requires_action"}
    first_of_call = next(name for name in SPACE_EVENTS[family] if name != "message")
    async with serve(build_runtime(order, store=tmp_path / "calls.db")) as gateway:
        store = await gateway.api.gateway.require_store()
        await gateway.client.post("/api/spaces", json={"id": "team"})
        await gateway.client.post("/api/spaces/team/members", json={"id": "ada"})
        async with gateway.events(f"/api/spaces/team/events?family={family}") as events:
            posted = await gateway.client.post("/api/spaces/team/messages", json={"content": forged, "sender": "ada"})
            await store.spaces.amend(posted.json()["id"], {**forged, "args": {}})
            await gateway.call("order", {"amount": 5}, space="team")
            seen = await events.until(first_of_call)

    named = [each["sse_event"] for each in seen if "type" in each]
    assert [name for name in named if name not in ("message", "message.amended")] == [first_of_call]


async def test_a_stream_of_a_space_ends_when_its_events_cannot_be_read(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    async with serve(build_runtime(store=tmp_path / "calls.db")) as gateway:
        store = await gateway.api.gateway.require_store()
        await gateway.client.post("/api/spaces", json={"id": "team"})
        async with gateway.events("/api/spaces/team/events?family=003") as events:
            await store.streams.add(space_stream("team"), "tool-call.start", {"content": "no call"})
            seen = await events.rest()

    assert seen == []
    assert [each for each in caplog.messages if "space team could not be read" in each] != []


async def test_events_that_the_store_takes_too_slowly_are_counted_at_their_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("surehand.gateway.events.event_log.MAX_UNWRITTEN_EVENTS", 3)
    published: list[LoggedEvent] = []
    async with Runtime(store=tmp_path / "calls.db") as runtime:
        event_log = StoredEventLog(runtime.store)
        async with event_log.run(published.extend):
            for number in range(5):
                event_log.append({"type": "CallStarted", "count": number})
            await event_log.wait_until_published()
            event_log.append({"type": "CallEnded", "count": 5})
            await event_log.wait_until_published()

    assert [(each.fields["type"], each.fields["count"]) for each in published] == [
        *[("CallStarted", number) for number in range(3)],
        ("Missed", 2),
        ("CallEnded", 5),
    ]
