"""Where the references of a JSON Schema lead, however they are written: as pointers, anchors or embedded identifiers.

A reference may be read in several ways, depending on the draft. All schemas that it may lead to are returned, so that
what is computed from them is never too low.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import unquote

REFERENCE_KEYWORDS = ("$ref", "$dynamicRef", "$recursiveRef")
_ANCHOR_KEYWORDS = ("$anchor", "$dynamicAnchor")
_ID_KEYWORDS = ("$id", "id")
_META_SCHEMA_PREFIXES = ("http://json-schema.org/", "https://json-schema.org/")
MAX_TARGETS = 100
META_SCHEMA: Mapping[str, Any] = {}
"""Stands for the schemas of schemas, which the validator knows without fetching them."""


class UnknownReference(ValueError):
    """It is not known where a reference leads."""


class SchemaReferences:
    """Resolves the references in one schema."""

    def __init__(self, root: Mapping[str, Any]) -> None:
        self._root = root
        self._anchored: dict[str, list[Any]] = {}
        self._resources: dict[str, list[Any]] = {}
        self._recursive: list[Any] = []
        self._enclosing_resources: dict[int, tuple[Any, ...]] = {}
        self._has_dynamic_anchors = False
        self._collect()

    def targets(self, schema: Mapping[str, Any]) -> list[Any]:
        """The schemas that the references of a schema may lead to; raises `UnknownReference`."""
        found: list[Any] = []
        for keyword in REFERENCE_KEYWORDS:
            reference = schema.get(keyword)
            if isinstance(reference, str):
                candidates = {id(each): each for each in self._candidates(schema, keyword, reference)}
                if not candidates or len(candidates) > MAX_TARGETS:
                    raise UnknownReference(f"it is not clear where {reference[:200]!r} leads")
                found += candidates.values()
        return found

    def _candidates(self, schema: Mapping[str, Any], keyword: str, reference: str) -> Iterator[Any]:
        base, _, fragment = reference.partition("#")
        if base:
            documents = self._resources.get(_last_segment(base), [])
        else:
            documents = [self._root, *self._enclosing_resources.get(id(schema), ())]
        if keyword == "$recursiveRef":
            documents = [*documents, *self._recursive]
        if not documents and base.startswith(_META_SCHEMA_PREFIXES) and not self._has_dynamic_anchors:
            yield META_SCHEMA
        elif not fragment:
            yield from documents
        elif fragment.startswith("/"):
            for document in documents:
                for pointer in {fragment, unquote(fragment)}:
                    target = _follow(document, pointer)
                    if isinstance(target, (Mapping, bool)):
                        yield target
        else:
            for name in {fragment, unquote(fragment)}:
                yield from self._anchored.get(name, ())

    def _collect(self) -> None:
        waiting: list[tuple[Any, tuple[Any, ...]]] = [(self._root, ())]
        while waiting:
            node, enclosing = waiting.pop()
            if isinstance(node, Mapping):
                enclosing = self._collect_names(node, enclosing)
                if enclosing and not node.keys().isdisjoint(REFERENCE_KEYWORDS):
                    self._enclosing_resources[id(node)] = enclosing
                waiting += [(each, enclosing) for each in node.values() if isinstance(each, (Mapping, list))]
            else:
                waiting += [(each, enclosing) for each in node if isinstance(each, (Mapping, list))]

    def _collect_names(self, node: Mapping[str, Any], enclosing: tuple[Any, ...]) -> tuple[Any, ...]:
        """Remember the names of a schema; returns the resources that enclose what is inside of it."""
        for keyword in _ANCHOR_KEYWORDS:
            if isinstance(node.get(keyword), str):
                self._anchored.setdefault(node[keyword], []).append(node)
        if node.get("$recursiveAnchor") is True:
            self._recursive.append(node)
        self._has_dynamic_anchors |= "$dynamicAnchor" in node or "$recursiveAnchor" in node
        for keyword in _ID_KEYWORDS:
            identifier = node.get(keyword)
            if not isinstance(identifier, str):
                continue
            base, _, fragment = identifier.partition("#")
            if fragment:  # an anchor, in the drafts that had no keyword for it
                self._anchored.setdefault(fragment, []).append(node)
            if base:
                self._resources.setdefault(_last_segment(base), []).append(node)
                enclosing = (*enclosing, node)
        return enclosing


def _last_segment(identifier: str) -> str:
    """What two spellings of one identifier have in common, relative or not."""
    return unquote(identifier).rpartition("/")[2].lower()


def _follow(document: Any, pointer: str) -> Any:
    """What a JSON Pointer leads to; None if it leads nowhere."""
    target = document
    for step in pointer.split("/")[1:]:
        name = step.replace("~1", "/").replace("~0", "~")  # the escapes of a JSON Pointer
        if isinstance(target, list) and name.isascii() and name.isdigit():
            target = target[int(name)] if len(name) < 10 and int(name) < len(target) else None
        else:
            target = target.get(name) if isinstance(target, Mapping) else None
    return target
