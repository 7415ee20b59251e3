"""`surehand approve`: let a waiting call run."""

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
from surehand.cli.options import RuntimeOptions, with_tools_and_store
from surehand.core.errors import InvalidArguments
from surehand.core.outcome import Outcome
from surehand.core.strict_json import parse_json
from surehand.runtime.runtime import Runtime


class JsonObjectParam(click.ParamType[Mapping[str, Any]]):
    """Arguments as one JSON object."""

    name = "json"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Mapping[str, Any]:
        """The object."""
        try:
            found = parse_json(value)
        except InvalidArguments as error:
            self.fail(str(error).partition(" Send ")[0], param, ctx)  # what follows tells a model what to do
        if not isinstance(found, dict):
            self.fail('give a JSON object: {"name": value, ...}.', param, ctx)
        return found


@click.command("approve")
@click.argument("call_id")
@click.option("--always", is_flag=True, help="Do not ask again for this tool and this user; a deny still denies.")
@click.option("--arguments", type=JsonObjectParam(), metavar="JSON", help="Run it with these in place of its own.")
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
    """Let the waiting call CALL_ID run.

    It runs here if its tool is here, else in the next process on the store that has it. A form in which nothing has to
    be filled in, as servers ask for a yes, is accepted as it is.

    Exit codes are those of `call`: 0 done, 1 failed, 3 pending, 4 denied, 5 no such call.
    """
    name = by or login_name()

    async def answer(runtime: Runtime) -> Outcome:
        form = await find_yes_no_form(runtime, call_id) if arguments is None else None
        if form is not None and (yes := accept_answer(form, always=always)) is not None:
            return await runtime.settle(call_id, yes, by=name, round=round)
        return await runtime.approve(call_id, always=always, arguments=arguments, by=name, round=round)

    ctx.exit(give_answer(options, QuestionId(call_id, round), answer, as_json=as_json))
