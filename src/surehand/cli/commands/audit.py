"""`surehand audit`: list, filter and show who decided and did what, and verify that no record was changed."""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import Any

import click
from rich.text import Text

from surehand.cli.call_ids import shorten_ids
from surehand.cli.exit_codes import EXIT_DONE, EXIT_FAILED, EXIT_NOT_FOUND, CommandExit, print_problem
from surehand.cli.formatting import create_console, format_age, is_terminal, json_line, to_one_line
from surehand.cli.history_options import HistoryGroup, refuse_misplaced_options, resolve_filters, with_filters
from surehand.cli.lifecycle import open_store_for_reading, run_coroutine
from surehand.cli.options import HashParam, RuntimeOptions, with_store
from surehand.cli.tables import print_rows
from surehand.core.sanitize import escape_unprintable
from surehand.store.tables.audit import AuditRow, AuditVerification

_HEAD_PARAM = HashParam("a head", "surehand audit verify")
MAX_ROWS_OF_CALL = 1_000
_KIND_COLOURS = {"denied": "red", "refused": "red", "conflict": "red", "wait": "yellow", "answer": "green"}


HEADER = ("When", "What", "Call id", "Tool", "User", "By", "Session")


@click.group(
    "audit", cls=HistoryGroup, invoke_without_command=True, subcommand_metavar="[CALL_ID | show CALL_ID | verify]"
)
@with_filters
@click.option("--json", "as_json", is_flag=True, help="JSON lines, as in a pipe.")
@with_store
@click.pass_context
def command(ctx: click.Context, /, options: RuntimeOptions, as_json: bool, **filters: Any) -> None:
    """List who decided and did what, newest first, show that of CALL_ID, or verify the records.

    Exit codes: 0 listed, 2 the store cannot be used, 5 no such call.
    """
    refuse_misplaced_options(ctx)
    if ctx.invoked_subcommand is None:
        rows = run_coroutine(_load_rows(options.require_store_address(), filters))
        _print_rows(rows, as_json=as_json)
        if not rows:
            sys.stderr.write("No audit rows match.\n")


@command.command("show")
@click.argument("call_id")
@click.option("--json", "as_json", is_flag=True, help="JSON lines, as in a pipe.")
@with_store
def show(options: RuntimeOptions, call_id: str, as_json: bool) -> None:
    """Show what the audit has of the call CALL_ID, oldest first, with codes and digests.

    Exit codes: 0 shown, 2 the store cannot be used, 5 no such call.
    """
    rows = run_coroutine(_load_rows(options.require_store_address(), {"call": call_id, "limit": MAX_ROWS_OF_CALL}))
    if not rows:
        raise CommandExit(EXIT_NOT_FOUND, f"The audit has no call {call_id[:80]}.")
    rows.reverse()
    if as_json or not is_terminal(sys.stdout):
        _print_rows(rows, as_json=True)
        return
    console = create_console()
    console.print(Text.assemble(("call id  ", "bold"), (to_one_line(rows[0].call_id), "cyan")), soft_wrap=True)
    console.print(Text.assemble(("tool     ", "bold"), to_one_line(rows[0].tool)), soft_wrap=True)
    for row in rows:
        console.print(_render_row(row), soft_wrap=True)
        for name, value in row.detail.items():
            if name != "code":
                console.print(Text(f"    {name}: {to_one_line(str(value))}", style="dim"), soft_wrap=True)


async def _load_rows(address: str, filters: dict[str, Any]) -> list[AuditRow]:
    async with open_store_for_reading(address) as store:
        return list(await store.audit.list(**await resolve_filters(store, filters)))


def _print_rows(rows: list[AuditRow], *, as_json: bool) -> None:
    if as_json or not is_terminal(sys.stdout):
        sys.stdout.writelines(json_line(asdict(row)) for row in rows)
    elif rows:
        short_ids = shorten_ids(row.call_id for row in rows)
        cells = [_table_row(row, short_ids[row.call_id]) for row in rows]
        print_rows(create_console(), HEADER, cells, flexible=("What", "Tool", "User", "By", "Session"))


def _table_row(row: AuditRow, short_id: str) -> tuple[Text, ...]:
    return (
        Text(format_age(row.at)),
        Text(_summary(row), style=_KIND_COLOURS.get(row.kind, "")),
        Text(to_one_line(short_id) or "-", style="cyan"),
        Text(to_one_line(row.tool) or "-", style="bold"),
        Text(to_one_line(row.user or "-")),
        Text(to_one_line(row.by or "-")),
        Text(to_one_line(row.session or "-")),
    )


def _summary(row: AuditRow) -> str:
    """What happened, with the one word of the detail that says most."""
    words = [row.detail.get(name) for name in ("answer", "code", "waiting_for")]
    details = [to_one_line(str(word)) for word in words if word and word != row.kind]
    return f"{row.kind} ({', '.join(details)})" if details else row.kind


def _render_row(row: AuditRow) -> Text:
    who = [f"for {to_one_line(row.user)}"] if row.user else []
    who += [f"in session {to_one_line(row.session)}"] if row.session else []
    who += [f"by {to_one_line(row.by)}"] if row.by else []
    return Text(f"{format_age(row.at)}: {_summary(row)}{' ' if who else ''}{', '.join(who)}")


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
    async with open_store_for_reading(address) as store:
        verification = await store.audit.verify()
        noted = None if head is None else await store.audit.find_seal(head, last=verification.seals)
        return verification, noted


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
