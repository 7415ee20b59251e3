"""Digests of operations, taken from the document without compiling them: the lock file compares them.

A digest covers what makes up the request and what a model reads about it: parameters, body, texts and security, with
everything that they refer to. Answers are not covered, because they are not judged. Each referenced part is hashed
once, so that tens of thousands of operations take seconds.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from hashlib import sha256
from typing import Any

from surehand.core.errors import DefinitionError
from surehand.providers.openapi.document import Document, Located, SourceFile, UnusableOperation
from surehand.providers.openapi.document_limits import check_expansion
from surehand.providers.openapi.operations import Operation

_REQUEST_KEYS = ("summary", "description", "parameters", "requestBody", "consumes", "security", "servers")
"""Keys of an operation that decide what a model reads and what is sent."""
_SHARED_KEYS = ("parameters", "servers")
"""Keys of a path that its operations share."""


class OperationDigests:
    """Computes the digests of one document's operations."""

    def __init__(self, document: Document) -> None:
        if document.main.path is None and not document.url:
            # What a program gives may come from a YAML parser, with aliases that nothing has counted.
            check_expansion(document.root, "The document")
        self._document = document
        self._parts: dict[int, tuple[str, tuple[Located, ...]]] = {}
        """The hash of each referenced value, and what it refers to itself, by its identity."""
        self._closures: dict[int, str] = {}
        """The hash of each referenced value together with all that can be reached from it."""
        self._whole_document = self._hash_whole_document()

    def digest(self, operation: Operation) -> str:
        """The digest of what an operation sends."""
        written = [
            {key: operation.path_item[key] for key in _SHARED_KEYS if key in operation.path_item},
            {key: operation.definition[key] for key in _REQUEST_KEYS if key in operation.definition},
        ]
        references = {
            located.ref: self._hash_closure(located) for located in self._find_references(written, operation.source)
        }
        return _hash([self._whole_document, operation.label, written, references])

    def _hash_whole_document(self) -> str:
        """What holds for every operation: which secrets are sent, and where a token is asked for."""
        root = self._document.root
        components = root.get("components")
        schemes = components.get("securitySchemes") if isinstance(components, dict) else root.get("securityDefinitions")
        return _hash([root.get("security"), schemes, root.get("consumes")])

    def _hash_closure(self, start: Located) -> str:
        key = id(start.value)
        if key not in self._closures:
            reached: dict[int, str] = {}
            waiting = [start]
            while waiting:
                located = waiting.pop()
                if id(located.value) not in reached:
                    part_hash, references = self._hash_part(located)
                    reached[id(located.value)] = f"{located.source.label}{located.ref} {part_hash}"
                    waiting += references
            self._closures[key] = _hash(sorted(reached.values()))
        return self._closures[key]

    def _hash_part(self, located: Located) -> tuple[str, tuple[Located, ...]]:
        key = id(located.value)
        if key not in self._parts:
            references = tuple(self._find_references(located.value, located.source))
            self._parts[key] = (_hash(located.value), references)
        return self._parts[key]

    def _find_references(self, value: Any, source: SourceFile) -> Iterator[Located]:
        """What a value refers to directly. A reference that leads nowhere is covered by its own text."""
        waiting = [value]
        while waiting:
            each = waiting.pop()
            if isinstance(each, list):
                waiting += each
            elif isinstance(each, dict):
                waiting += each.values()
                ref = each.get("$ref")
                if isinstance(ref, str):
                    try:
                        yield self._document.find(ref, source)
                    except UnusableOperation:
                        continue


def _hash(value: Any) -> str:
    """SHA-256 of a part of a document. The file pins this hash, so RFC 8785 and its cost are not needed for it."""
    try:
        text = json.dumps(value, sort_keys=True, default=str)
    except TypeError:  # a dictionary of a program may have keys that cannot be compared: 200 and "default"
        text = json.dumps(value, default=str)
    except RecursionError:
        raise DefinitionError("The document is nested too deeply to be pinned.", fix="leave out lock.") from None
    return sha256(text.encode()).hexdigest()
