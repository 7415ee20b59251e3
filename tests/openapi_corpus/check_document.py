"""Imports one document and compiles every operation of it; what it counts is independent of the importer."""

from __future__ import annotations

import asyncio
import json
import logging
import resource
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import Any
from urllib.parse import unquote

import jsonschema_rs as js

from surehand.catalogue.describe import describe_listings
from surehand.catalogue.listing import Listing
from surehand.providers.openapi.document import UnusableOperation
from surehand.providers.openapi.factory import openapi
from surehand.providers.openapi.load import parse_document
from surehand.providers.openapi.provider import OpenApiProvider

METHODS = {"get", "put", "post", "delete", "options", "head", "patch", "trace"}
PLACEHOLDER_SERVER = "https://placeholder.example"
"""For documents that name no server, which a developer would have to give."""


@dataclass
class DocumentReport:
    """What became of one document."""

    path: str
    operations: int = 0
    imported: int = 0
    skipped: list[tuple[str, str]] = field(default_factory=list)
    failed: list[tuple[str, str]] = field(default_factory=list)
    """Operations that were imported and cannot be compiled or described: mistakes of the importer."""
    parse_seconds: float = 0.0
    import_seconds: float = 0.0
    compile_seconds: float = 0.0
    peak_megabytes: float = 0.0
    error: str = ""

    @property
    def unaccounted(self) -> int:
        """Operations that were neither imported nor named."""
        return self.operations - self.imported - len(self.skipped)


def check_document(path: Path, *, describes: bool = True) -> DocumentReport:
    """Import a document from its file."""
    logging.getLogger("surehand").setLevel(logging.ERROR)
    report = DocumentReport(str(path))
    try:
        started = perf_counter()
        root = parse_document(path.read_bytes(), path.name)
        report.parse_seconds = perf_counter() - started
        report.operations = count_operations(root)
        asyncio.run(_import(root, report, describes))
    except Exception as error:  # noqa: BLE001 - one document must not end the run
        report.error = f"{type(error).__name__}: {error}"[:300]
    report.peak_megabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return report


def count_operations(root: Any) -> int:
    """The operations of a document, counted without the importer."""
    paths = root.get("paths") if isinstance(root, dict) else None
    items = paths.items() if isinstance(paths, dict) else ()
    is_newest = str(root.get("openapi")).startswith("3.2")
    methods = METHODS | {"query"} if is_newest else METHODS
    count = 0
    for path, written in items:
        if path.startswith("x-") or not isinstance(written, dict):
            continue
        item = {**_find_path_item(root, written.get("$ref")), **written}
        count += sum(key in methods for key in item if item[key] is not None)
        count += len(item.get("additionalOperations") or ()) if is_newest else 0
    return count


def _find_path_item(root: Any, ref: Any) -> dict[str, Any]:
    """The path item that another one refers to, within the document."""
    if not isinstance(ref, str) or not ref.startswith("#/"):
        return {}
    value = root
    for step in unquote(ref).split("/")[1:]:
        name = step.replace("~1", "/").replace("~0", "~")
        value = value.get(name) if isinstance(value, dict) else None
    return value if isinstance(value, dict) else {}


async def _import(root: Any, report: DocumentReport, describes: bool) -> None:
    started = perf_counter()
    provider = openapi(root, namespace="corpus", server=PLACEHOLDER_SERVER)
    await provider.start()
    try:
        report.import_seconds = perf_counter() - started
        started = perf_counter()
        report.imported = await _compile(provider, report, describes)
        report.compile_seconds = perf_counter() - started
        report.skipped = list(provider.skipped)
    finally:
        await provider.stop()


async def _compile(provider: OpenApiProvider, report: DocumentReport, describes: bool) -> int:
    imported = 0
    names: set[str] = set()
    for tool in await provider.tools():
        if tool.kind != "rest":  # one of the search tools
            continue
        try:
            schema = tool.schema
        except UnusableOperation:
            continue  # named in `skipped`
        imported += 1
        try:
            # Not through the importer, which may have come to terms with a schema.
            js.validator_for(schema, pattern_options=js.RegexOptions())
            js.meta.validate(schema)
            full_name = f"corpus__{tool.name}"
            assert len(full_name) <= 64, f"the name {full_name} is too long"
            assert full_name not in names, f"the name {full_name} is taken"
            names.add(full_name)
            json.dumps(schema)
            if describes:
                listing = Listing(full_name, tool, provider, "corpus", full_name)
                for format in ("openai", "anthropic", "gemini", "mcp"):
                    left_out = describe_listings([listing], format).left_out
                    assert not left_out, f"{format}: {left_out}"
        except Exception as error:  # noqa: BLE001 - every one is reported
            report.failed.append((tool.where, f"{type(error).__name__}: {error}"[:300]))
    return imported
