"""The operations of a document, collected in one pass: method, path, id and tags. All else is read when needed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from surehand.providers.openapi.document import Document, SourceFile, UnusableOperation

METHODS = ("get", "put", "post", "delete", "options", "head", "patch", "trace", "query")
_METHODS_BEFORE_3_2 = frozenset(METHODS) - {"query"}
READING_METHODS = frozenset({"GET", "HEAD", "OPTIONS", "QUERY"})


@dataclass(frozen=True, slots=True, eq=False)
class Operation:
    """One operation as the document writes it; `path_item` holds what it shares with the others of its path."""

    method: str
    """In upper case."""
    path: str
    definition: dict[str, Any]
    path_item: dict[str, Any]
    source: SourceFile

    @property
    def label(self) -> str:
        """`GET /pets/{id}`."""
        return f"{self.method} {self.path}"

    @property
    def operation_id(self) -> str:
        """Its id in the document; empty if it has none."""
        written = self.definition.get("operationId")
        return written.strip() if isinstance(written, str) else ""

    @property
    def tags(self) -> tuple[str, ...]:
        """The tags that group it."""
        written = self.definition.get("tags")
        return tuple(tag for tag in written if isinstance(tag, str)) if isinstance(written, list) else ()


@dataclass(slots=True)
class CollectedOperations:
    """The operations of a document, and why others are left out."""

    operations: list[Operation] = field(default_factory=list)
    skipped: list[tuple[str, str]] = field(default_factory=list)
    """`GET /pets` and the reason."""


def collect_operations(document: Document) -> CollectedOperations:
    """Read all paths once."""
    collected = CollectedOperations()
    paths = document.root.get("paths")
    if paths is None:  # a document of version 3.1 may hold webhooks or components alone
        return collected
    if not isinstance(paths, dict):
        collected.skipped.append(("paths", "`paths` is not an object."))
        return collected
    methods = frozenset(METHODS) if document.version >= (3, 2) else _METHODS_BEFORE_3_2
    for path, written_item in paths.items():
        if path.startswith("x-"):
            continue
        try:
            item, source = _resolve_path_item(document, written_item)
        except UnusableOperation as error:
            collected.skipped.append((path, str(error)))
            continue
        for method, definition in _definitions(item, methods):
            if isinstance(definition, dict):
                collected.operations.append(Operation(method, path, definition, item, source))
            elif definition is not None:
                collected.skipped.append((f"{method} {path}", "The operation is not an object."))
    return collected


def _resolve_path_item(document: Document, written: Any) -> tuple[dict[str, Any], SourceFile]:
    if not isinstance(written, dict):
        raise UnusableOperation("The path item is not an object.")
    if "$ref" not in written:
        return written, document.main
    located = document.resolve(written, document.main)
    if not isinstance(located.value, dict):
        raise UnusableOperation("The path item is not an object.")
    beside = {key: value for key, value in written.items() if key != "$ref"}
    # Version 3.1 leaves open what both places say; here, what is written beside the reference counts.
    return {**located.value, **beside}, located.source


def _definitions(item: dict[str, Any], methods: frozenset[str]) -> Iterator[tuple[str, Any]]:
    for key, definition in item.items():
        if key in methods:
            yield key.upper(), definition
    additional = item.get("additionalOperations") if "query" in methods else None
    if isinstance(additional, dict):
        for method, definition in additional.items():
            yield method, definition
