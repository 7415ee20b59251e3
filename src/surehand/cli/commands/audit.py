"""`surehand audit`: whether what was recorded is still what was recorded."""

from __future__ import annotations

import re
import sys
from dataclasses import asdict
from typing import Any

import click

from surehand.cli.exit_codes import EXIT_DONE, EXIT_FAILED, print_problem
from surehand.cli.formatting import is_terminal, json_line
from surehand.cli.lifecycle import open_store, run_coroutine
from surehand.cli.options import RuntimeOptions, with_store
from surehand.core.sanitize import escape_unprintable
from surehand.store.tables.audit import AuditVerification

_FIND_SEAL_SQL = "SELECT position FROM seals WHERE hash = :hash AND position <= :position"


class SealHashParam(click.ParamType[str]):
    """The hash of a seal."""

    name = "hash"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """In lower case, as it is kept."""
        if not re.fullmatch(r"[0-9a-f]{64}", found := str(value).strip().lower()):
            self.fail("a head is 64 hexadecimal digits, as `surehand audit verify` shows it.", param, ctx)
        return found


@click.group("audit")
def command() -> None:
    """Who decided and did what, under a chain of seals."""


@command.command("verify")
@click.option(
    "--head", type=SealHashParam(), metavar="HASH", help="A head noted earlier, which has to be in the chain."
)
@click.option("--json", "as_json", is_flag=True, help="One JSON line, as in a pipe.")
@with_store
@click.pass_context
def verify(ctx: click.Context, options: RuntimeOptions, head: str | None, as_json: bool) -> None:
    """Follow the chain of seals from its beginning, and compare every sealed row with its seal.

    With --head also: the seal that was the last when this head was noted is still in the chain, so nothing up to it was
    changed, taken away or cut off.

    Exit codes: 0 sound, 1 not sound, 2 the store cannot be used.
    """
    found, position = run_coroutine(_verify(options.require_store_address(), head))
    problem = found.problem
    if problem is None and head is not None and position is None:
        problem = "The noted head is not in the chain: what it sealed was cut off, or this is another store."
    if as_json or not is_terminal(sys.stdout):
        noted = {} if head is None else {"noted_seal": position}
        sys.stdout.write(json_line({"sound": problem is None, **asdict(found), "problem": problem, **noted}))
    else:
        _print_verification(found, problem, position)
    ctx.exit(EXIT_DONE if problem is None else EXIT_FAILED)


async def _verify(address: str, head: str | None) -> tuple[AuditVerification, int | None]:
    """What came of it, and which seal that holds had the noted head."""
    async with open_store(address) as store:
        found = await store.audit.verify()
        rows = await store.database.read(_FIND_SEAL_SQL, {"hash": head or "", "position": found.seals})
        return found, int(rows[0]["position"]) if rows else None


def _print_verification(verification: AuditVerification, problem: str | None, noted_seal: int | None) -> None:
    sys.stdout.write(
        f"{verification.rows} rows, {verification.seals} seals that hold, {verification.unsealed} rows after the last of them\n"
    )
    if verification.head:
        sys.stdout.write(f"head {verification.head}\n")
    if noted_seal is not None:
        sys.stdout.write(f"The noted head is seal {noted_seal}.\n")
    if problem is None:
        sys.stdout.write("The audit is sound.\n")
    else:
        print_problem(escape_unprintable(problem), prefix="not sound")
