"""`surehand cancel`: cancel a pending call."""

from __future__ import annotations

import sys

import click

from surehand.cli.answers import by_option, login_name
from surehand.cli.call_ids import find_call_id
from surehand.cli.exit_codes import EXIT_FAILED, EXIT_NOT_FOUND, CommandExit
from surehand.cli.formatting import is_terminal, json_line, to_one_line
from surehand.cli.lifecycle import run_coroutine, start_runtime
from surehand.cli.options import RuntimeOptions, with_store
from surehand.core.outcome import Failed, Outcome
from surehand.runtime.pending.status import CallStatus
from surehand.runtime.runtime import Runtime


@click.command("cancel")
@click.argument("call_id")
@by_option
@click.option("--json", "as_json", is_flag=True, help="One JSON line, as in a pipe.")
@with_store
def command(options: RuntimeOptions, call_id: str, by: str | None, as_json: bool) -> None:
    """Cancel the pending call CALL_ID: it ends without an answer.

    A call that was answered and has not started yet is cancelled too; its caller gets `cancelled`. A running call can
    be stopped only by the process that runs it.

    Exit codes: 0 cancelled, 1 it runs, has ended or may have happened, 2 the store cannot be used, 5 no such call.
    """
    call_id = find_call_id(options, call_id, pending_first=True)
    status = run_coroutine(_cancel(options, call_id, by or login_name()))
    if status is None:
        raise CommandExit(EXIT_NOT_FOUND, f"The store has no call {call_id[:80]}.")
    if not _is_cancelled(status.outcome):
        raise CommandExit(EXIT_FAILED, _refusal_message(status))
    if as_json or not is_terminal(sys.stdout):
        sys.stdout.write(json_line({"call_id": call_id, "tool": status.tool, "cancelled": True}))
    else:
        sys.stdout.write(f"Cancelled: {to_one_line(status.tool)} does not run.\n")


async def _cancel(options: RuntimeOptions, call_id: str, by: str | None) -> CallStatus | None:
    without_tools = Runtime(store=options.require_store_address())  # so it resumes no answered calls
    async with start_runtime(without_tools) as runtime:
        await runtime.cancel(call_id, by=by)
        return await runtime.status(call_id)


def _is_cancelled(outcome: Outcome | None) -> bool:
    return isinstance(outcome, Failed) and outcome.code == "cancelled"


def _refusal_message(status: CallStatus) -> str:
    if status.state == "ended":
        return f"Call {status.call_id[:80]} has already ended."
    if status.state == "unknown":
        return f"It is unknown whether call {status.call_id[:80]} took effect. Find out, and settle it with the result."
    return f"Call {status.call_id[:80]} is {status.state}: only the process that runs it can stop it."
