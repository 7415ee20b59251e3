"""Benchmark of importing GitHub's OpenAPI document, compared with parsing its text as JSON."""

from __future__ import annotations

import json
from time import perf_counter
from typing import Any

from bench.measure import measure_ratio, time_function
from bench.openapi_document import DOCUMENT, LABEL
from bench.table import Row
from surehand import Runtime, openapi

GOAL = 2.0


async def measure_openapi_import(*, rounds: int = 7) -> list[Row]:
    """Measure the import from a dictionary until the runtime is open and the names of all tools are listed."""
    if not DOCUMENT.exists():
        return [Row(LABEL, None, GOAL, note="scripts/openapi-corpus --install has not installed it")]
    text = DOCUMENT.read_text(encoding="utf-8")
    document = json.loads(text)

    async def import_document() -> float:
        started_at = perf_counter()
        names = await list_names(document)
        seconds = perf_counter() - started_at
        assert len(names) > 1_000
        return seconds

    ratio = await measure_ratio(import_document, time_function(lambda: json.loads(text)), rounds=rounds)
    return [Row(LABEL, ratio, GOAL)]


async def list_names(document: dict[str, Any]) -> list[str]:
    """The names of all tools of a document."""
    async with Runtime(openapi(document, namespace="github")) as runtime:
        return [listing.name for listing in runtime.catalogue]
