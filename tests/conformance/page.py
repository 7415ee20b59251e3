"""The results as a table in a terminal, and as a page of the documentation."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from importlib.metadata import version

from tests.conformance.explained import EXPLAINED, NOT_RUN
from tests.conformance.runs import REVISIONS
from tests.conformance.suite import ROOT, Result

PAGE = ROOT / "docs/reference/mcp-conformance.md"
PACKAGE = "@modelcontextprotocol/conformance"
OTHERS = "other"


def table(results: Sequence[Result]) -> list[tuple[str, ...]]:
    """A row for each scenario, with what came of it under each revision, and a last one with the sums."""
    names = sorted({result.scenario for result in results}, key=lambda name: ("/" in name, name))
    columns = (*REVISIONS, OTHERS)
    rows = [(name, *(_cell(_at(results, name, column)) for column in columns)) for name in names]
    return [
        ("scenario", *columns),
        *rows,
        ("in all", *(_sums(result for result in results if _column(result) == column) for column in columns)),
    ]


def page(results: Sequence[Result]) -> str:
    """The whole page."""
    head, *rows = table(results)
    lines = [
        _line(head),
        "|---" * len(head) + "|",
        *(_line((f"`{row[0]}`" if row is not rows[-1] else row[0], *row[1:])) for row in rows),
    ]
    failing = [f"| `{name}` | {reason} |" for name, reason in EXPLAINED.items()]
    absent = [f"| `{name}` | {reason} |" for name, reason in NOT_RUN.items()]
    return _PAGE.format(
        suite=f"{PACKAGE} {suite_version()}",
        library=f"mcp {version('mcp')}",
        table="\n".join(lines),
        failing="\n".join(failing),
        absent="\n".join(absent),
    )


def suite_version() -> str:
    """Which suite it is, exactly."""
    pins = json.loads((ROOT / "requirements/node/package.json").read_text(encoding="utf-8"))
    return str(pins["dependencies"][PACKAGE])


def _column(result: Result) -> str:
    return result.version if result.version in REVISIONS else OTHERS


def _at(results: Iterable[Result], name: str, column: str) -> Result | None:
    return next((result for result in results if result.scenario == name and _column(result) == column), None)


def _cell(result: Result | None) -> str:
    if result is None:
        return ""
    return _counts(result.count("SUCCESS"), result.count("FAILURE"), result.count("WARNING"))


def _sums(results: Iterable[Result]) -> str:
    chosen = list(results)
    counts = (sum(result.count(status) for result in chosen) for status in ("SUCCESS", "FAILURE", "WARNING"))
    return f"{len(chosen)} scenarios: {_counts(*counts)}"


def _counts(passed: int, failed: int, warned: int) -> str:
    told = (f"{passed} passed", f"**{failed} failed**" if failed else "", f"**{warned} warned**" if warned else "")
    return ", ".join(part for part in told if part)


def _line(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cells) + " |"


_PAGE = """\
# MCP conformance

The official conformance suite of the Model Context Protocol plays a server for each of its scenarios and looks at
every message that a client sends. This page is what it says of `mcp.http(...)`, driven as an application drives it:
a `Runtime` is started, its tools are listed and called, and questions are answered with `settle`. `scripts/conformance`
runs it (`--write` writes this page), and so do the tests: a scenario that fails without a reason below fails them, too.

Suite: `{suite}`, with the library `{library}`. The numbers are checks.

{table}

`other` are extensions, at 2025-11-25, and what servers did before that.

## Not passed

| scenario | why |
|---|---|
{failing}

## Not run

| scenario | why |
|---|---|
{absent}

Real servers are part of the tests, too: the reference servers `everything` (over a pipe, over streamable HTTP and over
SSE), `filesystem` and `memory`, which speak 2025-11-25, and `time`, `git` and `fetch`, which speak 2026-07-28.
"""
