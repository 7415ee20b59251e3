"""Answers: what `approve`, `reject` and `settle` have in common."""

from __future__ import annotations

import asyncio
import getpass
import json
import sys
from collections.abc import Awaitable, Callable
from contextlib import redirect_stdout
from typing import Any, NamedTuple, TypeAlias

import click

from surehand.cli.exits import REFUSED, UNKNOWN, complain
from surehand.cli.form import is_plain
from surehand.cli.options import Given
from surehand.cli.outcome import as_asked, exit_code, how_to_answer, outcome_as_json, show_outcome
from surehand.cli.progress import Watch
from surehand.cli.run import run
from surehand.cli.screen import is_person, line
from surehand.cli.starting import started
from surehand.core.events import CallPending, Event
from surehand.core.outcome import Failed, Outcome, Pending
from surehand.core.sanitize import escape_unprintable
from surehand.runtime.runtime import Runtime

Answer: TypeAlias = Callable[[Runtime], Awaitable[Outcome]]

ELSEWHERE = "A process on this store that has the tool goes on with it."

by_option = click.option("--by", metavar="NAME", help="Who decides, for the audit [your login name].")
json_option = click.option("--json", "as_json", is_flag=True, help="The outcome as a JSON line, as in a pipe.")
round_option = click.option(
    "--round", type=click.IntRange(1), default=1, metavar="N", help="Which of its questions, as `pending` shows it [1]."
)


class Question(NamedTuple):
    """One of the questions of a call. A yes to one is none to the next."""

    call_id: str
    round: int


def login_name() -> str | None:
    """Who is at the keyboard, as far as the system knows."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a container may have no name for its user
        return None


def give(given: Given, to: Question, answer: Answer, *, as_json: bool, rejects: bool = False) -> int:
    """Give an answer and show what came of the call; its exit code, as that of `call`.

    Args:
        rejects: it is a no, also where a server has its own words for what came of that.
    """
    runtime = given.answering()
    if is_person(sys.stdout) and not as_json:
        return run(_for_a_person(given, runtime, to, answer, rejects))
    return run(_for_a_program(runtime, to, answer, rejects))


async def _for_a_person(given: Given, runtime: Runtime, to: Question, answer: Answer, rejects: bool) -> int:
    watch = Watch()
    async with started(runtime):
        if is_person(sys.stderr):
            watch.follow(runtime)
        try:
            outcome, known = await _answer(runtime, to.call_id, answer)
        finally:
            watch.close()
        code = _code(outcome, rejects) if known else UNKNOWN
        if isinstance(outcome, Failed) and outcome.code == "rejected":
            complain("the call has ended, and did not run.", kind="rejected", colour=33)
        elif isinstance(outcome, Failed) and rejects and code == REFUSED:
            complain(escape_unprintable(outcome.message), kind="rejected", colour=33)
        else:
            outcome, round = await as_asked(runtime, outcome)
            await show_outcome(outcome, runtime.parts.outputs, await _hint(given, runtime, to, outcome, round))
    return code


async def _for_a_program(runtime: Runtime, to: Question, answer: Answer, rejects: bool) -> int:
    out = sys.stdout
    with redirect_stdout(sys.stderr):  # what a handler prints is no part of our output
        async with started(runtime):
            outcome, known = await _answer(runtime, to.call_id, answer)
            shown = outcome_as_json(outcome, *await as_asked(runtime, outcome))
            out.write(line(shown | {"call_id": shown["call_id"] or to.call_id}))
            out.flush()
    return _code(outcome, rejects) if known else UNKNOWN


def _code(outcome: Outcome, rejects: bool) -> int:
    """A server tells in its own words that it was refused something: to us, its tool has failed then."""
    if rejects and isinstance(outcome, Failed) and outcome.code == "failed":
        return REFUSED
    return exit_code(outcome)


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


async def _hint(given: Given, runtime: Runtime, to: Question, outcome: Outcome, round: int) -> str:
    """What a person needs to know beside the outcome: whether the call still waits, and for whom."""
    if isinstance(outcome, Pending):
        return how_to_answer(outcome, given, round=round) if round else ELSEWHERE
    asked, round = await open_question(runtime, to.call_id)
    if not round:
        return ""
    if round == to.round:
        return "The call still waits."
    look = given.command("pending", asked)
    return f"`{look}` shows it; answer it with --round {round}."


async def open_question(runtime: Runtime, call_id: str) -> Question:
    """The call that asks something now, and which question that is, counted from the first of the call itself; or 0."""
    standing = await runtime.standing(call_id)
    if standing is None:
        return Question(call_id, 0)
    if standing.asked is not None:
        return Question(standing.asked.call_id, standing.round)
    # Of a call whose process died there is an outcome already, and yet somebody is asked what came of it.
    held = await runtime.parts.waits.find(call_id, runtime.principal)
    return Question(call_id, held.wait.round if standing.state == "unknown" and held and held.wait else 0)
