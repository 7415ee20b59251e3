"""`toolwright reject`: do not let a waiting call run."""

from __future__ import annotations

import click

from toolwright.cli.answer import by_option, give, json_option, login_name
from toolwright.cli.options import Given, with_tools_and_store


@click.command("reject")
@click.argument("call_id")
@click.argument("reason", required=False, default="")
@by_option
@json_option
@with_tools_and_store
@click.pass_context
def command(ctx: click.Context, given: Given, call_id: str, reason: str, by: str | None, as_json: bool) -> None:
    """End the waiting call CALL_ID without running it. REASON is told to whoever made the call.

    Exit codes are those of `call`: 4 once the call is rejected, 1 if it was answered otherwise already, 5 no such call.
    """
    name = by or login_name()
    ctx.exit(give(given, call_id, lambda runtime: runtime.reject(call_id, reason, by=name), as_json=as_json))
