"""The stage `middleware` and the ready-made middleware."""

import asyncio
import base64
import html
import json
import logging
import re
from dataclasses import dataclass
from urllib.parse import quote, quote_plus

import pytest
from pydantic import BaseModel

from surehand import Call, Done, Failed, Pending, Policy, Runtime, ToolError, tool
from surehand import middleware as ready
from surehand.core.content import File, Json, Resource, Text
from surehand.core.errors import NotFound, Unavailable
from surehand.testing import ManualClock, settle


def noting(log: list[str], name: str):
    async def around(invocation, proceed):
        log.append(f"{name} in")
        outcome = await proceed(invocation)
        log.append(f"{name} out")
        return outcome

    return around


@tool
async def echo(text: str) -> str:
    """Say it again."""
    return text


async def test_global_middleware_is_outside_the_tools_own_and_the_first_is_outermost():
    log = []

    @tool(middleware=[noting(log, "own 1"), noting(log, "own 2")])
    async def work() -> None:
        """Work."""
        log.append("work")

    async with Runtime(work, middleware=[noting(log, "global 1"), noting(log, "global 2")]) as runtime:
        await runtime.call("work")

    names = ["global 1", "global 2", "own 1", "own 2"]
    assert log == [f"{name} in" for name in names] + ["work"] + [f"{name} out" for name in reversed(names)]


async def test_it_can_change_the_arguments():
    async def louder(invocation, proceed):
        invocation.arguments = {"text": invocation.arguments["text"].upper()}
        return await proceed(invocation)

    async with Runtime(echo, middleware=[louder]) as runtime:
        assert (await runtime.call("echo", {"text": "hi"})).data == "HI"


async def test_it_can_change_the_outcome():
    async def polite(invocation, proceed):
        outcome = await proceed(invocation)
        return outcome.evolve(data=f"{outcome.data}, please", title="polite")

    async with Runtime(echo, middleware=[polite]) as runtime:
        outcome = await runtime.call("echo", {"text": "hi"})

    assert (outcome.data, outcome.text, outcome.title) == ("hi, please", "hi, please", "polite")
    assert outcome.meta.tool == "echo"


@pytest.mark.parametrize("answer", [Done("short"), Failed("denied", "not today"), Pending("result", message="wait")])
async def test_it_can_answer_in_place_of_the_handler(answer):
    ran = []

    @tool
    async def work() -> None:
        """Work."""
        ran.append(1)

    async def instead(invocation, proceed):
        return answer.evolve()

    async with Runtime(work, middleware=[instead]) as runtime:
        outcome = await runtime.call("work")

    assert ran == []
    assert type(outcome) is type(answer)
    if isinstance(outcome, Failed):
        assert not outcome.executed


async def test_it_sees_only_arguments_that_are_valid():
    seen = []

    async def watch(invocation, proceed):
        seen.append(dict(invocation.arguments))
        return await proceed(invocation)

    async with Runtime(echo, middleware=[watch]) as runtime:
        await runtime.call("echo", {"txet": "hi"})
        await runtime.call("echo", '{"text": "hi"}')

    assert seen == [{"text": "hi"}]


async def test_a_tool_error_it_raises_is_a_failure_of_the_call():
    async def strict(invocation, proceed):
        raise NotFound("nothing here")

    async with Runtime(echo, middleware=[strict]) as runtime:
        outcome = await runtime.call("echo", {"text": "hi"})

    assert (outcome.code, outcome.message, outcome.executed) == ("not_found", "nothing here", False)


@pytest.mark.parametrize("suspends", [True, False])
async def test_a_failure_after_the_handler_ran_says_so(suspends):
    @tool
    async def quick() -> int:
        """Be quick."""
        return 1

    @tool
    async def slow() -> int:
        """Be slow."""
        await asyncio.sleep(0)
        return 1

    async def picky(invocation, proceed):
        await proceed(invocation)
        raise ToolError("not good enough")

    async with Runtime(slow if suspends else quick, middleware=[picky]) as runtime:
        outcome = await runtime.call("slow" if suspends else "quick")

    assert (outcome.code, outcome.executed) == ("failed", True)


@pytest.mark.parametrize("error", [RuntimeError("bug"), SystemExit(1), BaseExceptionGroup("g", [SystemExit()])])
async def test_a_crash_in_it_is_a_crash_of_the_call(error):
    async def buggy(invocation, proceed):
        raise error

    async with Runtime(echo, middleware=[buggy]) as runtime:
        outcome = await runtime.call("echo", {"text": "hi"})
        assert outcome.code == "crashed"
        assert "buggy" in outcome.message
        assert "Traceback" not in outcome.text


@pytest.mark.parametrize("value", [None, "text", 5, {}])
async def test_middleware_that_returns_no_outcome_is_reported_as_a_crash(value):
    async def forgetful(invocation, proceed):
        await proceed(invocation)
        return value

    async with Runtime(echo, middleware=[forgetful]) as runtime:
        outcome = await runtime.call("echo", {"text": "hi"})

    assert outcome.code == "crashed"
    assert "forgetful" in outcome.message


async def test_it_surrounds_all_attempts_of_a_call():
    clock, seen = ManualClock(), []

    @tool(effects={"read"}, retries=2)
    async def flaky() -> None:
        """Fail always."""
        raise Unavailable("no")

    async def watch(invocation, proceed):
        outcome = await proceed(invocation)
        seen.append((outcome.code, invocation.attempt))
        return outcome

    async with Runtime(flaky, middleware=[watch], clock=clock) as runtime:
        call = asyncio.create_task(runtime.call("flaky"))
        await clock.advance(100)
        await call

    assert seen == [("unavailable", 3)]


async def test_it_may_proceed_twice():
    ran = []

    @tool
    async def work() -> int:
        """Work."""
        ran.append(1)
        return len(ran)

    async def twice(invocation, proceed):
        await proceed(invocation)
        return await proceed(invocation)

    async with Runtime(work, middleware=[twice]) as runtime:
        assert (await runtime.call("work")).data == 2


async def test_a_call_can_be_cancelled_while_middleware_waits():
    entered = asyncio.Event()

    async def slow(invocation, proceed):
        entered.set()
        await asyncio.Event().wait()

    async with Runtime(echo, middleware=[slow]) as runtime:
        call = asyncio.create_task(runtime.call("echo", {"text": "hi"}, call_id="c1"))
        await entered.wait()
        await runtime.cancel("c1")
        outcome = await call

    assert (outcome.code, outcome.executed) == ("cancelled", False)


# The ready ones


async def test_logging_writes_a_request_and_a_response(caplog):
    @tool
    async def fail() -> None:
        """Fail."""
        raise ToolError("no such thing")

    with caplog.at_level(logging.DEBUG, "surehand.calls"):
        async with Runtime(echo, fail, middleware=[ready.logging()]) as runtime:
            await runtime.scope(turn="t1").call("echo", {"text": "hi"})
            await runtime.call("fail")

    lines = [(record.levelname, record.getMessage()) for record in caplog.records if record.name == "surehand.calls"]
    assert lines[0] == ("DEBUG", "tool request -> echo {text: 'hi'}")
    assert lines[1][0] == "DEBUG"
    assert lines[1][1].startswith("tool response <- echo ")
    assert lines[1][1].endswith("2 chars ok")
    assert lines[3][0] == "WARNING"
    assert "failed: failed" in lines[3][1]
    assert "no such thing" in lines[3][1]
    assert (caplog.records[0].turn, caplog.records[0].remote) == ("t1", "function::echo")


def logged(caplog) -> list[str]:
    """The lines of the log, without their times."""
    records = [record for record in caplog.records if record.name == "surehand.calls"]
    return [re.sub(r" [0-9]+ms", "", record.getMessage()) for record in records]


async def test_logging_logs_refused_calls_too(caplog):
    rules = Policy([{"tools": "echo", "decision": "deny"}])
    with caplog.at_level(logging.DEBUG, "surehand.calls"):
        async with Runtime(echo, policy=rules, middleware=[ready.logging()]) as runtime:
            await runtime.call("echo", '{"text": "hi"}')
            await runtime.call("echo", {"txt": 1})
            await runtime.call("nonesuch", {"a": 1})

    lines = logged(caplog)
    assert lines[0] == "tool request -> echo {text: 'hi'}"
    assert lines[1].startswith("tool response <- echo failed: denied")
    assert lines[2] == "tool request -> echo {txt: 1}"
    assert lines[3].startswith("tool response <- echo failed: invalid_arguments")
    assert lines[4] == "tool request -> nonesuch {a: 1}"
    assert lines[5].startswith("tool response <- nonesuch failed: not_found")
    assert len(lines) == 6


async def test_logging_logs_a_call_that_waits_once(caplog):
    @tool(confirm=True)
    async def pay(amount: int) -> str:
        """Pay."""
        return "paid"

    with caplog.at_level(logging.DEBUG, "surehand.calls"):
        async with Runtime(pay, middleware=[ready.logging()]) as runtime:
            pending = await runtime.call("pay", {"amount": 5})
            await runtime.approve(pending.call_id)

    assert logged(caplog) == [
        "tool request -> pay {amount: 5}",
        "tool pending <- pay for approval",
        "tool response <- pay 4 chars ok",
    ]


async def test_logging_of_one_tool_logs_its_refused_calls_too(caplog):
    @tool(middleware=[ready.logging()])
    async def quiet(text: str) -> str:
        """Say it quietly."""
        return text

    with caplog.at_level(logging.DEBUG, "surehand.calls"):
        async with Runtime(quiet, echo) as runtime:
            await runtime.call("quiet", {})
            await runtime.call("echo", {})

    assert [line.split()[3] for line in logged(caplog)] == ["quiet", "quiet"]


async def test_logging_logs_a_call_that_runs_out_of_time(caplog):
    clock = ManualClock()

    @tool
    async def slow() -> None:
        """Take a while."""
        await asyncio.Event().wait()

    with caplog.at_level(logging.DEBUG, "surehand.calls"):
        async with Runtime(slow, clock=clock, middleware=[ready.logging()]) as runtime:
            calling = asyncio.create_task(runtime.call("slow", timeout=5))
            await settle()
            await clock.advance(6)
            await calling

    assert logged(caplog) == ["tool request -> slow {}", "tool response <- slow failed: timed_out"]


async def test_logging_shows_at_most_160_characters_of_an_argument(caplog):
    with caplog.at_level(logging.DEBUG, "surehand.calls"):
        async with Runtime(echo, middleware=[ready.logging()]) as runtime:
            await runtime.call("echo", {"text": "x" * 100_000})

    shown = caplog.records[0].getMessage().removeprefix("tool request -> echo {text: ").removesuffix("}")
    assert 100 < len(shown) <= 160


async def test_logging_uses_the_given_logger(caplog):
    with caplog.at_level(logging.INFO, "mine"):
        middleware = [ready.logging(logging.getLogger("mine"), level=logging.INFO)]
        async with Runtime(echo, middleware=middleware) as runtime:
            await runtime.call("echo", {"text": "hi"})

    assert [record.name for record in caplog.records] == ["mine", "mine"]


async def test_timing_reports_every_call_whatever_became_of_it():
    @tool
    async def crash() -> None:
        """Crash."""
        raise RuntimeError

    reports = []
    async with Runtime(echo, crash, middleware=[ready.timing(lambda *told: reports.append(told))]) as runtime:
        await runtime.call_many([Call("echo", {"text": "hi"}), Call("crash")])

    assert sorted(name for name, _ in reports) == ["crash", "echo"]
    assert all(seconds >= 0 for _, seconds in reports)


SECRET = 'pä"ss<w&rd>/k€y?+1'
RAW = SECRET.encode()
SPELLINGS = {
    "as it is": SECRET,
    "in other case": SECRET.upper(),
    "json": json.dumps(SECRET),
    "json with umlauts": json.dumps(SECRET, ensure_ascii=False),
    "python": repr(SECRET + "'"),
    "url": quote(SECRET, safe=""),
    "url path": quote(SECRET),
    "form": quote_plus(SECRET),
    "html": html.escape(SECRET),
    "hex": RAW.hex(),
    "capital hex": RAW.hex().upper(),
    "base64": base64.b64encode(RAW).decode(),
    "url safe base64": base64.urlsafe_b64encode(RAW).decode(),
    "base64 of more": base64.b64encode(b"user:" + RAW).decode(),
    "base64 of more, shifted": base64.b64encode(b"users:" + RAW + b"--").decode(),
    "base64 of more, shifted twice": base64.b64encode(b"user_s:" + RAW + b"-").decode(),
}


def leaked(text: str) -> bool:
    forms = [SECRET, json.dumps(SECRET)[1:-1], quote(SECRET, safe=""), quote(SECRET), html.escape(SECRET), RAW.hex()]
    forms += [base64.b64encode(RAW).decode()[:-4]]
    return any(form.lower() in text.lower() for form in forms)


@pytest.mark.parametrize("spelling", SPELLINGS)
async def test_redaction_masks_a_secret_in_every_spelling(spelling):
    async with Runtime(echo, middleware=[ready.redaction([SECRET])]) as runtime:
        outcome = await runtime.call("echo", {"text": f"before {SPELLINGS[spelling]} after"})

    assert "[redacted]" in outcome.text
    assert "[redacted]" in outcome.data
    assert outcome.text.startswith("before ")
    assert outcome.text.endswith(" after")
    assert not leaked(outcome.text)


class Account(BaseModel):
    user: str
    password: str


@dataclass
class Row:
    password: str


@pytest.mark.parametrize(
    "value",
    [
        {"a": [{"b": (SECRET, 1)}]},
        {SECRET: "as a key"},
        Account(user="ann", password=SECRET),
        [Row(SECRET), None, 1.5],
        {"set": {SECRET}},
        RAW,
        [[[[SECRET]]]],
        Text(f"it is {SECRET}"),
        [Json({"password": SECRET}), Resource(f"db://{SECRET}@host", text=SECRET)],
        File(data=base64.b64encode(RAW).decode(), filename=SECRET),
        Done({"ok": True}, title=SECRET, metadata={"note": SECRET}, attachments=[Text(SECRET)]),
    ],
    ids=lambda value: type(value).__name__,
)
async def test_redaction_reaches_every_part_of_an_outcome(value):
    @tool
    async def give():
        """Give it away."""
        return value

    async with Runtime(give, middleware=[ready.redaction([SECRET])]) as runtime:
        outcome = await runtime.call("give")

    assert outcome.ok
    everything = repr(
        [outcome.data, outcome.text, outcome.content, outcome.title, outcome.metadata, outcome.attachments]
    )
    assert "[redacted]" in everything
    assert not leaked(everything)


async def test_redaction_does_not_change_values_without_secrets():
    account = Account(user="ann", password="open")

    @tool
    async def give():
        """Give it."""
        return account

    async with Runtime(give, middleware=[ready.redaction([SECRET])]) as runtime:
        assert (await runtime.call("give")).data is account


async def test_redaction_reaches_failures_and_questions():
    @tool
    async def fail() -> None:
        """Fail."""
        raise ToolError(f"wrong password {SECRET}", data={"password": SECRET})

    @tool
    async def ask() -> Pending:
        """Ask."""
        return Pending("result", message=f"Is it {SECRET}?", request={"default": SECRET})

    async with Runtime(fail, ask, middleware=[ready.redaction([SECRET])]) as runtime:
        failed, asked = await runtime.call("fail"), await runtime.call("ask")

    assert not leaked(repr([failed.text, failed.data, asked.text, asked.message, asked.request]))
    assert failed.code == "failed"


async def test_redaction_comes_before_clipping():
    @tool
    async def big() -> str:
        """Give much."""
        return f"{SECRET}\n" * 20_000

    async with Runtime(big, middleware=[ready.redaction([SECRET])]) as runtime:
        outcome = await runtime.call("big")
        handle = json.loads(outcome.text)["tool_output"]["handle"]
        read = await runtime.call("tool_output", {"handle": handle, "head": 5})

    assert read.ok
    assert not leaked(outcome.text + read.text)


async def test_redaction_of_nothing_changes_nothing():
    async with Runtime(echo, middleware=[ready.redaction([""])]) as runtime:
        assert (await runtime.call("echo", {"text": "hi"})).data == "hi"


@pytest.mark.parametrize(
    ("effects", "runs"), [({"read"}, True), ({"write"}, False), ({"read", "network"}, False), (set(), False)]
)
async def test_a_dry_run_tells_and_does_not_do(effects, runs):
    ran = []

    @tool(effects=effects)
    async def work(path: str) -> str:
        """Work."""
        ran.append(path)
        return "done"

    async with Runtime(work, middleware=[ready.dry_run()]) as runtime:
        outcome = await runtime.call("work", {"path": "a.txt"})

    assert bool(ran) is runs
    assert outcome.ok
    if not runs:
        assert outcome.data == "Dry run: work(path='a.txt') was not executed."
        assert outcome.metadata["dry_run"] is True


async def test_caching_keeps_results_of_tools_that_only_read():
    ran = []

    @tool(effects={"read"})
    async def look(n: int) -> int:
        """Look."""
        ran.append(n)
        return len(ran)

    @tool(effects={"write"})
    async def change() -> int:
        """Change."""
        ran.append("change")
        return len(ran)

    async with Runtime(look, change, middleware=[ready.caching("1m")]) as runtime:
        assert [(await runtime.call("look", {"n": 1})).data for _ in range(3)] == [1, 1, 1]
        assert (await runtime.call("look", {"n": 1})).meta.cached
        assert (await runtime.scope(user="ann").call("look", {"n": 1})).data == 2
        assert [(await runtime.call("change")).data for _ in range(2)] == [3, 4]


async def test_caching_can_be_for_some_tools_only():
    ran = []

    @tool(effects={"read"})
    async def look() -> int:
        """Look."""
        ran.append(1)
        return len(ran)

    async with Runtime(look, middleware=[ready.caching(60, tools="other_*")]) as runtime:
        assert [(await runtime.call("look")).data for _ in range(2)] == [1, 2]


async def test_input_repair_mends_and_checks_again():
    def mend(name: str, arguments: dict) -> dict:
        return {"text": arguments["text"].strip() if arguments["text"] else None}

    async with Runtime(echo, middleware=[ready.input_repair(mend)]) as runtime:
        assert (await runtime.call("echo", {"text": "  hi "})).data == "hi"
        refused = await runtime.call("echo", {"text": ""})

    assert (refused.code, refused.executed) == ("invalid_arguments", False)
