"""The results as tables in a terminal, and as a page of the documentation."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.metadata import version
from typing import TypeAlias

from tests.conformance import explained
from tests.conformance.explained import Reason
from tests.conformance.runs import NEWER, OLDER, REVISIONS
from tests.conformance.suite import ROOT, Result

PAGE = ROOT / "docs/reference/mcp-conformance.md"
PACKAGE = "@modelcontextprotocol/conformance"
OTHERS = "other"

Report: TypeAlias = Mapping[str, Sequence[Result]]
"""The results by the name of the tested part: `client`, or a target."""
Rows: TypeAlias = list[tuple[str, ...]]


def sections(report: Report) -> Iterator[tuple[str, Rows]]:
    """A title and a table for each tested part; all proxies share one."""
    for name, title in (("client", "Client"), ("own", "Server"), ("library", "The MCP SDK's server")):
        if report.get(name):
            yield title, table({column: _of(report[name], column) for column in (*REVISIONS, OTHERS)})
    if any(results for name, results in report.items() if name.startswith("proxy")):
        yield "Proxy", table(_proxies(report))


def table(columns: Mapping[str, Sequence[Result]]) -> Rows:
    """A row for each scenario, with its result in each column, and a last row with the sums."""
    shown = {title: results for title, results in columns.items() if results}
    names = {result.scenario for results in shown.values() for result in results}
    rows = [
        (name, *(_cell(result for result in results if result.scenario == name) for results in shown.values()))
        for name in sorted(names, key=lambda name: ("/" in name, name))
    ]
    return [("scenario", *shown), *rows, ("in all", *map(_sums, shown.values()))]


def page(report: Report) -> str:
    """The whole page."""
    tables = {title: _written(rows) for title, rows in sections(report)}
    library = {revision: _passed(_of(report["library"], revision)) for revision in REVISIONS}
    return _PAGE.format(
        suite=f"{PACKAGE} {suite_version()}",
        library=f"mcp {version('mcp')}",
        client=tables["Client"],
        client_failing=_reasons(explained.CLIENT),
        client_absent=_absent(explained.CLIENT_NOT_RUN),
        server=tables["Server"],
        server_failing=_reasons(explained.OWN),
        server_absent=_absent(explained.SERVER_NOT_RUN),
        older=library[OLDER],
        newer=library[NEWER],
        proxy=tables["Proxy"],
        proxy_failing=_reasons(explained.PROXY),
        proxy_older=_besides(OLDER, explained.PROXY_OF_OLDER),
        proxy_newer=_besides(NEWER, explained.PROXY_OF_NEWER),
        proxy_absent=_absent(explained.PROXY_NOT_RUN),
    )


def suite_version() -> str:
    """The pinned version of the suite."""
    pins = json.loads((ROOT / "requirements/node/package.json").read_text(encoding="utf-8"))
    return str(pins["dependencies"][PACKAGE])


def _of(results: Iterable[Result], column: str) -> list[Result]:
    """The results of one protocol version, or those of no version."""
    return [result for result in results if (result.version if result.version in REVISIONS else OTHERS) == column]


def _proxies(report: Report) -> dict[str, list[Result]]:
    return {
        f"{'tasks' if front == OTHERS else front} in front of {back}": _of(report.get(f"proxy of {back}", ()), front)
        for back in REVISIONS
        for front in (*REVISIONS, OTHERS)
    }


def _cell(results: Iterable[Result]) -> str:
    result = next(iter(results), None)
    if result is None:
        return ""
    counts = _counts(result.count("SUCCESS"), result.count("FAILURE"), result.count("WARNING"))
    return f"{counts} (second run)" if result.again else counts


def _sums(results: Sequence[Result]) -> str:
    counts = (sum(result.count(status) for result in results) for status in ("SUCCESS", "FAILURE", "WARNING"))
    return f"{len(results)} scenarios: {_counts(*counts)}"


def _passed(results: Iterable[Result]) -> int:
    return sum(result.count("SUCCESS") for result in results)


def _counts(passed: int, failed: int, warned: int) -> str:
    counts = [f"{passed} passed"]
    if failed:
        counts.append(f"**{failed} failed**")
    if warned:
        counts.append(f"**{warned} warned**")
    return ", ".join(counts)


def _written(rows: Rows) -> str:
    head, *body = rows
    named = [(f"`{row[0]}`" if row is not body[-1] else row[0], *row[1:]) for row in body]
    return "\n".join([_line(head), "|---" * len(head) + "|", *map(_line, named)])


def _reasons(reasons: Mapping[str, Reason]) -> str:
    return "\n".join(f"| `{name}` | {_describe_reason(reason)} |" for name, reason in reasons.items())


def _besides(back: str, reasons: Mapping[str, Reason]) -> str:
    if not reasons:
        return ""
    return f"\nWith {back} behind, these as well:\n\n| not passed | why |\n|---|---|\n{_reasons(reasons)}\n"


def _describe_reason(reason: Reason) -> str:
    only = f" (Only {', '.join(f'`{check}`' for check in reason.checks)}.)" if reason.checks else ""
    return f"{reason.why}{only}"


def _absent(reasons: Mapping[str, str]) -> str:
    return "\n".join(f"| `{name}` | {reason} |" for name, reason in reasons.items())


def _line(cells: Iterable[str]) -> str:
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
{older} checks at 2025-11-25 and {newer} at 2026-07-28. Clients and the server behind may each speak the handshake
or the modern protocol. The tasks are those of our server, at 2026-07-28: tools behind that may run as tasks do so for
its clients.

{proxy}

| not passed | why |
|---|---|
{proxy_failing}
{proxy_older}{proxy_newer}
| not run | why |
|---|---|
{proxy_absent}
"""
