"""`surehand approve`: approve a pending call."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

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
from surehand.cli.elicitation_form import accept_answer
from surehand.cli.options import JsonObjectParam, RuntimeOptions, with_tools_and_store
from surehand.core.outcome import Outcome
from surehand.runtime.runtime import Runtime


@click.command("approve")
@click.argument("call_id")
@click.option("--always", is_flag=True, help="Do not ask again for this tool and this user; a deny rule still denies.")
@click.option(
    "--arguments", type=JsonObjectParam(), metavar="JSON", help="Run it with these arguments instead of its own."
)
@round_option
@by_option
@json_option
@with_tools_and_store
@click.pass_context
def command(
    ctx: click.Context,
    options: RuntimeOptions,
    call_id: str,
    always: bool,
    arguments: Mapping[str, Any] | None,
    round: int,
    by: str | None,
    as_json: bool,
) -> None:
    """Approve the pending call CALL_ID.

    It runs in this process if its tool is configured here, else in the next process on the store that has the tool. A
    form without required fields, with which MCP servers ask for a yes, is accepted.

    Exit codes are those of `call`: 0 done, 1 failed, 3 pending, 4 denied, 5 no such call.
    """
    name = by or login_name()

    async def approve(runtime: Runtime) -> Outcome:
        form = await find_yes_no_form(runtime, call_id) if arguments is None else None
        acceptance = accept_answer(form, always=always) if form is not None else None
        if acceptance is not None:
            return await runtime.settle(call_id, acceptance, by=name, round=round)
        return await runtime.approve(call_id, always=always, arguments=arguments, by=name, round=round)

    ctx.exit(give_answer(options, QuestionId(call_id, round), approve, as_json=as_json))
