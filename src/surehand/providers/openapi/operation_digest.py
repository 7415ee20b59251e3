"""Digests of operations, taken from the document without compiling them: the lock file compares them.

A digest covers what makes up the request and what a model reads about it: parameters, body, texts and security, with
everything that they refer to. Answers are not covered, because they are not judged, nor is the header `Accept`, which
follows from them. Each referenced part is hashed
once, so that tens of thousands of operations take seconds.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from surehand.core.errors import DefinitionError
from surehand.providers.openapi.document import Document, Located, SourceFile, UnusableOperation
from surehand.providers.openapi.document_limits import MAX_DOCUMENT_BYTES, check_expansion, too_large
from surehand.providers.openapi.operations import Operation

_REQUEST_KEYS = ("summary", "description", "parameters", "requestBody", "consumes", "security", "servers")
"""Keys of an operation that decide what a model reads and what is sent, except for `Accept`."""
_SHARED_KEYS = ("parameters", "servers")
"""Keys of a path that its operations share."""
MAX_HASHED_CHARS = 4 * MAX_DOCUMENT_BYTES
"""Characters that are hashed of one document. That of Microsoft Graph needs less than its size."""


@dataclass(frozen=True, slots=True, eq=False)
class _Part:
    """One referenced value: its hash, and what it refers to itself."""

    digest: str
    references: tuple[Located, ...]


@dataclass(slots=True)
class _Visit:
    """A part whose references are being followed."""

    located: Located
    remaining: Iterator[Located]


class OperationDigests:
    """Computes the digests of one document's operations."""

    def __init__(self, document: Document) -> None:
        if document.main.path is None and not document.url:
            # What a program gives may come from a YAML parser, with aliases that nothing has counted.
            check_expansion(document.root, "The document")
        self._document = document
        self._hashed_chars = 0
        self._parts: dict[int, _Part] = {}
        """By the identity of each referenced value."""
        self._closures: dict[int, str] = {}
        """The hash of each referenced value together with all that can be reached from it."""
        self._written: dict[tuple[int, ...], str] = {}
        """Hashes of what several operations share, by the identities of its parts."""
        self._whole_document = self._hash_whole_document()

    def digest(self, operation: Operation) -> str:
        """The digest of what an operation sends."""
        shared = self._hash_written(operation.path_item, _SHARED_KEYS, operation.source)
        own = self._hash_written(operation.definition, _REQUEST_KEYS, operation.source)
        return self._hash([self._whole_document, operation.label, shared, own])

    def _hash_written(self, owner: dict[str, Any], keys: tuple[str, ...], source: SourceFile) -> str:
        """The hash of some keys of an operation or path, with all that they refer to."""
        identity = (id(source), *(id(owner[key]) if key in owner else 0 for key in keys))
        if identity not in self._written:
            written = {key: owner[key] for key in keys if key in owner}
            references = {each.ref: self._hash_closure(each) for each in self._find_references(written, source)}
            self._written[identity] = self._hash([written, references])
        return self._written[identity]

    def _hash_whole_document(self) -> str:
        """What holds for every operation: which secrets are sent, and where a token is asked for."""
        root = self._document.root
        components = root.get("components")
        schemes = components.get("securitySchemes") if isinstance(components, dict) else root.get("securityDefinitions")
        return self._hash([root.get("security"), schemes, root.get("consumes")])

    def _hash_closure(self, start: Located) -> str:
        """The hash of a part with all that can be reached from it. Each part is hashed once, however many refer to it.

        Parts that refer to each other in a circle have one hash together. They are found as Tarjan's algorithm does.
        """
        if id(start.value) in self._closures:
            return self._closures[id(start.value)]
        numbers: dict[int, int] = {}
        lowest: dict[int, int] = {}
        open_parts: list[Located] = []
        visits: list[_Visit] = []

        def enter(located: Located) -> None:
            numbers[id(located.value)] = lowest[id(located.value)] = len(numbers)
            open_parts.append(located)
            visits.append(_Visit(located, iter(self._part(located).references)))

        enter(start)
        while visits:
            visit = visits[-1]
            key = id(visit.located.value)
            target = next(visit.remaining, None)
            if target is None:
                visits.pop()
                if visits:
                    owner = id(visits[-1].located.value)
                    lowest[owner] = min(lowest[owner], lowest[key])
                if lowest[key] == numbers[key]:
                    self._close(_take_from(open_parts, key))
            elif id(target.value) not in numbers and id(target.value) not in self._closures:
                enter(target)
            elif id(target.value) not in self._closures:
                lowest[key] = min(lowest[key], numbers[id(target.value)])
        return self._closures[id(start.value)]

    def _close(self, circle: list[Located]) -> None:
        """Hash parts that can all be reached from each other, when all others that they refer to have been hashed."""
        described = []
        for located in circle:
            part = self._part(located)
            edges = {
                f"{each.ref} {self._closures.get(id(each.value)) or self._part(each).digest}"
                for each in part.references
            }
            described.append(f"{part.digest} {self._hash(sorted(edges))}")
        closure = self._hash(sorted(described))
        for located in circle:
            self._closures[id(located.value)] = closure

    def _part(self, located: Located) -> _Part:
        key = id(located.value)
        if key not in self._parts:
            references = tuple(self._find_references(located.value, located.source))
            self._parts[key] = _Part(self._hash(located.value), references)
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

    def _hash(self, value: Any) -> str:
        text = _canonical_text(value)
        self._hashed_chars += len(text)
        if self._hashed_chars > MAX_HASHED_CHARS:
            # Each of these values holds the next one: together they are much larger than the document.
            raise too_large("The document", f"references to more than {MAX_HASHED_CHARS:,} characters")
        return sha256(text.encode()).hexdigest()


def _take_from(open_parts: list[Located], key: int) -> list[Located]:
    """Take the last parts off, down to the one with this identity."""
    taken: list[Located] = []
    while not taken or id(taken[-1].value) != key:
        taken.append(open_parts.pop())
    return taken


def _canonical_text(value: Any) -> str:
    """A part of a document as text. The file pins its hash, so RFC 8785 and its cost are not needed for it."""
    try:
        return json.dumps(value, sort_keys=True, default=str)
    except TypeError:  # a dictionary of a program may have keys that cannot be compared: 200 and "default"
        return json.dumps(value, default=str)
    except RecursionError:
        raise DefinitionError("The document is nested too deeply to be pinned.", fix="leave out lock.") from None
