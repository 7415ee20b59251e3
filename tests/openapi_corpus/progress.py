"""Prints how far a run over many documents is, while it runs: a line now and then, and every mistake at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from time import perf_counter

from tests.openapi_corpus.check_document import DocumentReport

SECONDS_BETWEEN_LINES = 10.0
SLOW_SECONDS = 20.0
"""A document that takes longer is named."""


def report_progress(name: str, count: int, reports: Iterable[DocumentReport]) -> Iterator[DocumentReport]:
    """Yield the reports as they come, and print."""
    started = printed = perf_counter()
    operations = 0
    for done, report in enumerate(reports, 1):
        operations += report.operations
        now = perf_counter()
        for line in _noteworthy(report):
            print(f"  {line}", flush=True)
        if now - printed >= SECONDS_BETWEEN_LINES or done == count:
            progress = f"{done:,} of {count:,} documents, {operations:,} operations"
            print(f"{name}: {progress}, {now - started:.0f} s", flush=True)
            printed = now
        yield report


def _noteworthy(report: DocumentReport) -> Iterator[str]:
    if report.error:
        yield f"FAILED {report.path}: {report.error}"
    if report.failed:
        label, problem = report.failed[0]
        yield f"NOT USABLE {report.path}: {len(report.failed)} operations, the first {label}: {problem}"
    if report.unaccounted and not report.error:
        yield f"UNACCOUNTED {report.path}: {report.unaccounted}"
    spent = report.parse_seconds + report.import_seconds + report.compile_seconds
    if spent > SLOW_SECONDS:
        yield f"slow: {report.path}, {report.operations:,} operations, {spent:.0f} s, {report.peak_megabytes:.0f} MB"
