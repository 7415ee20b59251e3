"""`surehand settle`: answer a pending call that waits for a result or for input."""

from __future__ import annotations

import sys
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
from surehand.cli.call_ids import find_call_id
from surehand.cli.options import RuntimeOptions, with_tools_and_store
from surehand.core.errors import InvalidArguments
from surehand.core.outcome import Done, Failed, Outcome
from surehand.core.strict_json import MalformedJson, parse_json
from surehand.runtime.runtime import Runtime


@click.command("settle")
@click.argument("call_id")
@click.argument("answer", required=False, metavar="[JSON | TEXT | -]")
@click.option("--failed", metavar="MESSAGE", help="The call failed: MESSAGE says why.")
@round_option
@by_option
@json_option
@with_tools_and_store
@click.pass_context
def command(
    ctx: click.Context,
    options: RuntimeOptions,
    call_id: str,
    answer: str | None,
    failed: str | None,
    round: int,
    by: str | None,
    as_json: bool,
) -> None:
    """Answer the pending call CALL_ID.

    The answer is JSON, any other text, - to read stdin, or nothing.

    Exit codes are those of `call`: 0 done, 1 failed, 3 pending, 5 no such call.
    """
    if failed is not None and answer is not None:
        raise click.UsageError("Give an answer or --failed, not both.")
    value = Failed("failed", failed) if failed is not None else Done(_parse_answer(answer))
    name = by or login_name()
    call_id = find_call_id(options, call_id, pending_first=True)

    async def settle(runtime: Runtime) -> Outcome:
        return await runtime.settle(call_id, value, by=name, round=round)

    ctx.exit(give_answers(options, [QuestionAnswer(QuestionId(call_id, round), settle)], as_json=as_json))


def _parse_answer(answer: str | None) -> Any:
    """The answer, parsed if it is JSON."""
    text = sys.stdin.read() if answer == "-" else answer
    try:
        return None if text is None else parse_json(text)
    except MalformedJson:
        return text
    except InvalidArguments as error:
        raise click.UsageError(f"The answer is not valid: {error}") from error
