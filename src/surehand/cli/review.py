"""Answers several pending calls, one after the other: `approve --all`, and `approve` without an id in a terminal."""

from __future__ import annotations

import sys
from contextlib import redirect_stdout
from functools import partial
from typing import Any

from surehand.cli.answers import QuestionId, answer_and_print, answer_and_write, find_yes_no_form, print_heading
from surehand.cli.elicitation_form import accept_answer
from surehand.cli.exit_codes import EXIT_DONE, EXIT_PENDING
from surehand.cli.formatting import is_terminal
from surehand.cli.lifecycle import start_runtime
from surehand.cli.options import RuntimeOptions
from surehand.cli.prompt import EndOfAnswers, ask_for_answer, discard_typed_input, review_approval
from surehand.core.outcome import Outcome
from surehand.runtime.invocation.approval import Approval
from surehand.runtime.pending.pending_call import PendingCall
from surehand.runtime.runtime import Runtime

NOTHING_PENDING_MESSAGE = "No calls are pending.\n"


async def send_approval(
    runtime: Runtime,
    call_id: str,
    *,
    always: bool = False,
    arguments: Any = None,
    by: str | None = None,
    round: int | None = None,
) -> Outcome:
    """Approve a call; a form without required fields, with which MCP servers ask for a yes, is accepted."""
    form = await find_yes_no_form(runtime, call_id) if arguments is None else None
    acceptance = accept_answer(form, always=always) if form is not None else None
    if acceptance is not None:
        return await runtime.settle(call_id, acceptance, by=by, round=round)
    return await runtime.approve(call_id, always=always, arguments=arguments, by=by, round=round)


async def approve_all(options: RuntimeOptions, *, always: bool, by: str | None, as_json: bool) -> int:
    """Approve every call that waits for an approval when the command starts; returns the exit code of the worst."""
    stdout = sys.stdout
    for_person = is_terminal(stdout) and not as_json
    codes = []
    with redirect_stdout(stdout if for_person else sys.stderr):
        async with start_runtime(options.build_answering_runtime()) as runtime:
            waiting = [each for each in await runtime.pending() if each.waiting_for == "approval"]
            for pending_call in waiting:
                question = QuestionId(pending_call.call_id, pending_call.round)
                send = partial(send_approval, call_id=question.call_id, always=always, by=by, round=question.round)
                if for_person:
                    print_heading(_heading(pending_call))
                    codes.append(await answer_and_print(options, runtime, question, send))
                else:
                    codes.append(await answer_and_write(options, runtime, question, send, stdout))
    if not codes:
        sys.stderr.write(NOTHING_PENDING_MESSAGE)
    return next((code for code in codes if code != EXIT_DONE), EXIT_DONE)


async def review_pending(options: RuntimeOptions, *, by: str | None) -> int:
    """Ask the person about each pending call, oldest first; returns 3 if any was left without an answer."""
    async with start_runtime(options.build_answering_runtime()) as runtime:
        waiting = await runtime.pending()
        if not waiting:
            sys.stderr.write(NOTHING_PENDING_MESSAGE)
            return EXIT_DONE
        left_count = 0
        for number, pending_call in enumerate(waiting, 1):
            print_heading(f"{number} of {len(waiting)}: {_heading(pending_call)}")
            discard_typed_input()
            try:
                is_answered = await _review_call(options, runtime, pending_call, by)
            except EndOfAnswers:
                left_count += len(waiting) - number + 1
                break
            left_count += not is_answered
    if left_count:
        sys.stderr.write(f"{left_count} {'call is' if left_count == 1 else 'calls are'} still pending.\n")
    return EXIT_PENDING if left_count else EXIT_DONE


async def _review_call(options: RuntimeOptions, runtime: Runtime, pending_call: PendingCall, by: str | None) -> bool:
    """Ask about one call and give the answer; False if the person skips it."""
    question = QuestionId(pending_call.call_id, pending_call.round)
    if pending_call.waiting_for != "approval":
        answer = ask_for_answer(pending_call, runtime.catalogue)
        if answer is None:
            raise EndOfAnswers
        if answer[0] == "":
            return False

        async def settle(runtime: Runtime) -> Outcome:
            return await runtime.settle(question.call_id, answer[0], by=by, round=question.round)

        await answer_and_print(options, runtime, question, settle)
        return True
    approval = review_approval(pending_call, runtime.catalogue, runtime.policy)
    if approval is None:
        return False
    decision: Approval = approval

    async def decide(runtime: Runtime) -> Outcome:
        if decision.allow:
            return await runtime.approve(question.call_id, arguments=decision.arguments, by=by, round=question.round)
        return await runtime.reject(question.call_id, by=by, round=question.round)

    await answer_and_print(options, runtime, question, decide, is_rejection=not decision.allow)
    return True


def _heading(pending_call: PendingCall) -> str:
    return f"{pending_call.tool} ({pending_call.call_id})"
