"""`surehand revoke`: revoke standing approvals of a tool."""

from __future__ import annotations

import sys

import click

from surehand.cli.answers import by_option, login_name
from surehand.cli.commands.grants import user_option
from surehand.cli.exit_codes import EXIT_NOT_FOUND, CommandExit
from surehand.cli.formatting import is_terminal, json_line, to_one_line
from surehand.cli.lifecycle import open_store, run_coroutine
from surehand.cli.options import RuntimeOptions, with_store
from surehand.core.names import nearest_names


@click.command("revoke")
@click.argument("name")
@user_option
@by_option
@click.option("--json", "as_json", is_flag=True, help="One JSON line, as in a pipe.")
@with_store
def command(options: RuntimeOptions, name: str, user: str | None, by: str | None, as_json: bool) -> None:
    """Revoke the standing approvals of the tool NAME, for --user or for all users.

    Its next call asks again, in every process on the store.

    Exit codes: 0 revoked, 2 the store cannot be used, 5 there is no such approval.
    """
    revoked, other_tools = run_coroutine(_revoke(options.require_store_address(), name, user, by or login_name()))
    if not revoked:
        similar = nearest_names(name, other_tools, 1)
        whose = "" if user is None else f" of user {user!r}"
        hint = f" Did you mean {similar[0]}?" if similar else ""
        raise CommandExit(EXIT_NOT_FOUND, f"There is no standing approval{whose} for {name!r}.{hint}")
    if as_json or not is_terminal(sys.stdout):
        sys.stdout.write(json_line({"tool": name, "user": user, "revoked": revoked}))
    else:
        whose = "all users" if user is None else to_one_line(user) or "calls without a user"
        sys.stdout.write(f"Revoked. The next call of {to_one_line(name)} for {whose} asks again.\n")


async def _revoke(address: str, name: str, user: str | None, by: str | None) -> tuple[int, list[str]]:
    """The number of revoked approvals; if none, also the tools that have some."""
    async with open_store(address) as store:
        revoked = await store.grants.revoke(name, user, by)
        await store.audit.seal()  # perhaps no runtime is open on the store, which would seal the audit row
        if revoked:
            return revoked, []
        return revoked, sorted({grant.tool for grant in await store.grants.list_grants(user)})
