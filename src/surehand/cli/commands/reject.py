"""`surehand reject`: reject a pending call."""

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
from surehand.cli.call_ids import find_call_id
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
    """Reject the pending call CALL_ID: it ends without running. Its caller gets REASON.

    A form without required fields, with which MCP servers ask for a yes, is declined; servers take no reason.

    Exit codes are those of `call`: 4 the call is rejected, 1 it already had another answer, 5 no such call.
    """
    name = by or login_name()
    call_id = find_call_id(options, call_id, pending_first=True)

    async def reject(runtime: Runtime) -> Outcome:
        if await find_yes_no_form(runtime, call_id) is not None:
            return await runtime.settle(call_id, DECLINE_ANSWER, by=name, round=round)
        return await runtime.reject(call_id, reason, by=name, round=round)

    ctx.exit(give_answer(options, QuestionId(call_id, round), reject, as_json=as_json, is_rejection=True))
