"""`surehand reject`: reject pending calls."""

from __future__ import annotations

from functools import partial

import click

from surehand.cli.answers import (
    QuestionAnswer,
    QuestionId,
    by_option,
    find_yes_no_form,
    give_answers,
    json_option,
    login_name,
    round_option,
)
from surehand.cli.call_ids import find_call_ids
from surehand.cli.elicitation_form import DECLINE_ANSWER
from surehand.cli.options import RuntimeOptions, with_tools_and_store
from surehand.core.outcome import Outcome
from surehand.runtime.runtime import Runtime


@click.command("reject")
@click.argument("call_ids", nargs=-1, required=True, metavar="CALL_ID...")
@click.option("--reason", default="", metavar="TEXT", help="Why, for the caller.")
@round_option
@by_option
@json_option
@with_tools_and_store
@click.pass_context
def command(
    ctx: click.Context,
    options: RuntimeOptions,
    call_ids: tuple[str, ...],
    reason: str,
    round: int,
    by: str | None,
    as_json: bool,
) -> None:
    """Reject the pending calls CALL_ID: they end without running. Their callers get the reason.

    A form without required fields, with which MCP servers ask for a yes, is declined; servers take no reason.

    Exit codes are those of `call`: 4 the call is rejected, 1 it already had another answer, 5 no such call. Of several
    calls, the first that is not rejected decides.
    """
    name = by or login_name()
    if len(call_ids) > 1 and round != 1:
        raise click.UsageError("--round is for one call.")

    async def reject(runtime: Runtime, call_id: str) -> Outcome:
        if await find_yes_no_form(runtime, call_id) is not None:
            return await runtime.settle(call_id, DECLINE_ANSWER, by=name, round=round)
        return await runtime.reject(call_id, reason, by=name, round=round)

    answers = [
        QuestionAnswer(QuestionId(call_id, round), partial(reject, call_id=call_id))
        for call_id in find_call_ids(options, call_ids)
    ]
    ctx.exit(give_answers(options, answers, as_json=as_json, is_rejection=True))
