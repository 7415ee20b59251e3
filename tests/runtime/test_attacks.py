"""Attempts to break the runtime: races, cancellations, deep nesting, secrets in crashes."""

import asyncio
import json
import logging
import os
import random
from enum import Enum
from time import process_time
from typing import Any

import pytest

from surehand import Context, Done, Failed, Pending, Policy, Provider, Queue, Runtime, ToolError, tool
from surehand.core.errors import DefinitionError
from surehand.runtime.invocation.invocation import MAX_NESTING_DEPTH
from surehand.testing import ManualClock, settle

pytestmark = pytest.mark.timeout(30)  # some of these have much to do, and a busy machine takes its time


@pytest.fixture(autouse=True)
def quiet(caplog):
    caplog.set_level(logging.CRITICAL, "surehand")


@tool
async def pause() -> str:
    """Let others run."""
    await asyncio.sleep(0)
    return "done"


@tool
async def hang() -> None:
    """Hang."""
    await asyncio.Event().wait()


@tool(confirm=True, effects={"write"})
async def pay(to: dict[str, Any] | None = None) -> Any:
    """Pay somebody."""
    return to


class Remote(Provider):
    """A provider with one tool, `remote__ask`, that does what its functions say."""

    namespace = "remote"

    def __init__(self, invoke: Any = None, resume: Any = None) -> None:
        self.up, self.invoked, self.resumed = False, 0, 0
        self._invoke, self._resume = invoke, resume

    async def start(self) -> None:
        self.up = True

    async def stop(self) -> None:
        self.up = False

    async def tools(self) -> list[Any]:
        return [tool(name="ask", description="Ask.", parameters={}, effects={"write"})(nothing).evolve(handler=None)]

    async def invoke(self, call: Any, context: Any) -> Any:
        self.invoked += 1
        return await self._invoke() if self._invoke else self.up

    async def resume(self, call: Any, state: Any, answer: Any, context: Any) -> Any:
        self.resumed += 1
        return await self._resume(answer)


async def nothing(arguments: dict[str, Any]) -> None:
    """Never runs: its provider does."""


async def a_question() -> Pending:
    return Pending("input", reply_timeout=60)


# Queues


def paced(concurrent: int = 1) -> dict[str, Queue]:
    return {"narrow": Queue(concurrent=concurrent, rate="1/s")}


@tool(queue="narrow")
async def step() -> str:
    """Be one step of something."""
    return "step"


async def test_a_nested_call_does_not_wait_behind_calls_that_wait_for_its_outer_slot():
    clock = ManualClock()

    @tool(queue="narrow")
    async def whole(ctx: Context) -> Any:
        """Take a step."""
        await asyncio.sleep(0)
        return (await ctx.call("step")).data

    async with Runtime(whole, step, queues=paced(), clock=clock) as runtime:
        both = [asyncio.create_task(runtime.call("whole")) for _ in range(2)]
        await clock.advance(5)

        assert [(await call).data for call in both] == ["step", "step"]


async def test_a_nested_call_cancelled_in_the_moment_of_its_turn_frees_no_slot_that_it_never_held():
    clock, inner, held = ManualClock(), [], asyncio.Event()

    @tool(queue="narrow")
    async def whole(ctx: Context) -> None:
        """Take a step."""
        inner.append(asyncio.ensure_future(ctx.call("step")))
        await asyncio.wait(inner)
        await held.wait()

    async with Runtime(whole, step, queues=paced(), clock=clock) as runtime:
        call = asyncio.create_task(runtime.call("whole"))
        await settle()
        clock._now += 1
        runtime._parts.queues["narrow"]._on_timer()
        inner[0].cancel()
        await settle()
        assert runtime.queues()["narrow"].in_use == 1

        held.set()
        await call
        assert runtime.queues()["narrow"].in_use == 0


async def test_a_caller_that_is_cancelled_twice_keeps_its_slot_until_its_handler_has_cleaned_up():
    at_work, most = 0, 0

    @tool(queue="one")
    async def tidy() -> None:
        """Clean up slowly."""
        nonlocal at_work, most
        at_work += 1
        most = max(most, at_work)
        try:
            await asyncio.Event().wait()
        finally:
            await settle()
            at_work -= 1

    async with Runtime(tidy, queues={"one": Queue(concurrent=1)}) as runtime:
        calls = [asyncio.create_task(runtime.call("tidy")) for _ in range(3)]
        for call in calls:
            await settle()
            call.cancel()
            await asyncio.sleep(0)
            call.cancel()
        await asyncio.wait(calls)

        assert most == 1
        assert runtime.queues()["one"].in_use == 0


@pytest.mark.parametrize("seed", range(40))
async def test_random_cancellations_leave_no_slot_task_or_flight_behind(seed):
    chance, most, at_work = random.Random(seed), 0, 0

    async def work() -> None:
        for _ in range(chance.randint(0, 4)):
            await asyncio.sleep(0)

    @tool(queue="two", effects={"read"})
    async def one(n: int) -> int:
        """Work."""
        nonlocal at_work, most
        at_work += 1
        most = max(most, at_work)
        try:
            await work()
        finally:
            at_work -= 1
        return n

    @tool(cache=60, effects={"read"})
    async def same(n: int) -> int:
        """Work once."""
        await work()
        return n

    @tool(queue="two")
    async def nest(n: int, ctx: Context) -> Any:
        """Call another."""
        return await ctx.call("step", {})

    @tool(queue="two", name="step")
    async def inner() -> None:
        """Work inside."""
        await work()

    async with Runtime(one, same, nest, inner, queues={"two": Queue(concurrent=2)}) as runtime:
        names = [chance.choice(["one", "same", "nest"]) for _ in range(12)]
        calls = [
            asyncio.create_task(runtime.call(name, {"n": n % 3}, call_id=f"{n}" if n % 2 else None))
            for n, name in enumerate(names)
        ]
        for _ in range(chance.randint(5, 40)):
            if chance.random() < 0.4:
                chance.choice(calls).cancel()
            elif chance.random() < 0.4:
                await runtime.cancel(f"{chance.randrange(12)}")
            await asyncio.sleep(0)
        await asyncio.wait(calls)

        assert most <= 2
        assert (runtime.queues()["two"].in_use, runtime.queues()["two"].waiting) == (0, 0)
        assert not runtime.running_calls()
        assert not runtime._runtime_parts.result_cache.in_flight


# Waits


async def test_a_provider_that_asked_for_input_is_resumed_and_not_started_again():
    async def fine(answer: Any) -> str:
        return f"got {answer}"

    provider = Remote(a_question, fine)
    async with Runtime(provider) as runtime:
        call = asyncio.create_task(runtime.call("remote__ask"))
        await settle()
        (wait,) = await runtime.pending()

        assert (await runtime.settle(wait.call_id, "yes")).data == "got yes"
        assert (await call).data == "got yes"
        assert (provider.invoked, provider.resumed) == (1, 1)


async def test_an_answer_returns_without_waiting_for_the_next_answer():
    async def again(answer: Any) -> Any:
        return Pending("input", reply_timeout=60) if answer == "first" else "end"

    async with Runtime(Remote(a_question, again)) as runtime:
        call = asyncio.create_task(runtime.call("remote__ask"))
        await settle()
        (wait,) = await runtime.pending()

        assert isinstance(await runtime.settle(wait.call_id, "first"), Pending)
        assert (await runtime.settle(wait.call_id, "second")).data == "end"
        assert (await call).data == "end"


async def test_an_answer_is_used_once_even_if_the_waiting_caller_leaves_while_it_is_used():
    async def hang(answer: Any) -> None:
        await asyncio.Event().wait()

    provider = Remote(a_question, hang)
    async with Runtime(provider) as runtime:
        call = asyncio.create_task(runtime.call("remote__ask"))
        await settle()
        (wait,) = await runtime.pending()
        answer = asyncio.create_task(runtime.settle(wait.call_id, "yes"))
        await settle()
        call.cancel()
        outcome = await answer

        assert (outcome.code, outcome.executed, provider.resumed) == ("cancelled", True, 1)
        assert await runtime.pending() == []


@tool
async def follow(id: str) -> Pending:
    """Wait for another call."""
    return Pending("result", id)


async def test_a_user_does_not_get_the_outcome_of_another_users_call_by_waiting_for_it():
    async with Runtime(follow, pay) as runtime:
        alice, bob = runtime.scope(user="alice"), runtime.scope(user="bob")
        hers = await alice.call("pay", {"to": {"iban": "secret"}})
        before = await bob.call("follow", {"id": hers.call_id})
        await alice.approve(hers.call_id)
        after = await bob.call("follow", {"id": hers.call_id})

        assert isinstance(before, Pending)
        assert isinstance(after, Pending)
        assert isinstance(await bob.call("follow", {"id": hers.call_id}, call_id="x"), Pending)
        assert len(await bob.pending()) == 3


async def test_calls_that_wait_for_one_another_can_still_be_answered():
    @tool(confirm=True)
    async def circle() -> Pending:
        """Wait for the one that waits for it."""
        return Pending("result", "outer")

    async with Runtime(follow, circle) as runtime:
        first = await runtime.call("circle", call_id="inner")
        await runtime.call("follow", {"id": "inner"}, call_id="outer")
        assert isinstance(await runtime.approve(first.call_id), Pending)

        assert (await runtime.settle("outer", 5)).data == 5


@pytest.mark.parametrize("verb", ["reject", "cancel"])
async def test_a_call_that_did_something_and_then_waited_for_another_says_that_it_ran(verb):
    @tool(effects={"write"})
    async def outer(ctx: Context) -> Any:
        """Do something, then ask."""
        return await ctx.call("pay")

    async with Runtime(outer, pay) as runtime:
        waiting = await runtime.call("outer", call_id="o")
        await getattr(runtime, verb)(waiting.call_id)
        outcome = await runtime.call("outer", call_id="o")

        assert (outcome.code, outcome.executed) == (f"{verb}ed".replace("canceled", "cancelled"), True)
        assert await runtime.pending() == []


async def test_an_answer_to_a_closed_runtime_leaves_the_call_waiting():
    runtime = Runtime(pay)
    async with runtime:
        waiting = await runtime.call("pay")
    assert (await runtime.approve(waiting.call_id)).code == "unavailable"

    async with runtime:
        assert isinstance(await runtime.approve(waiting.call_id), Done)


async def test_arguments_that_change_while_the_approver_decides_have_no_effect():
    given = {"to": {"iban": "friend"}}

    async def approver(wait: Any) -> bool:
        given["to"]["iban"] = "thief"
        return wait.arguments == {"to": {"iban": "friend"}}

    async with Runtime(pay, approver=approver) as runtime:
        assert (await runtime.call("pay", given)).data == {"iban": "friend"}


# Outcomes


async def test_changing_an_outcome_does_not_change_the_recorded_one():
    @tool
    async def listed() -> list[int]:
        """Give a list."""
        return [1]

    @tool(confirm=True)
    async def asked() -> list[int]:
        """Give a list."""
        return [1]

    async with Runtime(listed, asked) as runtime:
        await runtime.call("asked", call_id="b")
        for outcome in (await runtime.call("listed", call_id="a"), await runtime.approve("b")):
            outcome.data.append(2)
        for _ in range(2):
            (await runtime.call("listed", call_id="a")).data.append(3)
            (await runtime.approve("b")).data.append(3)

        assert (await runtime.call("listed", call_id="a")).data == [1]
        assert (await runtime.approve("b")).data == [1]


async def test_a_call_that_is_stopped_by_its_own_task_leaves_no_cancellation_to_its_caller():
    async def stopping(invocation: Any, proceed: Any) -> Any:
        outcome = await proceed(invocation)
        await runtime.cancel(invocation.id)
        return outcome

    async with Runtime(pause, middleware=[stopping]) as runtime:
        assert (await runtime.call("pause", call_id="me")).data == "done"
        await asyncio.sleep(0)
        assert asyncio.current_task().cancelling() == 0


async def test_a_cancellation_by_id_takes_back_only_itself():
    counts = []

    async def caller(runtime: Runtime) -> None:
        try:
            await runtime.call("hang", call_id="h")
        finally:
            counts.append(asyncio.current_task().cancelling())

    async with Runtime(hang) as runtime:
        call = asyncio.create_task(caller(runtime))
        await settle()
        await runtime.cancel("h")
        call.cancel()
        await asyncio.wait({call})

    assert call.cancelled()
    assert counts == [1]


async def test_a_call_that_swallowed_a_cancellation_can_be_cancelled_again():
    async def stubborn(invocation: Any, proceed: Any) -> Any:
        try:
            return await proceed(invocation)
        except asyncio.CancelledError:
            return await asyncio.Event().wait()

    async with Runtime(hang, middleware=[stubborn]) as runtime:
        call = asyncio.create_task(runtime.call("hang", call_id="h"))
        for _ in range(2):
            await settle()
            await runtime.cancel("h")
        assert (await call).code == "cancelled"
        assert call.cancelling() == 0


async def test_middleware_that_proceeds_twice_runs_a_call_with_an_id_once():
    runs = []

    @tool(effects={"write"})
    async def write() -> int:
        """Write."""
        runs.append(1)
        return len(runs)

    async def twice(invocation: Any, proceed: Any) -> Any:
        await proceed(invocation)
        return await proceed(invocation)

    async with Runtime(write, middleware=[twice]) as runtime:
        assert (await runtime.call("write", call_id="w")).data == 1
        assert (await runtime.call("write", call_id="w")).data == 1
    assert runs == [1]


# Never raises


@pytest.mark.parametrize("name", [["pause"], {"name": "pause"}, None, 5])
async def test_an_invalid_tool_name_is_an_unknown_tool(name):
    async with Runtime(pause) as runtime:
        assert (await runtime.call(name)).code == "not_found"
        assert (await runtime.call(name, timeout=1, call_id="x")).code == "not_found"


async def test_a_listener_that_raises_cancelled_error_cancels_no_call():
    def listener(event: Any) -> None:
        raise asyncio.CancelledError

    async with Runtime(pause) as runtime:
        runtime.listen(listener)
        assert (await runtime.call("pause")).data == "done"


async def test_a_space_that_fails_does_not_swallow_the_cancellation_of_a_caller():
    class Broken:
        async def post(self, space: str, message: Any) -> str:
            return "m"

        async def amend(self, space: str, message_id: str, message: Any) -> None:
            raise OSError("gone")

    @tool
    async def hang(forever: bool = False) -> str:
        """Hang."""
        if forever:
            await asyncio.Event().wait()
        return "shown nowhere"

    async with Runtime(hang, spaces=Broken()) as runtime:
        scope = runtime.scope(space="s")
        assert (await scope.call("hang")).data == "shown nowhere"
        call = asyncio.create_task(scope.call("hang", {"forever": True}))
        await settle()
        call.cancel()
        await asyncio.wait({call})

    assert call.cancelled()


@pytest.mark.parametrize("asked", [float("nan"), 1e9])
async def test_a_server_that_asks_for_a_year_is_not_waited_for(asked):
    @tool(effects={"read"}, retries=3)
    async def busy() -> None:
        """Be busy."""
        raise ToolError("busy", code="rate_limited", retry_after=asked)

    async with Runtime(busy) as runtime:
        assert (await runtime.call("busy")).code == "rate_limited"


async def test_a_time_limit_that_cannot_be_worked_out_runs_nothing_and_keeps_no_claim():
    @tool(timeout=lambda values: 1 / values["n"])
    async def limited(n: int) -> str:
        """Run for a while."""
        await asyncio.sleep(0)
        return "ran"

    async with Runtime(limited) as runtime:
        for _ in range(2):
            outcome = await runtime.call("limited", {"n": 0}, call_id="x")
            assert (outcome.code, outcome.executed) == ("crashed", False)


async def test_a_tool_that_calls_itself_ends_at_a_depth():
    depth = 0

    @tool
    async def again(ctx: Context) -> Any:
        """Call itself."""
        nonlocal depth
        depth += 1
        return await ctx.call("again")

    async with Runtime(again) as runtime:
        assert (await runtime.call("again")).code == "limit_exceeded"
    assert depth == MAX_NESTING_DEPTH + 1


# Loops, threads, processes, ends


async def test_a_runtime_that_is_called_from_another_event_loop_says_so():
    async with Runtime(pause) as runtime:
        outcome = await asyncio.to_thread(lambda: asyncio.run(await_it(runtime)))

        assert (outcome.code, outcome.executed) == ("unavailable", False)
        assert "another event loop" in outcome.message
        assert not runtime.running_calls()


async def await_it(runtime: Runtime) -> Any:
    return await runtime.call("pause")


async def test_a_call_that_begins_when_the_runtime_has_closed_does_not_run():
    provider = Remote()
    async with Runtime(provider) as runtime:
        late = asyncio.create_task(runtime.call("remote__ask"))

    assert (await late).code == "unavailable"
    assert provider.invoked == 0


async def test_a_runtime_that_is_opened_again_starts_its_providers_again():
    runtime = Runtime(Remote())
    for _ in range(2):
        async with runtime:
            assert (await runtime.call("remote__ask")).data is True


async def test_a_runtime_whose_closing_is_cancelled_stops_its_providers_all_the_same():
    stopping = asyncio.Event()

    class Slow(Remote):
        namespace = "slow"

        async def stop(self) -> None:
            stopping.set()
            await asyncio.Event().wait()

    slow, other = Slow(), Remote()
    runtime = Runtime(slow, other)
    await runtime.__aenter__()
    closing = asyncio.create_task(runtime.close())
    await stopping.wait()
    closing.cancel()
    await asyncio.wait({closing})

    assert closing.cancelled()
    assert not other.up


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_sync_tool_runs_in_a_forked_child_too():
    @tool
    def one() -> int:
        """Give one."""
        return 1

    assert asyncio.run(one.run()).data == 1
    if (child := os.fork()) == 0:
        status = 1
        try:
            status = 0 if asyncio.run(asyncio.wait_for(one.run(), 20)).data == 1 else 1
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0


# Memory


@pytest.mark.long
@pytest.mark.timeout(60)
async def test_memory_does_not_grow_with_unknown_names_ids_and_limits():
    @tool(timeout=lambda values: 1_000 + values["n"])
    async def long(n: int) -> None:
        """Take its time."""
        await asyncio.sleep(0)

    async with Runtime(pause, long) as runtime:
        for n in range(300):
            assert (await runtime.call(f"<|{n}|>pause<|{n}|>")).ok
            assert (await runtime.call("long", {"n": n})).ok
        assert len(runtime._parts.stack_tables.shared.get(runtime, is_recallable=False)) < 10
        timers = [timer for timer in asyncio.get_running_loop()._scheduled if not timer.cancelled()]
        assert len(timers) < 100

        runtime.policy = Policy([{"decision": "deny"}])
        for n in range(10_100):
            await runtime.call("pause", call_id=f"id{n}")
        assert sum((await runtime.store.info())["calls"].values()) < 11_001
        assert (await runtime.call("pause", call_id="x" * 1_000_000)).code == "invalid_arguments"


# Hostile arguments and schemas


@tool
async def take(a: dict[str, Any]) -> int:
    """Take an object."""
    return len(a)


async def test_a_repeated_key_among_a_hundred_thousand_is_found_at_once():
    keys = [f'"k{n}": 1' for n in range(60_000)]
    async with Runtime(take) as runtime:
        began = process_time()
        outcome = await runtime.call("take", f'{{"a": {{{", ".join([*keys, keys[-1]])}}}}}')

        assert outcome.message == "The key 'k59999' is given twice. Send each key once."
        assert process_time() - began < 2


async def test_a_long_argument_name_is_cut_in_the_message():
    async with Runtime(take, raw) as runtime:
        key = "k" * 500_000
        for name, text in [
            ("take", f'{{"a": {{"{key}": 1, "{key}": 2}}}}'),
            ("raw", json.dumps({key: "no number"})),
        ]:
            assert len((await runtime.call(name, text)).text) < 2_000


raw = tool(
    name="raw",
    description="Take numbers.",
    parameters={
        "type": "object",
        "properties": {},
        "additionalProperties": {"items": {"type": "integer"}, "minimum": 0},
    },
)(nothing)


async def test_a_hundred_thousand_mistakes_in_one_list_are_refused_by_the_first():
    parameters = {"type": "object", "properties": {"a": {"type": "array", "items": {"type": "integer"}}}}
    strict = tool(name="strict", description="Take numbers.", parameters=parameters)(nothing)
    async with Runtime(strict) as runtime:
        began = process_time()
        outcome = await runtime.call("strict", {"a": ["x"] * 200_000})

        assert outcome.code == "invalid_arguments"
        assert "`a.0`" in outcome.message
        assert process_time() - began < 2


def fan_out(step: Any) -> dict[str, Any]:
    parts: dict[str, Any] = {f"d{n}": step([{"$ref": f"#/$defs/d{n + 1}"}] * 2) for n in range(40)}
    return {"type": "object", "$ref": "#/$defs/d0", "$defs": {**parts, "d40": {"type": "object"}}}


@pytest.mark.parametrize(
    "step",
    [
        lambda both: {"allOf": both},
        lambda both: {"anyOf": both},
        lambda both: {"oneOf": both},
        lambda both: {"if": both[0], "then": both[1]},
        lambda both: {"properties": {"a": {"allOf": both}}},
    ],
)
async def test_a_schema_that_doubles_with_every_reference_is_refused(step):
    tangled = tool(name="tangled", description="d", parameters=fan_out(step))(nothing)

    with pytest.raises(DefinitionError, match="refers to its parts so often"):
        tangled.compile()


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "properties": {"next": {"$ref": "#"}}},
        {"type": "object", "properties": {"a": {"anyOf": [{"$ref": "#"}, {"$ref": "#/$defs/b"}]}}, "$defs": {"b": {}}},
        {"type": "object", "properties": {f"p{n}": {"$ref": "#/$defs/t"} for n in range(500)}, "$defs": {"t": {}}},
    ],
)
async def test_a_recursive_schema_is_supported(schema):
    fine = tool(name="fine", description="d", parameters=schema)(nothing)

    assert (await fine.run({})).ok


class Mode(Enum):
    """What to do."""

    KEEP = "keep"
    DROP = "drop"


async def test_a_rule_about_an_argument_holds_for_enums_and_bytes_too():
    @tool
    async def change(mode: Mode, data: bytes = b"") -> str:
        """Change something."""
        return "changed"

    rules = [
        {"arguments": {"mode": "drop"}, "decision": "deny"},
        {"arguments": {"data": "rm *"}, "decision": "deny"},
    ]
    async with Runtime(change, policy=rules) as runtime:
        assert (await runtime.call("change", {"mode": "keep"})).ok
        assert (await runtime.call("change", {"mode": "drop"})).code == "denied"
        assert (await runtime.call("change", {"mode": "keep", "data": "rm -rf"})).code == "denied"


async def test_the_first_line_of_a_secret_that_has_several_is_masked_too():
    secret = "-----BEGIN KEY-----\nabcdef\n-----END KEY-----"

    @tool
    async def leak() -> None:
        """Leak."""
        raise ValueError(f"cannot use {secret}")

    async with Runtime(leak, secrets=[secret]) as runtime:
        outcome = await runtime.call("leak")

    assert isinstance(outcome, Failed)
    assert "BEGIN" not in outcome.message
    assert "[redacted]" in outcome.message


async def test_a_known_secret_is_not_in_the_log_of_a_crash_either(caplog):
    caplog.set_level(logging.ERROR, "surehand")

    @tool
    async def leak() -> None:
        raise RuntimeError("the key is hunter2-hunter2")

    async with Runtime(leak, secrets=["hunter2-hunter2"]) as runtime:
        outcome = await runtime.call("leak")

    assert "hunter2" not in outcome.text
    assert "hunter2-hunter2" not in caplog.text
    assert "RuntimeError" in caplog.text
    assert "in leak" in caplog.text
