"""Answers: what `approve`, `reject` and `settle` have in common."""

from __future__ import annotations

import asyncio
import getpass
import json
import sys
from collections.abc import Awaitable, Callable
from contextlib import redirect_stdout
from typing import Any, TypeAlias

import click

from toolwright.cli.exits import UNKNOWN, complain
from toolwright.cli.form import is_plain
from toolwright.cli.options import Given
from toolwright.cli.outcome import exit_code, how_to_answer, outcome_as_json, show_outcome
from toolwright.cli.progress import Watch
from toolwright.cli.run import run
from toolwright.cli.screen import is_person, line
from toolwright.cli.starting import started
from toolwright.core.events import CallPending, Event
from toolwright.core.outcome import Failed, Outcome, Pending
from toolwright.runtime.runtime import Runtime

Answer: TypeAlias = Callable[[Runtime], Awaitable[Outcome]]

ELSEWHERE = "A process on this store that has the tool goes on with it."

by_option = click.option("--by", metavar="NAME", help="Who answers, for the audit [your login name].")
json_option = click.option("--json", "as_json", is_flag=True, help="The outcome as a JSON line, as in a pipe.")


def login_name() -> str | None:
    """Who is at the keyboard, as far as the system knows."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a container may have no name for its user
        return None


def give(given: Given, call_id: str, answer: Answer, *, as_json: bool) -> int:
    """Give an answer and show what came of the call; its exit code, as that of `call`."""
    runtime = given.answering()
    if is_person(sys.stdout) and not as_json:
        return run(_for_a_person(given, runtime, call_id, answer))
    return run(_for_a_program(runtime, call_id, answer))


async def _for_a_person(given: Given, runtime: Runtime, call_id: str, answer: Answer) -> int:
    watch = Watch()
    async with started(runtime):
        if is_person(sys.stderr):
            watch.follow(runtime)
        try:
            outcome, known = await _answer(runtime, call_id, answer)
        finally:
            watch.close()
        if isinstance(outcome, Failed) and outcome.code == "rejected":
            complain("the call has ended, and did not run.", kind="rejected", colour=33)
        else:
            await show_outcome(outcome, runtime.parts.outputs, await _hint(given, runtime, call_id, outcome))
    return exit_code(outcome) if known else UNKNOWN


async def _for_a_program(runtime: Runtime, call_id: str, answer: Answer) -> int:
    out = sys.stdout
    with redirect_stdout(sys.stderr):  # what a handler prints is no part of our output
        async with started(runtime):
            outcome, known = await _answer(runtime, call_id, answer)
            shown = outcome_as_json(outcome)
            out.write(line(shown | {"call_id": shown["call_id"] or call_id}))
            out.flush()
    return exit_code(outcome) if known else UNKNOWN


async def _answer(runtime: Runtime, call_id: str, answer: Answer) -> tuple[Outcome, bool]:
    """The outcome, and whether there is such a call at all. A call that waits once more is not waited for."""
    mine = await _with_inner(runtime, call_id)
    waits: asyncio.Future[Pending] = asyncio.get_running_loop().create_future()

    def heard(event: Event) -> None:
        if isinstance(event, CallPending) and event.call_id in mine and not waits.done():
            waits.set_result(Pending(event.waiting_for, event.call_id, event.message, event.request, event.expires_at))

    unsubscribe = runtime.listen(heard)
    answering = asyncio.ensure_future(answer(runtime))
    try:
        await asyncio.wait((answering, waits), return_when=asyncio.FIRST_COMPLETED)
        return answering.result() if answering.done() else waits.result(), bool(mine)
    finally:
        unsubscribe()
        answering.cancel()


async def plain_form(runtime: Runtime, call_id: str) -> dict[str, Any] | None:
    """The form that a call was last asked with, if yes or no is an answer to it; None for any other question.

    An approval that a server asks for comes as such a form.
    """
    ids = await _with_inner(runtime, call_id)
    held = await runtime.parts.waits.find(ids[-1], runtime.principal) if ids else None
    if held is None or held.rounds[-1].waiting_for != "input":
        return None
    request = json.loads(held.rounds[-1].request)
    return request if is_plain(request) else None


async def _with_inner(runtime: Runtime, call_id: str) -> list[str]:
    """The call, and those that it waits for in turn: the answer is meant for the last."""
    found: list[str] = []
    inner: str | None = call_id
    while inner is not None and (held := await runtime.parts.waits.find(inner, runtime.principal)) is not None:
        found.append(inner)
        inner = held.wait.inner_call if held.wait else None
    return found


async def _hint(given: Given, runtime: Runtime, call_id: str, outcome: Outcome) -> str:
    """What a person needs to know beside the outcome: whether the call still waits, and for whom."""
    asked = outcome.call_id if isinstance(outcome, Pending) else ""
    held = await runtime.parts.waits.find(asked or call_id, runtime.principal)
    waits = held is not None and held.wait is not None
    if isinstance(outcome, Pending):
        return how_to_answer(outcome, given) if waits else ELSEWHERE
    return "The call still waits." if waits else ""
