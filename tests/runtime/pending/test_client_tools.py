"""Client tools: a browser, a person or a webhook does the work, and its answer is the outcome."""

import asyncio
import sqlite3
from contextlib import closing
from typing import Any

import pytest

from surehand import (
    Approval,
    Call,
    Context,
    DefinitionError,
    Done,
    Failed,
    Outcome,
    Pending,
    Provider,
    Runtime,
    Tool,
    tool,
)
from surehand.testing import ManualClock

SIZE = {"type": "object", "properties": {"size": {"type": "integer"}}, "additionalProperties": False}


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


def client(reply: Any = "later", **options: Any) -> Tool[..., Any]:
    return tool.client("choose", "Let the person choose.", parameters=SIZE, reply=reply, **options)


async def waiting_caller(runtime: Runtime, call_id: str = "c1") -> asyncio.Task[Outcome]:
    """A caller that waits for the answer to its call."""
    asked = asyncio.Event()
    unsubscribe = runtime.listen(lambda event: asked.set() if type(event).__name__ == "CallPending" else None)
    caller = asyncio.create_task(runtime.call("choose", call_id=call_id))
    await asked.wait()
    unsubscribe()
    return caller


# Replies


async def test_a_client_tool_without_reply_is_done_at_once() -> None:
    async with Runtime(client("none")) as runtime:
        outcome = await runtime.call("choose", {"size": 3})

        assert outcome == Done("[choose rendered on client]")
        assert await runtime.pending() == []


async def test_no_reply_is_the_default() -> None:
    async with Runtime(tool.client("show", "Show a chart.")) as runtime:
        assert (await runtime.call("show")).text == "[show rendered on client]"


@pytest.mark.parametrize("default", ["shown", "", 0, {"shown": True}, ["a"], Done({"shown": 1}, title="Shown")])
async def test_the_default_result_may_be_anything(default: Any) -> None:
    async with Runtime(client("none", default=default)) as runtime:
        outcome = await runtime.call("choose")

    assert outcome == (default if isinstance(default, Done) else Done(default))


async def test_the_arguments_of_a_client_tool_are_checked_first() -> None:
    for reply in ("none", "wait", "later"):
        async with Runtime(client(reply)) as runtime:
            failed(await runtime.call("choose", {"size": "large"}), "invalid_arguments")
            assert await runtime.pending() == []


async def test_a_client_tool_with_reply_later_is_pending_at_once_with_its_display() -> None:
    async with Runtime(client(display={"customUI": "sizes"})) as runtime:
        outcome = pending(await runtime.call("choose", {"size": 3}, call_id="c1"))
        (wait,) = await runtime.pending()

    assert (outcome.waiting_for, outcome.call_id, outcome.request) == ("result", "c1", {"customUI": "sizes"})
    assert (wait.tool, wait.arguments, wait.waiting_for) == ("choose", {"size": 3}, "result")
    assert '"status":"pending"' in outcome.text
    assert '"pendingToolCallId":"c1"' in outcome.text


async def test_the_answer_is_the_outcome_of_the_call() -> None:
    async with Runtime(client()) as runtime:
        outcome = await runtime.settle(id_of(await runtime.call("choose")), {"size": 4})

        assert outcome == Done({"size": 4})
        assert await runtime.pending() == []


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        ("large", Done("large")),
        (None, Done(None)),
        ({"size": 4}, Done({"size": 4})),
        ([1, 2], Done([1, 2])),
        (False, Done(False)),
        (Done(5, title="Chosen"), Done(5, title="Chosen")),
        (Failed("failed", "the person left"), Failed("failed", "the person left")),
    ],
)
@pytest.mark.parametrize("reply", ["wait", "later"])
async def test_an_answer_is_a_value_a_done_or_a_failed(reply: str, answer: Any, outcome: Outcome) -> None:
    async with Runtime(client(reply)) as runtime:
        caller = await waiting_caller(runtime)
        settled = await runtime.settle("c1", answer)
        seen = await caller
        again = await runtime.settle("c1", answer)

    assert settled == again == outcome
    assert seen == outcome if reply == "wait" else isinstance(seen, Pending)


async def test_a_caller_with_patience_gets_the_answer_itself() -> None:
    clock = ManualClock()
    async with Runtime(client("wait", timeout=60), clock=clock) as runtime:
        caller = await waiting_caller(runtime)
        await clock.advance(59)
        settled = await runtime.settle("c1", "large")

        assert await caller == settled == Done("large")


async def test_the_client_gets_the_event_before_the_caller_waits() -> None:
    told: list[str] = []
    async with Runtime(client("wait", display={"customUI": "sizes"})) as runtime:
        runtime.listen(lambda event: told.append(type(event).__name__))
        caller = await waiting_caller(runtime)
        before = list(told)
        await runtime.settle("c1", 1)
        await caller

    assert before == ["CallStarted", "CallPending"]


async def test_when_patience_ends_the_caller_gets_the_pending_and_a_late_answer_still_settles_it() -> None:
    clock, events = ManualClock(), []
    async with Runtime(client("wait", timeout=30), clock=clock) as runtime:
        caller = await waiting_caller(runtime)
        await clock.advance(30)
        outcome = pending(await caller)
        runtime.listen(events.append)
        settled = await runtime.settle("c1", "large", by="ann")
        recalled = await runtime.call("choose", call_id="c1")

    assert (outcome.waiting_for, outcome.call_id) == ("result", "c1")
    assert settled == recalled == Done("large")
    told = [(type(event).__name__, event.call_id) for event in events]
    assert told[:3] == [("CallSettled", "c1"), ("CallResumed", "c1"), ("CallEnded", "c1")]
    assert (events[0].verdict, events[0].by, events[2].outcome) == ("settle", "ann", Done("large"))


async def test_a_client_tool_waits_half_a_minute_by_default() -> None:
    clock = ManualClock()
    async with Runtime(client("wait"), clock=clock) as runtime:
        caller = await waiting_caller(runtime)
        await clock.advance(29.9)
        waiting = not caller.done()
        await clock.advance(0.1)

        assert waiting
        assert pending(await caller).call_id == "c1"


async def test_the_time_limit_of_the_runtime_does_not_count_while_a_client_works() -> None:
    clock = ManualClock()
    async with Runtime(client("wait", timeout=300), clock=clock, defaults={"tool_timeout": 1.0}) as runtime:
        caller = await waiting_caller(runtime)
        await clock.advance(299)
        await runtime.settle("c1", "late but fine")

        assert (await caller).unwrap() == "late but fine"


async def test_a_caller_with_less_patience_than_the_tool_gets_the_pending() -> None:
    clock, asked = ManualClock(), asyncio.Event()
    async with Runtime(client("wait", timeout=60), clock=clock) as runtime:
        runtime.listen(lambda event: asked.set() if type(event).__name__ == "CallPending" else None)
        caller = asyncio.create_task(runtime.call("choose", timeout=5, call_id="c1"))
        await asked.wait()
        await clock.advance(5)
        outcome = await caller

        assert pending(outcome).call_id == "c1"
        assert (await runtime.settle("c1", "large")).unwrap() == "large"


async def test_a_caller_that_is_cancelled_leaves_the_wait_open_for_a_later_answer() -> None:
    async with Runtime(client("wait")) as runtime:
        caller = await waiting_caller(runtime)
        caller.cancel()
        await asyncio.wait({caller})
        still_open = [wait.call_id for wait in await runtime.pending()]
        settled = await runtime.settle("c1", "large")

        assert caller.cancelled()
        assert still_open == ["c1"]
        assert settled == Done("large")
        assert await runtime.call("choose", call_id="c1") == Done("large")


@pytest.mark.parametrize("steps", range(8))
async def test_an_answer_in_the_moment_its_caller_leaves_is_not_lost(steps: int) -> None:
    async with Runtime(client("wait")) as runtime:
        caller = await waiting_caller(runtime)
        settling = asyncio.create_task(runtime.settle("c1", "large"))
        for _ in range(steps):
            await asyncio.sleep(0)
        caller.cancel()
        await asyncio.wait({caller})

        assert await settling == Done("large")
        assert await runtime.settle("c1", "large") == Done("large")
        assert await runtime.call("choose", call_id="c1") == Done("large")


async def test_a_waiting_call_is_cancelled_by_its_id() -> None:
    async with Runtime(client("wait")) as runtime:
        caller = await waiting_caller(runtime)

        assert await runtime.cancel("c1")
        failed(await caller, "cancelled")
        assert await runtime.pending() == []
        failed(await runtime.settle("c1", "late"), "conflict")


async def test_a_runtime_that_closes_answers_the_callers_that_wait() -> None:
    async with Runtime(client("wait")) as runtime:
        caller = await waiting_caller(runtime)

    failed(await caller, "cancelled")


# Answers


async def test_the_same_answer_again_gets_the_stored_outcome_and_another_is_a_conflict() -> None:
    async with Runtime(client()) as runtime:
        asked = id_of(await runtime.call("choose"))
        first = await runtime.settle(asked, {"a": 1, "b": [2]})
        same = await runtime.settle(asked, {"b": [2], "a": 1})
        other = await runtime.settle(asked, {"a": 2})
        failure = await runtime.settle(asked, Failed("failed", "no"))
        rejected = await runtime.reject(asked)
        still = await runtime.settle(asked, {"a": 1, "b": [2]})

    assert first == same == still == Done({"a": 1, "b": [2]})
    for outcome in (other, failure, rejected):
        failed(outcome, "conflict")


async def test_of_fifty_different_answers_at_once_exactly_one_wins() -> None:
    async with Runtime(client()) as runtime:
        asked = id_of(await runtime.call("choose"))
        outcomes = await asyncio.gather(*(runtime.settle(asked, number) for number in range(50)))
        winners = [outcome for outcome in outcomes if outcome.ok]

        assert len(winners) == 1
        assert [outcome.code for outcome in outcomes if isinstance(outcome, Failed)] == ["conflict"] * 49
        assert await runtime.settle(asked, winners[0].unwrap()) == winners[0]


async def test_fifty_equal_answers_at_once_all_get_the_outcome() -> None:
    ended: list[Any] = []
    async with Runtime(client("wait")) as runtime:
        caller = await waiting_caller(runtime)
        runtime.listen(lambda event: ended.append(event) if type(event).__name__ == "CallEnded" else None)
        outcomes = await asyncio.gather(*(runtime.settle("c1", "large") for _ in range(50)))

        assert outcomes == [Done("large")] * 50
        assert await caller == Done("large")
    assert len(ended) == 1


async def test_an_answer_that_cannot_be_written_leaves_the_wait_open() -> None:
    holds_itself: list[Any] = []
    holds_itself.append(holds_itself)
    async with Runtime(client()) as runtime:
        asked = id_of(await runtime.call("choose"))
        for wrong in (object(), holds_itself, {"when": lambda: 1}, Done(object())):
            failed(await runtime.settle(asked, wrong), "invalid_arguments")

        assert [wait.call_id for wait in await runtime.pending()] == [asked]
        assert (await runtime.settle(asked, "large")).ok


async def test_an_approval_does_not_answer_a_wait_for_a_result() -> None:
    async with Runtime(client()) as runtime:
        asked = id_of(await runtime.call("choose"))

        failed(await runtime.approve(asked), "conflict")
        assert (await runtime.settle(asked, "large")).ok


async def test_a_call_that_is_not_answered_in_time_expires() -> None:
    clock = ManualClock()
    async with Runtime(client(), clock=clock, defaults={"pending_ttl": 60.0}) as runtime:
        asked = id_of(await runtime.call("choose", call_id="c1"))
        await clock.advance(60)

        assert await runtime.pending() == []
        failed(await runtime.settle(asked, "late"), "expired")
        failed(await runtime.call("choose", call_id="c1"), "expired")


async def test_a_large_answer_is_clipped_like_any_output_and_its_data_stays_whole() -> None:
    async with Runtime(client(), defaults={"max_output": 1000}) as runtime:
        outcome = await runtime.settle(id_of(await runtime.call("choose")), "x" * 5000)

    assert outcome.unwrap() == "x" * 5000
    assert len(outcome.text) < 2000
    assert "tool_output" in outcome.text


async def test_an_answer_passes_through_middleware_like_any_output() -> None:
    async def shout(invocation: Any, proceed: Any) -> Outcome:
        outcome = await proceed(invocation)
        return Done(outcome.data.upper()) if isinstance(outcome, Done) else outcome

    for reply in ("wait", "later"):
        async with Runtime(client(reply), middleware=[shout]) as runtime:
            caller = await waiting_caller(runtime)

            assert await runtime.settle("c1", "large") == Done("LARGE")
            assert (await caller).ok == (reply == "wait")


async def test_an_answer_for_a_tool_that_has_gone_still_counts() -> None:
    async with Runtime(client()) as runtime:
        asked = id_of(await runtime.call("choose"))
        runtime.catalogue.remove("choose")

        assert await runtime.settle(asked, "large") == Done("large")
        assert await runtime.settle(asked, "large") == Done("large")


# Approved client tools


async def test_a_client_tool_that_asks_waits_twice() -> None:
    rounds: list[Any] = []
    async with Runtime(client(confirm=True)) as runtime:
        asked = id_of(await runtime.call("choose", {"size": 3}))
        rounds += [(wait.waiting_for, wait.round) for wait in await runtime.pending()]
        approved = pending(await runtime.approve(asked))
        rounds += [(wait.waiting_for, wait.round) for wait in await runtime.pending()]
        again = pending(await runtime.approve(asked))
        too_late = await runtime.reject(asked, round=1)
        outcome = await runtime.settle(asked, "large")

    assert rounds == [("approval", 1), ("result", 2)]
    assert (approved.waiting_for, approved.call_id) == ("result", asked)
    assert again == approved
    failed(too_late, "conflict")
    assert outcome == Done("large")


async def test_an_approver_of_a_client_tool_with_patience_waits_for_the_answer() -> None:
    clock = ManualClock()
    async with Runtime(client("wait", confirm=True, timeout=30), clock=clock) as runtime:
        asked = id_of(await runtime.call("choose"))
        approving = asyncio.create_task(runtime.approve(asked))
        await clock.advance(29)
        (wait,) = await runtime.pending()
        settled = await runtime.settle(asked, "large")

        assert (wait.call_id, wait.waiting_for, wait.round) == (asked, "result", 2)
        assert await approving == settled == Done("large")
        assert await runtime.approve(asked) == Done("large")


async def test_the_patience_of_an_approver_ends_and_the_answer_comes_later() -> None:
    clock = ManualClock()
    async with Runtime(client("wait", confirm=True, timeout=30), clock=clock) as runtime:
        asked = id_of(await runtime.call("choose"))
        approving = asyncio.create_task(runtime.approve(asked))
        await clock.advance(30)

        assert pending(await approving).waiting_for == "result"
        assert await runtime.settle(asked, "large") == Done("large")


async def test_a_call_that_the_approver_allowed_does_not_ask_again() -> None:
    asked: list[Any] = []

    async def approver(wait: Any) -> Approval | None:
        asked.append(wait)
        return Approval() if len(asked) == 1 else None

    for reply in ("wait", "later"):
        asked.clear()
        async with Runtime(client(reply, confirm=True), approver=approver) as runtime:
            caller = await waiting_caller(runtime)

            assert await runtime.settle("c1", "large") == Done("large")
            await caller
        assert len(asked) == 1


async def test_a_rejected_client_tool_never_reaches_the_client() -> None:
    async with Runtime(client(confirm=True)) as runtime:
        asked = id_of(await runtime.call("choose"))
        failed(await runtime.reject(asked, "not now"), "rejected")

        assert await runtime.pending() == []


# Input in several rounds


class Form(Provider):
    """A provider that asks for as many lines as a call wants."""

    namespace, kind = "form", "mcp"

    async def tools(self) -> list[Tool[..., Any]]:
        return [tool.external("fill", "Fill a form.", parameters=SIZE).evolve(kind="mcp", handler=None)]

    async def invoke(self, call: Call, context: Context) -> Outcome:
        return Pending("input", message="Line 1?", request={"type": "object"}, state=[])

    async def resume(self, call: Call, state: Any, answer: Any, context: Any) -> Any:
        lines = [*state, answer]
        wanted = dict(call.arguments or {})["size"]
        if len(lines) < wanted:
            return Pending("input", message=f"Line {len(lines) + 1}?", state=lines)
        return lines


async def test_a_provider_may_ask_for_input_several_times() -> None:
    async with Runtime(Form()) as runtime:
        asked = id_of(await runtime.call("form__fill", {"size": 2}))
        second = pending(await runtime.settle(asked, "one"))
        (wait,) = await runtime.pending()
        outcome = await runtime.settle(asked, "two")

    assert (second.waiting_for, second.message, wait.round) == ("input", "Line 2?", 2)
    assert outcome == Done(["one", "two"])


async def test_the_same_answer_may_be_given_to_two_questions() -> None:
    async with Runtime(Form()) as runtime:
        asked = id_of(await runtime.call("form__fill", {"size": 2}))
        await runtime.settle(asked, "yes")
        outcome = await runtime.settle(asked, "yes")
        again = await runtime.settle(asked, "yes")

    assert outcome == again == Done(["yes", "yes"])


# External and hosted tools


async def test_the_result_of_an_external_tool_arrives_later() -> None:
    async with Runtime(tool.external("batch", "Start a batch job.", parameters=SIZE)) as runtime:
        outcome = pending(await runtime.call("batch", {"size": 3}))
        (wait,) = await runtime.pending()

        assert outcome.waiting_for == "result"
        assert outcome.message == "batch waits for an answer."  # a person reads it too
        assert (wait.tool, wait.arguments) == ("batch", {"size": 3})
        assert await runtime.settle(id_of(outcome), {"rows": 3}, by="webhook") == Done({"rows": 3})


async def test_an_external_tool_can_report_a_failure() -> None:
    async with Runtime(tool.external("batch", "Start a batch job.")) as runtime:
        asked = id_of(await runtime.call("batch"))
        outcome = failed(await runtime.settle(asked, Failed("failed", "disk full", executed=True)), "failed")

    assert (outcome.message, outcome.executed) == ("disk full", True)


async def test_a_hosted_tool_is_described_but_cannot_be_called_here() -> None:
    grounding = tool.hosted("web_search_preview", options={"openai": {"type": "web_search"}})
    async with Runtime(grounding) as runtime:
        outcome = failed(await runtime.call("web_search_preview"), "unavailable")
        described = list(runtime.describe("openai"))

    assert "the model's own provider" in outcome.text
    assert described == [{"type": "web_search"}]


# Tools for people


def for_people(ran: list[Any], **options: Any) -> Tool[..., Any]:
    @tool(audience="user", aliases=("clear",), **options)
    async def reset(keep: int = 0) -> str:
        """Forget everything."""
        ran.append(keep)
        return "forgotten"

    return reset


@pytest.mark.parametrize("name", ["reset", "clear"])
async def test_a_tool_for_people_is_dispatched_by_name_or_alias(name: str) -> None:
    ran: list[Any] = []
    async with Runtime(for_people(ran)) as runtime:
        outcome = await runtime.dispatch(name, {"keep": "3"})

    assert outcome == Done("forgotten")
    assert ran == [3]


async def test_a_tool_for_people_is_refused_to_models() -> None:
    ran: list[Any] = []

    @tool(audience="all")
    async def both() -> int:
        """For everybody."""
        return 1

    @tool
    async def model_only(ctx: Context) -> str:
        """Tries to call it."""
        return (await ctx.call("reset")).text

    async with Runtime(for_people(ran), both, model_only) as runtime:
        for name in ("reset", "clear"):
            failed(await runtime.call(name), "denied")
        failed((await runtime.call_many([Call("reset")]))[0], "denied")
        nested = await runtime.call("model_only")
        described = {shown["name"] for shown in runtime.describe("anthropic")}
        everybody = (await runtime.call("both"), await runtime.dispatch("both"))
        for_models = await runtime.dispatch("model_only")

    assert "reset is not allowed here" in nested.text
    assert described == {"both", "model_only"}
    assert everybody == (Done(1), Done(1))
    assert for_models.ok
    assert ran == []


@pytest.mark.parametrize("format", ["openai", "anthropic", "gemini", "mcp"])
async def test_a_tool_for_people_is_described_to_no_model(format: str) -> None:
    async with Runtime(for_people([])) as runtime:
        assert "reset" not in str(list(runtime.describe(format)))


async def test_dispatch_checks_arguments_policy_and_confirmation() -> None:
    ran: list[Any] = []
    async with Runtime(for_people(ran, confirm=True)) as runtime:
        wrong = await runtime.dispatch("reset", {"keep": "some"})
        asked = await runtime.dispatch("reset", {"keep": 2})
        ran_before = list(ran)
        approved = await runtime.approve(id_of(asked))
        runtime.policy = [{"tools": "reset", "decision": "deny"}]
        denied = await runtime.dispatch("clear")

    failed(wrong, "invalid_arguments")
    assert pending(asked).waiting_for == "approval"
    assert ran_before == []
    assert approved == Done("forgotten")
    failed(denied, "denied")
    assert ran == [2]


async def test_dispatch_of_an_unknown_name_suggests_the_nearest() -> None:
    async with Runtime(for_people([])) as runtime:
        outcome = failed(await runtime.dispatch("rest"), "not_found")

    assert "reset" in outcome.text


# The event of a wait


@pytest.mark.parametrize("event_name", ["CallStarted", "CallPending"])
@pytest.mark.parametrize("reply", ["wait", "later", "external"])
@pytest.mark.parametrize("is_durable", [False, True])
async def test_an_answer_to_the_event_of_a_client_tool_always_counts(
    tmp_path: Any, event_name: str, reply: str, is_durable: bool
) -> None:
    asking = tool.external("choose", "Choose later.") if reply == "external" else client(reply)
    answers: list[asyncio.Task[Outcome]] = []
    async with Runtime(asking, store=tmp_path / "s.db" if is_durable else None) as runtime:

        def answer(event: Any) -> None:
            if type(event).__name__ == event_name:
                answers.append(asyncio.ensure_future(runtime.settle(event.call_id, "large")))

        runtime.listen(answer)
        outcome = await runtime.call("choose")

        assert await answers[0] == Done("large")
        assert outcome == Done("large") if reply == "wait" else isinstance(outcome, Pending)


async def test_the_wait_of_a_client_tool_is_stored_before_its_event_is_told(tmp_path: Any) -> None:
    told: list[tuple[str, int]] = []
    async with Runtime(client(), store=tmp_path / "s.db") as runtime:

        def read(event: Any) -> None:
            with closing(sqlite3.connect(tmp_path / "s.db")) as other_process:
                sql = "SELECT count(*) FROM pending WHERE call_id = ?"
                told.append((type(event).__name__, other_process.execute(sql, [event.call_id]).fetchone()[0]))

        runtime.listen(read)
        await runtime.call("choose")

    assert told[:2] == [("CallStarted", 1), ("CallPending", 1)]


async def test_a_space_shows_a_client_tool_together_with_its_wait(tmp_path: Any) -> None:
    async with Runtime(client(), store=tmp_path / "s.db") as runtime:
        assert runtime.store is not None
        await runtime.store.spaces.create("team")
        stream = runtime.store.streams.follow("space:team")
        reading = asyncio.create_task(anext(stream))
        calling = asyncio.create_task(runtime.scope(space="team").call("choose"))
        event = await reading
        settled = await runtime.settle(event.data["content"]["toolCallId"], "large")
        await calling
        [message] = await runtime.store.spaces.history("team")
        await stream.aclose()

    assert event.kind == "tool-call.start"
    assert settled == Done("large")
    assert (message.content["status"], message.content["result"]) == ("complete", "large")


async def test_a_client_call_that_ends_without_a_wait_has_its_start_and_its_message(tmp_path: Any) -> None:
    told: list[str] = []
    async with Runtime(client(), store=tmp_path / "s.db", policy=[{"tools": "choose", "decision": "deny"}]) as runtime:
        assert runtime.store is not None
        await runtime.store.spaces.create("team")
        runtime.listen(lambda event: told.append(type(event).__name__))
        failed(await runtime.scope(space="team").call("choose"), "denied")
        [message] = await runtime.store.spaces.history("team")

    assert told == ["CallStarted", "CallEnded"]
    assert message.content["status"] == "error"


# Time to live


@pytest.mark.parametrize("option", ["timeout", "expires"])
@pytest.mark.parametrize("kind", ["client", "external"])
async def test_the_timeout_or_expires_of_a_client_or_external_tool_is_its_time_to_live(kind: str, option: str) -> None:
    clock = ManualClock()
    limit: Any = {option: "1h"}
    asking = client(**limit) if kind == "client" else tool.external("choose", "Choose later.", **limit)
    async with Runtime(asking, clock=clock) as runtime:
        outcome = pending(await runtime.call("choose"))
        ending = asyncio.create_task(runtime.result(id_of(outcome)))
        await clock.advance(3599)
        was_open = [wait.call_id for wait in await runtime.pending()]
        await clock.advance(1)
        ended = failed(await ending, "expired")

        assert outcome.expires_at == clock.time()
        assert was_open == [outcome.call_id]
        assert not ended.executed
        failed(await runtime.settle(id_of(outcome), "large"), "expired")


async def test_with_reply_wait_the_timeout_is_the_callers_and_expires_the_time_to_live() -> None:
    clock = ManualClock()
    async with Runtime(client("wait", timeout=30, expires=60), clock=clock) as runtime:
        caller = await waiting_caller(runtime)
        await clock.advance(30)
        outcome = pending(await caller)
        ending = asyncio.create_task(runtime.result("c1"))
        await clock.advance(30)

        failed(await ending, "expired")
        assert outcome.expires_at == clock.time()


async def test_without_a_limit_the_default_of_the_runtime_counts_and_off_means_never() -> None:
    clock = ManualClock()
    asking = [client(), client(expires="off").evolve(name="never"), client().evolve(name="soon", timeout=5)]
    async with Runtime(*asking, clock=clock, defaults={"pending_ttl": 60}) as runtime:
        expiries = [pending(await runtime.call(name)).expires_at for name in ("choose", "never", "soon")]

    assert expiries == [clock.time() + 60, None, clock.time() + 5]


async def test_a_timeout_may_depend_on_the_arguments() -> None:
    clock = ManualClock()
    async with Runtime(client(timeout=lambda args: float(args["size"])), clock=clock) as runtime:
        assert pending(await runtime.call("choose", {"size": 7})).expires_at == clock.time() + 7


def test_only_client_and_external_tools_have_expires() -> None:
    with pytest.raises(DefinitionError, match="Only client and external tools have `expires`"):
        tool(expires=5)(failed)
    for wrong in (0, -1, "soon", True):
        with pytest.raises(DefinitionError):
            client(expires=wrong)


async def test_pending_shows_agent_and_run() -> None:
    async with Runtime(client()) as runtime:
        await runtime.scope(agent="helper", turn="run-1", user="ann", session="s1").call("choose")
        [wait] = await runtime.pending()

    assert (wait.agent, wait.run, wait.turn, wait.user, wait.session) == ("helper", "run-1", "run-1", "ann", "s1")


# Rejecting


async def test_a_rejected_question_ends_the_call_as_rejected_with_the_reason() -> None:
    async with Runtime(client()) as runtime:
        call_id = id_of(await runtime.call("choose"))
        first = await runtime.reject(call_id, "I do not know", by="Ada")
        again = await runtime.reject(call_id)
        other = await runtime.settle(call_id, {"size": 3})

    assert "I do not know" in failed(first, "rejected").message
    assert again == first
    failed(other, "conflict")


async def test_a_caller_that_waits_for_its_answer_hears_of_the_rejection() -> None:
    async with Runtime(client("wait")) as runtime:
        caller = await waiting_caller(runtime)
        rejected = await runtime.reject("c1", "not now")

        assert await caller == rejected

    failed(rejected, "rejected")


async def test_a_provider_whose_request_for_input_is_rejected_is_told_and_not_resumed() -> None:
    class Shop(Provider):
        namespace = "shop"
        cancelled: tuple[str, str] | None = None

        async def tools(self) -> list[Tool[..., Any]]:
            return [tool.provided("buy", "Buy something.", effects={"write"})]

        async def invoke(self, call: Call, context: Context) -> Outcome:
            return Pending("input", message="Which size?", request={"form": {}}, state=1)

        async def resume(self, call: Call, state: Any, answer: Any, context: Context) -> Outcome:
            raise AssertionError("It was rejected.")

        async def cancel(self, call: Call, reason: str) -> None:
            self.cancelled = (call.id or "", reason)

    shop = Shop()
    async with Runtime(shop) as runtime:
        call_id = id_of(await runtime.call("shop__buy"))
        failed(await runtime.reject(call_id), "rejected")

    assert shop.cancelled == (call_id, "reject")
