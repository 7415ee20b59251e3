"""A sample of public documents is imported whole; `scripts/openapi-corpus` imports all of them."""

from __future__ import annotations

import pytest

from tests.openapi_corpus.__main__ import COLLECTIONS, find_documents
from tests.openapi_corpus.check_document import check_document
from tests.requirements import OPENAPI_DOCUMENTS, needs

EVERY = 60
"""One of so many documents is imported."""
MAX_BYTES = 1_000_000
"""Larger documents take long to compile."""

pytestmark = [needs("openapi documents"), pytest.mark.long, pytest.mark.timeout(600)]


@pytest.mark.parametrize("collection", COLLECTIONS)
def test_every_operation_is_imported_or_named_and_can_be_described(collection):
    documents = find_documents(OPENAPI_DOCUMENTS / "node_modules" / COLLECTIONS[collection])
    sample = [path for path in documents if path.stat().st_size < MAX_BYTES][:: EVERY if len(documents) > 1_000 else 3]

    for path in sample:
        report = check_document(path)

        assert (report.error, report.failed) == ("", []), path
        assert report.unaccounted == 0, path
