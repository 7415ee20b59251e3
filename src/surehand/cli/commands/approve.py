"""`surehand approve`: approve pending calls by their ids, all of them, or go through them one by one."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from functools import partial
from typing import Any

import click

from surehand.cli.answers import (
    QuestionAnswer,
    QuestionId,
    by_option,
    give_answers,
    json_option,
    login_name,
    round_option,
)
from surehand.cli.call_ids import find_call_ids
from surehand.cli.formatting import is_terminal
from surehand.cli.lifecycle import run_coroutine
from surehand.cli.options import JsonObjectParam, RuntimeOptions, with_tools_and_store
from surehand.cli.review import approve_all, review_pending, send_approval


@click.command("approve")
@click.argument("call_ids", nargs=-1, metavar="[CALL_ID]...")
@click.option("--all", "every", is_flag=True, help="Approve every call that waits for an approval.")
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
    call_ids: tuple[str, ...],
    every: bool,
    always: bool,
    arguments: Mapping[str, Any] | None,
    round: int,
    by: str | None,
    as_json: bool,
) -> None:
    """Approve the pending calls CALL_ID; without one, in a terminal, go through all pending calls one by one.

    A call runs in this process if its tool is configured here, else in the next process on the store that has the tool.
    A form without required fields, with which MCP servers ask for a yes, is accepted.

    Exit codes are those of `call`: 0 done, 1 failed, 3 pending, 4 denied, 5 no such call. Of several calls, the first
    that is not done decides.
    """
    name = by or login_name()
    if call_ids and every:
        raise click.UsageError("Give CALL_ID or --all, not both.")
    if len(call_ids) != 1 and (arguments is not None or round != 1):
        raise click.UsageError("--arguments and --round are for one call. Give its CALL_ID.")
    if call_ids:
        approve = partial(send_approval, always=always, arguments=arguments, by=name, round=round)
        answers = [
            QuestionAnswer(QuestionId(call_id, round), partial(approve, call_id=call_id))
            for call_id in find_call_ids(options, call_ids)
        ]
        ctx.exit(give_answers(options, answers, as_json=as_json))
    if every:
        ctx.exit(run_coroutine(approve_all(options, always=always, by=name, as_json=as_json)))
    if always or as_json or not (is_terminal(sys.stdin) and is_terminal(sys.stdout)):
        raise click.UsageError("Give CALL_ID or --all. In a terminal, `surehand approve` goes through what is pending.")
    ctx.exit(run_coroutine(review_pending(options, by=name)))
