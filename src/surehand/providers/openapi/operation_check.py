"""Checks every operation once, when a document is imported, without compiling it: names, places and references.

Only what a request needs is looked at, and each referenced part once, so that the check costs a fraction of parsing.
"""

from __future__ import annotations

from typing import Any

from surehand.http.target import MAX_URL_LENGTH
from surehand.providers.openapi.document import Document, Located, SourceFile, UnusableOperation
from surehand.providers.openapi.operations import Operation
from surehand.providers.openapi.parameters import iter_parameters

_DATA_KEYS = frozenset({"example", "examples", "default", "enum", "const", "description", "discriminator", "xml"})
"""Keys whose values hold no references of the document."""
_MAP_KEYS = ("properties", "patternProperties", "dependentSchemas", "content", "encoding", "headers")
"""Keys whose values map names to parts of the document: a property may be called `default`."""


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

    def find_problem(self, operation: Operation) -> str | None:
        """Why an operation cannot be imported; None if it can."""
        if len(operation.path) > MAX_URL_LENGTH:
            return f"Its path has {len(operation.path):,} characters; at most {MAX_URL_LENGTH:,} are sent."
        try:
            for located in iter_parameters(self._document, operation):
                if not _has_plain_schema(located.value):
                    self._check(located)
            body = operation.definition.get("requestBody")
            if body is not None and not self._document.is_swagger:
                self._check_body(body, operation.source)
        except UnusableOperation as error:
            return str(error)
        return None

    def _check_body(self, body: Any, source: SourceFile) -> None:
        located = self._document.resolve(body, source)
        if not isinstance(located.value, dict) or not isinstance(located.value.get("content"), dict):
            raise UnusableOperation("The request body has no `content`.")
        self._check(located)

    def _check(self, located: Located) -> None:
        """Follow every reference of a part; raises for the first one that leads nowhere."""
        checked = self._checked
        visited: set[int] = set()
        waiting: list[tuple[Any, SourceFile]] = [(located.value, located.source)]
        while waiting:
            value, source = waiting.pop()
            key = id(value)
            if key in checked or key in visited:
                continue
            if key in self._problems:
                raise UnusableOperation(self._problems[key])
            visited.add(key)
            if isinstance(value, list):
                waiting += [(each, source) for each in value if isinstance(each, (dict, list))]
                continue
            ref = value.get("$ref")
            if isinstance(ref, str):
                try:
                    target = self._document.find(ref, source)
                except UnusableOperation as error:
                    self._problems[key] = str(error)
                    raise
                if isinstance(target.value, (dict, list)):
                    waiting.append((target.value, target.source))
            for name, each in value.items():
                if isinstance(each, dict):
                    if name in _MAP_KEYS:
                        waiting += [(inner, source) for inner in each.values() if isinstance(inner, dict)]
                    elif name not in _DATA_KEYS:
                        waiting.append((each, source))
                elif isinstance(each, list) and name not in _DATA_KEYS and each and isinstance(each[0], dict):
                    waiting.append((each, source))
        checked |= visited
