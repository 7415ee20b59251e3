"""`surehand reject`: do not let a waiting call run."""

from __future__ import annotations

import click

from surehand.cli.answers import (
    QuestionId,
    by_option,
    find_yes_no_form,
    give_answer,
    json_option,
    login_name,
    round_option,
)
from surehand.cli.elicitation_form import DECLINE_ANSWER
from surehand.cli.options import RuntimeOptions, with_tools_and_store
from surehand.core.outcome import Outcome
from surehand.runtime.runtime import Runtime


@click.command("reject")
@click.argument("call_id")
@click.argument("reason", required=False, default="")
@round_option
@by_option
@json_option
@with_tools_and_store
@click.pass_context
def command(
    ctx: click.Context, options: RuntimeOptions, call_id: str, reason: str, round: int, by: str | None, as_json: bool
) -> None:
    """End the waiting call CALL_ID without running it. REASON is told to whoever made the call.

    A form in which nothing has to be filled in, as servers ask for a yes, is declined; they take no reason.

    Exit codes are those of `call`: 4 once the call is rejected, 1 if it was answered otherwise already, 5 no such call.
    """
    name = by or login_name()

    async def answer(runtime: Runtime) -> Outcome:
        if await find_yes_no_form(runtime, call_id) is not None:
            return await runtime.settle(call_id, DECLINE_ANSWER, by=name, round=round)
        return await runtime.reject(call_id, reason, by=name, round=round)

    ctx.exit(give_answer(options, QuestionId(call_id, round), answer, as_json=as_json, is_rejection=True))
