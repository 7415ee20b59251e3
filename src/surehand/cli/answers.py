"""Answers a pending call and reports its outcome: shared by `approve`, `reject` and `settle`."""

from __future__ import annotations

import asyncio
import getpass
import json
import sys
from collections.abc import Awaitable, Callable, Sequence
from contextlib import redirect_stdout
from typing import IO, Any, NamedTuple, TypeAlias

import click
from rich.text import Text

from surehand.cli.elicitation_form import is_yes_no_form
from surehand.cli.exit_codes import EXIT_DONE, EXIT_NOT_FOUND, EXIT_REFUSED, YELLOW, print_problem
from surehand.cli.formatting import create_console, is_terminal, json_line, to_one_line
from surehand.cli.lifecycle import run_coroutine, start_runtime
from surehand.cli.options import RuntimeOptions
from surehand.cli.outcome_output import answer_hint, exit_code, find_current_question, outcome_to_json, print_outcome
from surehand.cli.progress import ProgressDisplay
from surehand.core.events import CallPending, Event
from surehand.core.outcome import Failed, Outcome, Pending
from surehand.core.sanitize import escape_unprintable
from surehand.runtime.runtime import Runtime

SendAnswer: TypeAlias = Callable[[Runtime], Awaitable[Outcome]]
"""Gives the answer to a runtime, and returns the outcome of the call."""

RUNS_ELSEWHERE_HINT = "A process on this store that has the tool resumes it."

by_option = click.option("--by", metavar="NAME", help="Who decides, for the audit [your login name].")
json_option = click.option("--json", "as_json", is_flag=True, help="The outcome as a JSON line, as in a pipe.")
round_option = click.option(
    "--round", type=click.IntRange(1), default=1, metavar="N", help="Which of its questions, as `pending` shows it [1]."
)


class QuestionId(NamedTuple):
    """One question of a call, by its round. An answer counts for one question only."""

    call_id: str
    round: int


class QuestionAnswer(NamedTuple):
    """A question, and what gives its answer."""

    question: QuestionId
    send: SendAnswer


def login_name() -> str | None:
    """The login name of the person at the keyboard; None if the system does not know it."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # in a container the user may have no name
        return None


def give_answers(
    options: RuntimeOptions, answers: Sequence[QuestionAnswer], *, as_json: bool, is_rejection: bool = False
) -> int:
    """Answer questions one after the other, print the outcome of each call, and return the exit code.

    It is that of the first answer that had another effect than it should.

    Args:
        is_rejection: the answers are a no, so a failure that the server reports counts as refused.
    """
    runtime = options.build_answering_runtime()
    if is_terminal(sys.stdout) and not as_json:
        codes = run_coroutine(_answer_for_person(options, runtime, answers, is_rejection))
    else:
        codes = run_coroutine(_answer_for_program(options, runtime, answers, is_rejection))
    expected_code = EXIT_REFUSED if is_rejection else EXIT_DONE
    return next((code for code in codes if code != expected_code), expected_code)


async def _answer_for_person(
    options: RuntimeOptions, runtime: Runtime, answers: Sequence[QuestionAnswer], is_rejection: bool
) -> list[int]:
    codes: list[int] = []
    async with start_runtime(runtime):
        for question, send_answer in answers:
            if len(answers) > 1:
                print_heading(question.call_id)
            code = await answer_and_print(options, runtime, question, send_answer, is_rejection=is_rejection)
            codes.append(code)
    return codes


def print_heading(text: str) -> None:
    """Print which call the next lines are about."""
    create_console(sys.stderr).print(Text(to_one_line(text), style="bold cyan"), soft_wrap=True)


async def answer_and_print(
    options: RuntimeOptions,
    runtime: Runtime,
    question: QuestionId,
    send_answer: SendAnswer,
    *,
    is_rejection: bool = False,
) -> int:
    """Answer a question in a runtime that is open, print the outcome for a person, and return the exit code."""
    progress = ProgressDisplay()
    if is_terminal(sys.stderr):
        progress.follow(runtime)
    try:
        outcome, is_known = await _send_and_wait(runtime, question.call_id, send_answer)
    finally:
        progress.close()
    if not is_known:
        await print_outcome(outcome, runtime.outputs, _unknown_call_hint(options))
        return EXIT_NOT_FOUND
    code = _exit_code(outcome, is_rejection)
    if isinstance(outcome, Failed) and outcome.code == "rejected":
        print_problem("the call did not run, and has ended.", prefix="rejected", ansi_colour=YELLOW)
    elif isinstance(outcome, Failed) and is_rejection and code == EXIT_REFUSED:
        print_problem(escape_unprintable(outcome.message), prefix="rejected", ansi_colour=YELLOW)
    else:
        outcome, round = await find_current_question(runtime, outcome)
        hint = await _next_step_hint(options, runtime, question, outcome, round)
        await print_outcome(outcome, runtime.outputs, hint)
    return code


async def _answer_for_program(
    options: RuntimeOptions, runtime: Runtime, answers: Sequence[QuestionAnswer], is_rejection: bool
) -> list[int]:
    stdout = sys.stdout
    codes: list[int] = []
    with redirect_stdout(sys.stderr):  # keep the prints of handlers out of the JSON on stdout
        async with start_runtime(runtime):
            for question, send_answer in answers:
                code = await answer_and_write(
                    options, runtime, question, send_answer, stdout, is_rejection=is_rejection
                )
                codes.append(code)
    return codes


async def answer_and_write(
    options: RuntimeOptions,
    runtime: Runtime,
    question: QuestionId,
    send_answer: SendAnswer,
    stdout: IO[str],
    *,
    is_rejection: bool = False,
) -> int:
    """Answer a question in a runtime that is open, write the outcome as a JSON line, and return the exit code."""
    outcome, is_known = await _send_and_wait(runtime, question.call_id, send_answer)
    current_question, round = await find_current_question(runtime, outcome)
    record = outcome_to_json(outcome, current_question, round)
    stdout.write(json_line(record | {"call_id": record["call_id"] or question.call_id}))
    stdout.flush()
    if not is_known:
        sys.stderr.write(f"{_unknown_call_hint(options)}\n")
        return EXIT_NOT_FOUND
    return _exit_code(outcome, is_rejection)


def _unknown_call_hint(options: RuntimeOptions) -> str:
    return f"`{options.follow_up_command('pending')}` lists the calls that wait."


def _exit_code(outcome: Outcome, is_rejection: bool) -> int:
    """The exit code; a server reports a rejection as a failure of its tool, which counts as refused."""
    if is_rejection and isinstance(outcome, Failed) and outcome.code == "failed":
        return EXIT_REFUSED
    return exit_code(outcome)


async def _send_and_wait(runtime: Runtime, call_id: str, send_answer: SendAnswer) -> tuple[Outcome, bool]:
    """Send the answer; return the outcome, and whether the call is known. Return early if the call asks again."""
    own_call_ids = await _call_chain(runtime, call_id)
    asks_again: asyncio.Future[Pending] = asyncio.get_running_loop().create_future()

    def handle_event(event: Event) -> None:
        if isinstance(event, CallPending) and event.call_id in own_call_ids and not asks_again.done():
            pending = Pending(event.waiting_for, event.call_id, event.message, event.request, event.expires_at)
            asks_again.set_result(pending)

    unsubscribe = runtime.listen(handle_event)
    answering = asyncio.ensure_future(send_answer(runtime))
    try:
        await asyncio.wait((answering, asks_again), return_when=asyncio.FIRST_COMPLETED)
        outcome = answering.result() if answering.done() else asks_again.result()
        return outcome, bool(own_call_ids)
    finally:
        unsubscribe()
        answering.cancel()


async def find_yes_no_form(runtime: Runtime, call_id: str) -> dict[str, Any] | None:
    """The form of a call's last question if yes or no can answer it; None for any other question.

    An MCP server asks for an approval with such a form.
    """
    call_ids = await _call_chain(runtime, call_id)
    if not call_ids:
        return None
    questions = await runtime.questions(call_ids[-1])
    if not questions or questions[-1].waiting_for != "input":
        return None
    request = json.loads(questions[-1].request)
    return request if is_yes_no_form(request) else None


async def _call_chain(runtime: Runtime, call_id: str) -> list[str]:
    """The ids of the call, of the call that it waits for, and so on; the last one asks the question."""
    chain: list[str] = []
    next_id: str | None = call_id
    while next_id is not None:
        questions = await runtime.questions(next_id)
        if not questions:
            break
        chain.append(next_id)
        next_id = questions[-1].inner_call_id if questions[-1].is_open else None
    return chain


async def _next_step_hint(
    options: RuntimeOptions, runtime: Runtime, question: QuestionId, outcome: Outcome, round: int
) -> str:
    """What the person can do next: nothing, answer again, or look at another question."""
    if isinstance(outcome, Pending):
        return answer_hint(outcome, options, round=round) if round else RUNS_ELSEWHERE_HINT
    call_id, open_round = await find_open_question(runtime, question.call_id)
    if not open_round:
        return ""
    if open_round == question.round:
        return "The call is still pending."
    show_command = options.follow_up_command("pending", call_id)
    return f"`{show_command}` shows it; answer it with --round {open_round}."


async def find_open_question(runtime: Runtime, call_id: str) -> QuestionId:
    """The open question of a call, or of the call that it waits for; its round is 0 if there is none."""
    status = await runtime.status(call_id)
    if status is None or status.question is None:
        return QuestionId(call_id, 0)
    return QuestionId(status.question.call_id, status.round)
