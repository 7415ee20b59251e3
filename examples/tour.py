"""A tour of surehand: on a terminal you choose from a menu; in a pipe it runs once from start to end."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, TypeAlias

from surehand import Call, Context, Outcome, Pending, Queue, Runtime, Unavailable, events, tool

Ask: TypeAlias = Callable[[str, str], str]
"""Asks the person a question; the second text is the default, which the tour without a person uses."""
Stop: TypeAlias = Callable[[Runtime, Ask], Awaitable[None]]


@tool(effects={"read"})
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool(effects={"read"}, queue="desk")
def count_words(text: str) -> int:
    """Count the words of a text, slowly."""
    time.sleep(0.1)  # a sync function may block: the runtime runs it in a thread
    return len(text.split())


@tool(effects={"read"})
async def survey(places: int = 3) -> AsyncIterator[object]:
    """Look at some places, one after the other."""
    for place in range(1, places + 1):
        yield {"fraction": place / (places + 1), "message": f"place {place}"}
        await asyncio.sleep(0.1)
    yield {"places": places, "treasure": "under the third palm"}


def transfer_question(args: dict[str, Any], ctx: Context) -> str:
    return f"Transfer {args['amount']:g} to {args['to']}?"


@tool(effects={"write"}, confirm=lambda args, ctx: args["amount"] >= 100, confirm_message=transfer_question)
async def transfer(amount: float, to: str, ctx: Context) -> str:
    """Transfer money to somebody."""
    ctx.report("contacting the bank")
    await asyncio.sleep(0.1)
    return f"Sent {amount:g} to {to}."


QUESTION = {"type": "object", "properties": {"question": {"type": "string"}}, "required": ["question"]}
ask_person = tool.client("ask_person", "Ask the person a question.", parameters=QUESTION, reply="later")


@tool(effects={"read"}, retries=3)
async def weather(city: str, ctx: Context) -> str:
    """The weather in a city."""
    if ctx.attempt < 3:
        ctx.report(f"attempt {ctx.attempt}: no answer")
        raise Unavailable("The weather service does not answer.")
    return f"Sunny in {city}."


@tool(effects={"read"}, max_bytes=2_000)
async def read_log() -> str:
    """The whole log of a server."""
    return "\n".join(f"{hour:02}:{minute:02} all is well" for hour in range(24) for minute in range(60))


async def broken_arguments(runtime: Runtime, ask: Ask) -> None:
    """Models send text, not Python. Unambiguous mistakes are repaired; any other gets an explanation."""
    sent = ask("Arguments for add, as a model would write them", "{'a': 40, 'b': \"2\"}")
    show(await runtime.call("add", sent))
    show(await runtime.call("add", {"a": 40, "c": 2}))


async def threads_and_queues(runtime: Runtime, ask: Ask) -> None:
    """A sync function runs in a thread; its queue runs one call at a time, and the others wait."""
    calls = [Call("count_words", {"text": text}) for text in ("one", "one two", "one two three")]
    for outcome in await runtime.call_many(calls):
        show(outcome)


async def progress(runtime: Runtime, ask: Ask) -> None:
    """An async generator reports progress with each value except the last, which is its result."""
    show(await runtime.call("survey"))


async def approval(runtime: Runtime, ask: Ask) -> None:
    """A call that needs an approval does not block: it is pending, and resumes with the answer."""
    await runtime.call("transfer", {"amount": 250, "to": "Ada"})
    while waits := await runtime.pending():
        match ask("y(es), n(o) or e(dit)?", "e"):
            case "y":
                show(await runtime.approve(waits[0].call_id))
            case "n":
                show(await runtime.reject(waits[0].call_id, reason="not today"))
            case "e":  # invalid arguments are refused, and the call stays pending
                edited = {"amount": ask("Which amount?", "120"), "to": "Ada"}
                show(await runtime.approve(waits[0].call_id, arguments=edited))


async def client_tool(runtime: Runtime, ask: Ask) -> None:
    """A person or a browser runs a client tool. The model gets a ticket, and the answer settles it."""
    show(await runtime.call("ask_person", {"question": "Tea or coffee?"}))
    for wait in await runtime.pending():
        show(await runtime.settle(wait.call_id, ask(wait.arguments["question"], "Tea.")))


async def retries(runtime: Runtime, ask: Ask) -> None:
    """A tool that only reads is retried when the service is unavailable for a moment."""
    outcome = await runtime.call("weather", {"city": "Ushuaia"})
    show(outcome)
    print(f"  It took {outcome.meta.attempts} attempts.")


async def large_output(runtime: Runtime, ask: Ask) -> None:
    """An output that is too large is stored under a handle, and the model is told how to read the rest."""
    outcome = await runtime.call("read_log")
    print(f"  {outcome.text[:160]}...")
    handle = json.loads(outcome.text)["tool_output"]["handle"]
    show(await runtime.call("tool_output", {"handle": handle, "grep": ask("Lines that match", "^12:0[0-4]")}))


STOPS: tuple[Stop, ...] = (broken_arguments, threads_and_queues, progress, approval, client_tool, retries, large_output)


def show(outcome: Outcome) -> None:
    """Print the text that the model gets."""
    print(f"  = {type(outcome).__name__}: {outcome.text}")


def on_event(event: events.Event) -> None:
    """Print events as they happen."""
    match event:
        case events.CallStarted(tool=name, arguments=arguments):
            print(f"  > {name} {arguments if arguments is not None else ''}".rstrip())
        case events.CallQueued(tool=name, queue=queue, position=position):
            print(f"  . {name} waits in the queue {queue!r}, place {position}")
        case events.CallProgress(tool=name, fraction=fraction, message=message):
            print(f"  . {name}: {f'{fraction:.0%} ' if fraction is not None else ''}{message or ''}".rstrip())
        case events.CallPending(waiting_for=waiting_for, message=message):
            print(f"  ? waits for {waiting_for}: {message}")
        case events.CallResumed(tool=name):
            print(f"  > {name} resumes")
        case events.CallEnded(tool=name, outcome=outcome) if not isinstance(outcome, Pending):
            print(f"  < {name} after {outcome.meta.latency_ms:.0f} ms")


async def visit(stop: Stop, runtime: Runtime, ask: Ask) -> None:
    print(f"\n{stop.__name__}\n  {stop.__doc__}")
    await stop(runtime, ask)


async def choose(runtime: Runtime) -> None:
    while True:
        menu = "\n".join(f"{number}. {stop.__name__}" for number, stop in enumerate(STOPS, start=1))
        match ask_at_terminal(f"\n{menu}\nWhich one, or q to leave?", "1"):
            case "q":
                return
            case chosen if chosen.isdecimal() and 1 <= int(chosen) <= len(STOPS):
                await visit(STOPS[int(chosen) - 1], runtime, ask_at_terminal)
            case chosen:
                print(f"{chosen!r} is not on the menu: give a number from 1 to {len(STOPS)}, or q.")


def ask_at_terminal(text: str, default: str) -> str:
    """Ask at the terminal. This blocks the event loop, but no call runs meanwhile: those that wait are pending."""
    return input(f"{text} [{default}] ").strip() or default


def answer_by_default(text: str, default: str) -> str:
    print(f"{text} {default}")
    return default


async def tour() -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)  # asyncio's own would wait for `input` to return
    tools = (add, count_words, survey, transfer, ask_person, weather, read_log)
    async with Runtime(*tools, queues={"desk": Queue(concurrent=1)}, defaults={"retry_delay": 0.1}) as runtime:
        runtime.listen(on_event)
        if sys.stdin.isatty():
            await choose(runtime)
        else:
            for stop in STOPS:
                await visit(stop, runtime, answer_by_default)


if __name__ == "__main__":
    with contextlib.suppress(EOFError, KeyboardInterrupt):
        asyncio.run(tour())
    print("\nGoodbye.")
