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

from surehand.cli.elicitation_form import is_yes_no_form
from surehand.cli.exit_codes import EXIT_NOT_FOUND, EXIT_REFUSED, print_problem
from surehand.cli.formatting import is_terminal, json_line
from surehand.cli.lifecycle import run_coroutine, start_runtime
from surehand.cli.options import RuntimeOptions
from surehand.cli.outcome_output import answer_hint, exit_code, find_current_question, outcome_to_json, print_outcome
from surehand.cli.progress import ProgressDisplay
from surehand.core.events import CallPending, Event
from surehand.core.outcome import Failed, Outcome, Pending
from surehand.core.sanitize import escape_unprintable
from surehand.runtime.runtime import Runtime

SendAnswer: TypeAlias = Callable[[Runtime], Awaitable[Outcome]]

RUNS_ELSEWHERE_HINT = "A process on this store that has the tool goes on with it."

by_option = click.option("--by", metavar="NAME", help="Who decides, for the audit [your login name].")
json_option = click.option("--json", "as_json", is_flag=True, help="The outcome as a JSON line, as in a pipe.")
round_option = click.option(
    "--round", type=click.IntRange(1), default=1, metavar="N", help="Which of its questions, as `pending` shows it [1]."
)


class QuestionId(NamedTuple):
    """One of the questions of a call. A yes to one is none to the next."""

    call_id: str
    round: int


def login_name() -> str | None:
    """Who is at the keyboard, as far as the system knows."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a container may have no name for its user
        return None


def give_answer(
    options: RuntimeOptions, question: QuestionId, send_answer: SendAnswer, *, as_json: bool, is_rejection: bool = False
) -> int:
    """Give an answer and show what came of the call; its exit code, as that of `call`.

    Args:
        rejects: it is a no, also where a server has its own words for what came of that.
    """
    runtime = options.build_answering_runtime()
    if is_terminal(sys.stdout) and not as_json:
        return run_coroutine(_answer_for_person(options, runtime, question, send_answer, is_rejection))
    return run_coroutine(_answer_for_program(runtime, question, send_answer, is_rejection))


async def _answer_for_person(
    options: RuntimeOptions, runtime: Runtime, question: QuestionId, send_answer: SendAnswer, is_rejection: bool
) -> int:
    watch = ProgressDisplay()
    async with start_runtime(runtime):
        if is_terminal(sys.stderr):
            watch.follow(runtime)
        try:
            outcome, known = await _send_and_wait(runtime, question.call_id, send_answer)
        finally:
            watch.close()
        code = _exit_code(outcome, is_rejection) if known else EXIT_NOT_FOUND
        if isinstance(outcome, Failed) and outcome.code == "rejected":
            print_problem("the call has ended, and did not run.", prefix="rejected", ansi_colour=33)
        elif isinstance(outcome, Failed) and is_rejection and code == EXIT_REFUSED:
            print_problem(escape_unprintable(outcome.message), prefix="rejected", ansi_colour=33)
        else:
            outcome, round = await find_current_question(runtime, outcome)
            await print_outcome(
                outcome, runtime.services.outputs, await _next_step_hint(options, runtime, question, outcome, round)
            )
    return code


async def _answer_for_program(
    runtime: Runtime, question: QuestionId, send_answer: SendAnswer, is_rejection: bool
) -> int:
    out = sys.stdout
    with redirect_stdout(sys.stderr):  # what a handler prints is no part of our output
        async with start_runtime(runtime):
            outcome, known = await _send_and_wait(runtime, question.call_id, send_answer)
            shown = outcome_to_json(outcome, *await find_current_question(runtime, outcome))
            out.write(json_line(shown | {"call_id": shown["call_id"] or question.call_id}))
            out.flush()
    return _exit_code(outcome, is_rejection) if known else EXIT_NOT_FOUND


def _exit_code(outcome: Outcome, is_rejection: bool) -> int:
    """A server tells in its own words that it was refused something: to us, its tool has failed then."""
    if is_rejection and isinstance(outcome, Failed) and outcome.code == "failed":
        return EXIT_REFUSED
    return exit_code(outcome)


async def _send_and_wait(runtime: Runtime, call_id: str, send_answer: SendAnswer) -> tuple[Outcome, bool]:
    """The outcome, and whether there is such a call at all. A call that waits once more is not waited for."""
    mine = await _call_chain(runtime, call_id)
    waits: asyncio.Future[Pending] = asyncio.get_running_loop().create_future()

    def heard(event: Event) -> None:
        if isinstance(event, CallPending) and event.call_id in mine and not waits.done():
            waits.set_result(Pending(event.waiting_for, event.call_id, event.message, event.request, event.expires_at))

    unsubscribe = runtime.listen(heard)
    answering = asyncio.ensure_future(send_answer(runtime))
    try:
        await asyncio.wait((answering, waits), return_when=asyncio.FIRST_COMPLETED)
        return answering.result() if answering.done() else waits.result(), bool(mine)
    finally:
        unsubscribe()
        answering.cancel()


async def find_yes_no_form(runtime: Runtime, call_id: str) -> dict[str, Any] | None:
    """The form that a call was last asked with, if yes or no is an answer to it; None for any other question.

    An approval that a server asks for comes as such a form.
    """
    ids = await _call_chain(runtime, call_id)
    held = await runtime.services.pending_calls.find(ids[-1], runtime.principal) if ids else None
    if held is None or held.rounds[-1].waiting_for != "input":
        return None
    request = json.loads(held.rounds[-1].request)
    return request if is_yes_no_form(request) else None


async def _call_chain(runtime: Runtime, call_id: str) -> list[str]:
    """The call, and those that it waits for in turn: the answer is meant for the last."""
    found: list[str] = []
    inner: str | None = call_id
    while (
        inner is not None and (held := await runtime.services.pending_calls.find(inner, runtime.principal)) is not None
    ):
        found.append(inner)
        inner = held.open_round.inner_call_id if held.open_round else None
    return found


async def _next_step_hint(
    options: RuntimeOptions, runtime: Runtime, question: QuestionId, outcome: Outcome, round: int
) -> str:
    """What a person needs to know beside the outcome: whether the call still waits, and for whom."""
    if isinstance(outcome, Pending):
        return answer_hint(outcome, options, round=round) if round else RUNS_ELSEWHERE_HINT
    asked, round = await find_open_question(runtime, question.call_id)
    if not round:
        return ""
    if round == question.round:
        return "The call still waits."
    look = options.follow_up_command("pending", asked)
    return f"`{look}` shows it; answer it with --round {round}."


async def find_open_question(runtime: Runtime, call_id: str) -> QuestionId:
    """The call that asks something now, and which question that is, counted from the first of the call itself; or 0."""
    standing = await runtime.status(call_id)
    if standing is None:
        return QuestionId(call_id, 0)
    if standing.question is not None:
        return QuestionId(standing.question.call_id, standing.round)
    # Of a call whose process died there is an outcome already, and yet somebody is asked what came of it.
    held = await runtime.services.pending_calls.find(call_id, runtime.principal)
    return QuestionId(call_id, held.open_round.round if standing.state == "unknown" and held and held.open_round else 0)
