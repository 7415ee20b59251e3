"""Checks every operation once, when a document is imported, without compiling it: names, places and references.

Only what a request needs is looked at, and each referenced part once, so that the check costs a fraction of parsing.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from surehand.http.target import MAX_URL_LENGTH
from surehand.providers.openapi.document import Document, Located, SourceFile, UnusableOperation
from surehand.providers.openapi.document_limits import MAX_DOCUMENT_VALUES, too_large
from surehand.providers.openapi.operations import Operation
from surehand.providers.openapi.parameters import iter_parameters

_DATA_KEYS = frozenset({"example", "examples", "default", "enum", "const", "description", "discriminator", "xml"})
"""Keys whose values hold no references of the document."""
_MAP_KEYS = ("properties", "patternProperties", "dependentSchemas", "content", "encoding", "headers")
"""Keys whose values map names to parts of the document: a property may be called `default`."""
Part: TypeAlias = tuple[Any, SourceFile]
"""A list or object of a document, and the file that it is in."""


def _has_plain_schema(parameter: dict[str, Any]) -> bool:
    """Whether a parameter has a schema without any parts, as most have: there is nothing to follow in it."""
    schema = parameter.get("schema")
    if type(schema) is not dict or "$ref" in schema or "content" in parameter:
        return False
    return not any(
        type(each) is dict or (type(each) is list and each and type(each[0]) is dict) for each in schema.values()
    )


class OperationChecker:
    """Finds operations of a document that cannot be imported."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self._checked: set[int] = set()
        """Identities of parts that are known to be fine."""
        self._problems: dict[int, str] = {}
        """What is wrong in parts that are not, by their identities."""
        self._parameter_count = 0

    def find_problem(self, operation: Operation) -> str | None:
        """Why an operation cannot be imported; None if it can."""
        if len(operation.path) > MAX_URL_LENGTH:
            return f"Its path has {len(operation.path):,} characters; at most {MAX_URL_LENGTH:,} are sent."
        try:
            for located in iter_parameters(self._document, operation):
                self._parameter_count += 1
                if not _has_plain_schema(located.value):
                    self._check(located)
            body = operation.definition.get("requestBody")
            if body is not None and not self._document.is_swagger:
                self._check_body(body, operation.source)
        except UnusableOperation as error:
            return str(error)
        finally:
            self._check_parameter_count()
        return None

    def _check_parameter_count(self) -> None:
        """Raise `DefinitionError` for parameters that very many operations share: each of them reads all of its own."""
        if self._parameter_count > MAX_DOCUMENT_VALUES:
            raise too_large("The document", f"more than {MAX_DOCUMENT_VALUES:,} parameters of operations")

    def _check_body(self, body: Any, source: SourceFile) -> None:
        located = self._document.resolve(body, source)
        if not isinstance(located.value, dict) or not isinstance(located.value.get("content"), dict):
            raise UnusableOperation("The request body has no `content`.")
        self._check(located)

    def _check(self, start: Located) -> None:
        """Follow every reference of a part; raises if one leads nowhere."""
        if id(start.value) in self._problems:
            raise UnusableOperation(self._problems[id(start.value)])
        visited: set[int] = set()
        waiting: list[Part] = [(start.value, start.source)]
        try:
            while waiting:
                value, source = waiting.pop()
                key = id(value)
                if key in self._checked or key in visited:
                    continue
                visited.add(key)
                self._add_parts(value, source, waiting)
        except UnusableOperation:
            self._find_problems(start)
            raise UnusableOperation(self._problems[id(start.value)]) from None
        self._checked |= visited

    def _add_parts(self, value: Any, source: SourceFile, parts: list[Part]) -> None:
        """Add what a part holds or refers to; raises for a reference that leads nowhere."""
        if id(value) in self._problems:
            raise UnusableOperation(self._problems[id(value)])
        if isinstance(value, list):
            parts += [(each, source) for each in value if isinstance(each, (dict, list))]
            return
        ref = value.get("$ref")
        if isinstance(ref, str):
            target = self._document.find(ref, source)
            if isinstance(target.value, (dict, list)):
                parts.append((target.value, target.source))
        for name, each in value.items():
            if isinstance(each, dict):
                if name in _MAP_KEYS:
                    parts += [(inner, source) for inner in each.values() if isinstance(inner, dict)]
                elif name not in _DATA_KEYS:
                    parts.append((each, source))
            elif isinstance(each, list) and name not in _DATA_KEYS and each and isinstance(each[0], dict):
                parts.append((each, source))

    def _find_problems(self, start: Located) -> None:
        """Note which of the parts that can be reached have a problem, and which are fine: they are not walked again.

        The order of the first walk does not tell that. So all of them are walked once more, recording for each part
        which parts refer to it.
        """
        referrers: dict[int, list[int]] = {id(start.value): []}
        waiting: list[Part] = [(start.value, start.source)]
        found: dict[int, str] = {}
        while waiting:
            value, source = waiting.pop()
            parts: list[Part] = []
            try:
                self._add_parts(value, source, parts)
            except UnusableOperation as error:
                found[id(value)] = str(error)
                continue
            for part in parts:
                key = id(part[0])
                if key in self._checked:
                    continue
                if key not in referrers:
                    referrers[key] = []
                    waiting.append(part)
                referrers[key].append(id(value))
        affected = list(found)
        while affected:
            key = affected.pop()
            for referrer in referrers[key]:
                if referrer not in found:
                    found[referrer] = found[key]
                    affected.append(referrer)
        self._problems |= found
        self._checked |= referrers.keys() - self._problems.keys()
