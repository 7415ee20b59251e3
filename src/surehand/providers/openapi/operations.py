"""The operations of a document, collected in one pass: method, path, id and tags. All else is read when needed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from surehand.core.errors import DefinitionError
from surehand.providers.openapi.document import Document, SourceFile, UnusableOperation
from surehand.providers.openapi.document_limits import MAX_OPERATIONS, MAX_TAGS

METHODS = ("get", "put", "post", "delete", "options", "head", "patch", "trace", "query")
_METHODS_BEFORE_3_2 = frozenset(METHODS) - {"query"}
_ITEM_KEYS = (*METHODS, "additionalOperations", "parameters", "servers")
"""Keys of a path item that mean something here. Very many paths may refer to one, so nothing else is copied."""
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
        return (
            tuple(tag for tag in islice(written, MAX_TAGS) if isinstance(tag, str)) if isinstance(written, list) else ()
        )


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
            if len(collected.operations) + len(collected.skipped) >= MAX_OPERATIONS:
                raise DefinitionError(
                    f"The document has more than {MAX_OPERATIONS:,} operations.", fix="split the document."
                )
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
    # Version 3.1 leaves open what both places say; here, what is written beside the reference counts.
    both = (written, located.value)
    merged = {
        key: next(each[key] for each in both if key in each) for key in _ITEM_KEYS if any(key in each for each in both)
    }
    return merged, located.source


def _definitions(item: dict[str, Any], methods: frozenset[str]) -> Iterator[tuple[str, Any]]:
    for key, definition in item.items():
        if key in methods:
            yield key.upper(), definition
    additional = item.get("additionalOperations") if "query" in methods else None
    if isinstance(additional, dict):
        for method, definition in additional.items():
            yield method, definition
