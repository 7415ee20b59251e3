"""Shared by scripts that import GitHub's OpenAPI document with another library: measure, and print a line of JSON."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from importlib.metadata import version
from time import perf_counter
from typing import Any

from bench.measure import measure_ratio, time_function
from bench.openapi_document import DOCUMENT

ROUNDS = 3


def report_import(distribution: str, path: str, list_names: Callable[[dict[str, Any]], Awaitable[list[str]]]) -> None:
    """Measure the ratio of a library's import to parsing the text as JSON, in this process, and print it as JSON."""
    text = DOCUMENT.read_text(encoding="utf-8")

    async def import_document() -> float:
        document = json.loads(text)  # a library may change it
        started_at = perf_counter()
        names = await list_names(document)
        seconds = perf_counter() - started_at
        assert len(names) > 1_000, f"{len(names)} tools"
        return seconds

    ratio = asyncio.run(measure_ratio(import_document, time_function(lambda: json.loads(text)), rounds=ROUNDS))
    print(json.dumps({"path": path, "ratio": ratio, "version": version(distribution)}))
