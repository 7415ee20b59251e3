"""Formats the results as tables for a terminal, and as the page `docs/reference/mcp-conformance.md`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.metadata import version
from typing import TypeAlias

from tests.conformance import expected_failures
from tests.conformance.expected_failures import ExpectedFailure
from tests.conformance.suite import ROOT, Result
from tests.conformance.suite_runs import HANDSHAKE_REVISION, MODERN_REVISION, REVISIONS

PAGE = ROOT / "docs/reference/mcp-conformance.md"
PACKAGE = "@modelcontextprotocol/conformance"
OTHER_COLUMN = "other"

Report: TypeAlias = Mapping[str, Sequence[Result]]
"""The results by the name of the tested part: `client`, or a target."""
Rows: TypeAlias = list[tuple[str, ...]]


def make_sections(report: Report) -> Iterator[tuple[str, Rows]]:
    """A title and a table for each tested part; all proxies share one."""
    for name, title in (("client", "Client"), ("own", "Server"), ("sdk", "The MCP SDK's server")):
        if report.get(name):
            yield (
                title,
                format_table({column: _results_of(report[name], column) for column in (*REVISIONS, OTHER_COLUMN)}),
            )
    if any(results for name, results in report.items() if name.startswith("proxy")):
        yield "Proxy", format_table(_proxy_columns(report))


def format_table(columns: Mapping[str, Sequence[Result]]) -> Rows:
    """A row for each scenario, with its result in each column, and a last row with the sums."""
    nonempty_columns = {title: results for title, results in columns.items() if results}
    names = {result.scenario for results in nonempty_columns.values() for result in results}
    rows = [
        (
            name,
            *(
                _format_cell(result for result in results if result.scenario == name)
                for results in nonempty_columns.values()
            ),
        )
        for name in sorted(names, key=lambda name: ("/" in name, name))
    ]
    return [("scenario", *nonempty_columns), *rows, ("in all", *map(_format_sums, nonempty_columns.values()))]


def render_page(report: Report) -> str:
    """The page in Markdown."""
    tables = {title: _markdown_table(rows) for title, rows in make_sections(report)}
    passed_by_revision = {revision: _count_passed(_results_of(report["sdk"], revision)) for revision in REVISIONS}
    return _PAGE.format(
        suite=f"{PACKAGE} {suite_version()}",
        library=f"mcp {version('mcp')}",
        client=tables["Client"],
        client_failing=_expected_failure_rows(expected_failures.CLIENT),
        client_absent=_not_run_rows(expected_failures.CLIENT_NOT_RUN),
        server=tables["Server"],
        server_failing=_expected_failure_rows(expected_failures.OWN),
        server_absent=_not_run_rows(expected_failures.SERVER_NOT_RUN),
        handshake=passed_by_revision[HANDSHAKE_REVISION],
        modern=passed_by_revision[MODERN_REVISION],
        proxy=tables["Proxy"],
        proxy_failing=_expected_failure_rows(expected_failures.PROXY),
        proxy_handshake=_additional_failures(HANDSHAKE_REVISION, expected_failures.PROXY_OF_HANDSHAKE),
        proxy_modern=_additional_failures(MODERN_REVISION, expected_failures.PROXY_OF_MODERN),
        proxy_absent=_not_run_rows(expected_failures.PROXY_NOT_RUN),
    )


def suite_version() -> str:
    """The pinned version of the suite."""
    pins = json.loads((ROOT / "requirements/node/package.json").read_text(encoding="utf-8"))
    return str(pins["dependencies"][PACKAGE])


def _results_of(results: Iterable[Result], column: str) -> list[Result]:
    """The results of one protocol version, or those of no version."""
    return [result for result in results if (result.version if result.version in REVISIONS else OTHER_COLUMN) == column]


def _proxy_columns(report: Report) -> dict[str, list[Result]]:
    return {
        f"{'tasks' if front == OTHER_COLUMN else front} in front of {back}": _results_of(
            report.get(f"proxy of {back}", ()), front
        )
        for back in REVISIONS
        for front in (*REVISIONS, OTHER_COLUMN)
    }


def _format_cell(results: Iterable[Result]) -> str:
    result = next(iter(results), None)
    if result is None:
        return ""
    counts = _format_counts(result.count("SUCCESS"), result.count("FAILURE"), result.count("WARNING"))
    return f"{counts} (second run)" if result.second_run else counts


def _format_sums(results: Sequence[Result]) -> str:
    counts = (sum(result.count(status) for result in results) for status in ("SUCCESS", "FAILURE", "WARNING"))
    return f"{len(results)} scenarios: {_format_counts(*counts)}"


def _count_passed(results: Iterable[Result]) -> int:
    return sum(result.count("SUCCESS") for result in results)


def _format_counts(passed: int, failed: int, warned: int) -> str:
    counts = [f"{passed} passed"]
    if failed:
        counts.append(f"**{failed} failed**")
    if warned:
        counts.append(f"**{warned} warned**")
    return ", ".join(counts)


def _markdown_table(rows: Rows) -> str:
    head, *body = rows
    named = [(f"`{row[0]}`" if row is not body[-1] else row[0], *row[1:]) for row in body]
    return "\n".join([_markdown_row(head), "|---" * len(head) + "|", *map(_markdown_row, named)])


def _expected_failure_rows(reasons: Mapping[str, ExpectedFailure]) -> str:
    return "\n".join(f"| `{name}` | {_describe_reason(reason)} |" for name, reason in reasons.items())


def _additional_failures(back: str, reasons: Mapping[str, ExpectedFailure]) -> str:
    if not reasons:
        return ""
    return (
        f"\nWith {back} behind, these as well:\n\n| not passed | why |\n|---|---|\n{_expected_failure_rows(reasons)}\n"
    )


def _describe_reason(reason: ExpectedFailure) -> str:
    only_checks = f" (Only {', '.join(f'`{check}`' for check in reason.checks)}.)" if reason.checks else ""
    return f"{reason.why}{only_checks}"


def _not_run_rows(reasons: Mapping[str, str]) -> str:
    return "\n".join(f"| `{name}` | {reason} |" for name, reason in reasons.items())


def _markdown_row(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cells) + " |"


_PAGE = """\
# MCP conformance

The official conformance suite of the Model Context Protocol plays the other side of each scenario and checks every
message. This page has its results for our client, for our server, and for both together as a proxy.
`scripts/conformance` runs it (`--write` writes this page), and so do the tests: they fail if a scenario fails without a
reason below, and if a scenario with a reason passes. A reason counts for the checks that it names, or else for the
check that has the scenario's name.

Suite: `{suite}`, with the MCP SDK `{library}`. The numbers are checks.

## Client

`mcp.http(...)`, used as an application uses it: a `Runtime` is started, its tools are listed and called, and questions
are answered with `settle`.

{client}

`other` are extensions, at 2025-11-25, and the behaviour of servers of earlier versions.

| not passed | why |
|---|---|
{client_failing}

| not run | why |
|---|---|
{client_absent}

The tests also use real servers: the reference servers `everything` (over stdio, over streamable HTTP and over SSE),
`filesystem` and `memory`, which speak 2025-11-25, and `time`, `git` and `fetch`, which speak 2026-07-28.

## Server

`gateway.mcp.app(runtime)`, served by `gateway.mcp.listen`, as `surehand mcp --http` does. The runtime's tools are those
that the suite calls: functions, and a provider whose calls wait for answers.

In `server-stateless` the suite gives a server half a second for some responses, which is too short on a busy machine.
If it fails it is run once more, alone, and the table says so. No other scenario is run twice.

{server}

`other` is the extension for tasks, at 2026-07-28.

| not passed | why |
|---|---|
{server_failing}

| not run | why |
|---|---|
{server_absent}

## Proxy

`gateway.mcp.app(Runtime(mcp.http(...)), short_names=True)`, served in the same way, in front of a server that uses
the MCP SDK alone. That server passes every scenario of the protocol versions, which the tests check as well:
{handshake} checks at 2025-11-25 and {modern} at 2026-07-28. Clients and the server behind may each speak the handshake
or the modern protocol. The tasks are those of our server, at 2026-07-28: tools behind that may run as tasks do so for
its clients.

{proxy}

| not passed | why |
|---|---|
{proxy_failing}
{proxy_handshake}{proxy_modern}
| not run | why |
|---|---|
{proxy_absent}
"""
