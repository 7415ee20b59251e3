"""`surehand audit`: verify that the audit records were not changed."""

from __future__ import annotations

import sys
from dataclasses import asdict

import click

from surehand.cli.exit_codes import EXIT_DONE, EXIT_FAILED, print_problem
from surehand.cli.formatting import is_terminal, json_line
from surehand.cli.lifecycle import open_store, run_coroutine
from surehand.cli.options import HashParam, RuntimeOptions, with_store
from surehand.core.sanitize import escape_unprintable
from surehand.store.tables.audit import AuditVerification

_FIND_SEAL_SQL = "SELECT position FROM seals WHERE hash = :hash AND position <= :position"
_HEAD_PARAM = HashParam("a head", "surehand audit verify")


@click.group("audit")
def command() -> None:
    """Verify the audit: who decided what, sealed by a hash chain."""


@command.command("verify")
@click.option("--head", type=_HEAD_PARAM, metavar="HASH", help="A head noted earlier, which must be in the chain.")
@click.option("--json", "as_json", is_flag=True, help="One JSON line, as in a pipe.")
@with_store
@click.pass_context
def verify(ctx: click.Context, options: RuntimeOptions, head: str | None, as_json: bool) -> None:
    """Verify the chain of seals from its start, and every sealed row against its seal.

    With --head, also verify that the seal with this hash is still in the chain: then no row up to it was changed or
    deleted since the head was noted.

    Exit codes: 0 sound, 1 not sound, 2 the store cannot be used.
    """
    verification, noted_seal = run_coroutine(_verify(options.require_store_address(), head))
    problem = verification.problem
    if problem is None and head is not None and noted_seal is None:
        problem = "The noted head is not in the chain: its rows were deleted, or this is another store."
    if as_json or not is_terminal(sys.stdout):
        record = {"sound": problem is None, **asdict(verification), "problem": problem}
        if head is not None:
            record["noted_seal"] = noted_seal
        sys.stdout.write(json_line(record))
    else:
        _print_verification(verification, problem, noted_seal)
    ctx.exit(EXIT_DONE if problem is None else EXIT_FAILED)


async def _verify(address: str, head: str | None) -> tuple[AuditVerification, int | None]:
    """The verification, and the position of the valid seal with the noted head."""
    async with open_store(address) as store:
        verification = await store.audit.verify()
        rows = await store.database.read(_FIND_SEAL_SQL, {"hash": head or "", "position": verification.seals})
        return verification, int(rows[0]["position"]) if rows else None


def _print_verification(verification: AuditVerification, problem: str | None, noted_seal: int | None) -> None:
    counts = f"{verification.rows} rows, {verification.seals} valid seals, {verification.unsealed} rows after the last"
    sys.stdout.write(f"{counts}\n")
    if verification.head:
        sys.stdout.write(f"head {verification.head}\n")
    if noted_seal is not None:
        sys.stdout.write(f"The noted head is seal {noted_seal}.\n")
    if problem is None:
        sys.stdout.write("The audit is sound.\n")
    else:
        print_problem(escape_unprintable(problem), prefix="not sound")
