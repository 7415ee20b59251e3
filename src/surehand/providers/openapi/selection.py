"""`include` and `exclude`: which operations of a document are offered."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TypeAlias

from surehand.core.errors import DefinitionError
from surehand.providers.openapi.operations import METHODS, Operation

TAG_PREFIX = "tag:"
Patterns: TypeAlias = str | Iterable[str]
_METHOD_WORD = re.compile(r"[A-Z]+\Z")


@dataclass(frozen=True, slots=True)
class Selection:
    """Operations that match any pattern of `include`, or all if there is none, and no pattern of `exclude`."""

    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    methods: frozenset[str] = frozenset()
    """In upper case; if there are any, only operations with these."""

    @classmethod
    def parse(
        cls, include: Patterns | None = None, exclude: Patterns | None = None, methods: Patterns | None = None
    ) -> Selection:
        """Read the options: `include` and `exclude` have methods, path globs, `tag:x` and operation ids."""
        return cls(_as_patterns("include", include), _as_patterns("exclude", exclude), _as_methods(methods))

    def accepts(self, operation: Operation) -> bool:
        """Whether an operation is offered."""
        if self.methods and operation.method.upper() not in self.methods:
            return False
        if self.include and not any(matches(operation, pattern) for pattern in self.include):
            return False
        return not any(matches(operation, pattern) for pattern in self.exclude)

    def unmatched(self, operations: Iterable[Operation]) -> list[str]:
        """The patterns that match no operation: probably misspelt."""
        remaining = list(dict.fromkeys((*self.include, *self.exclude)))
        for operation in operations:
            if not remaining:
                return []
            remaining = [pattern for pattern in remaining if not matches(operation, pattern)]
        return remaining


def matches(operation: Operation, pattern: str) -> bool:
    """Whether a pattern is for an operation."""
    if pattern.startswith(TAG_PREFIX):
        wanted = pattern.removeprefix(TAG_PREFIX)
        return any(fnmatchcase(tag, wanted) for tag in operation.tags)
    if pattern.startswith("/"):
        return fnmatchcase(operation.path, pattern)
    is_method = pattern.lower() in METHODS or _METHOD_WORD.match(pattern)
    if is_method and operation.method == pattern.upper():
        return True
    # An operation may be called like a method, as `get` is.
    return fnmatchcase(operation.operation_id, pattern)


def _as_patterns(name: str, value: Patterns | None) -> tuple[str, ...]:
    patterns = (value,) if isinstance(value, str) else tuple(value or ())
    for pattern in patterns:
        if not str(pattern).strip() or type(pattern) is not str:
            fix = 'give methods ("GET"), path globs ("/pets/*"), tags ("tag:pets") or operation ids.'
            raise DefinitionError(f"{name} has the entry {pattern!r}, which is no pattern.", fix=fix)
    return patterns


def _as_methods(value: Patterns | None) -> frozenset[str]:
    methods = (value,) if isinstance(value, str) else tuple(value or ())
    for method in methods:
        if type(method) is not str or not _METHOD_WORD.match(method.upper()):
            raise DefinitionError(f"methods has the entry {method!r}, which is no method.", fix='give "GET" or "POST".')
    return frozenset(method.upper() for method in methods)
