"""Fields of a body that is one argument, and that the developer's `given` fills: models neither see nor send them.

Only fields at the top level of an object are filled: those that its schema declares, also through `allOf`, `anyOf`,
`oneOf` and references. Fields of nested objects and of the items of a list are left to the model.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from itertools import islice
from typing import Any

from surehand.core.errors import InvalidArguments
from surehand.http.errors import mark_unsent
from surehand.providers.openapi.document import Document, Located, SourceFile, UnusableOperation
from surehand.providers.openapi.document_limits import MAX_ALL_OF_PARTS, MAX_ARGUMENTS
from surehand.providers.openapi.flat_body import is_read_only

MAX_NESTED_PARTS = 50
"""Schemas of one value within each other."""
_LISTS = ("allOf", "anyOf", "oneOf")
_SINGLE = ("not", "if", "then", "else")
_CONDITIONS = (*_SINGLE, "dependentSchemas", "dependentRequired", "dependencies", "enum", "const")
"""Keywords whose meaning would change if a field were taken out."""


def declared_fields(document: Document, schema: Located) -> set[str]:
    """The names of the fields that a body may have at its top level, but for read-only ones."""
    names: set[str] = set()
    read_only: set[str] = set()
    for part in _iter_parts(document, schema):
        properties = part.value.get("properties")
        for name, each in islice(properties.items(), MAX_ARGUMENTS + 1) if isinstance(properties, dict) else ():
            (read_only if is_read_only(document, Located(each, part.source)) else names).add(str(name))
        names |= {each for each in _items(part.value, "required", MAX_ARGUMENTS) if isinstance(each, str)}
    return names - read_only


def remove_fields(document: Document, schema: Located, names: Collection[str]) -> Located:
    """The schema of an object without these fields. Raises `UnusableOperation` if that would change what it means."""
    field = min(names)
    for part in _iter_parts(document, schema):
        condition = next((each for each in _CONDITIONS if each in part.value), None)
        if condition is not None:
            raise UnusableOperation(f"`given` has {field}, a field of a body with `{condition}`: it cannot be hidden.")
    top = document.resolve(schema.value, schema.source)
    return Located(_Removal(document, top.source, frozenset(names)).remove(schema.value, schema.source, ()), top.source)


def fill_fields(body: Any, filled: Mapping[str, Any], given: Collection[str]) -> Any:
    """The body with the values of `given`. Raises `InvalidArguments` if it has them already, or is no object.

    Args:
        filled: the values by the names of their fields.
        given: all names in `given`; the model can send none of them, also where the document does not declare it.
    """
    if not isinstance(body, dict):
        if filled:
            raise mark_unsent(InvalidArguments("The body must be an object."))
        return body
    reserved = {name.casefold() for name in (*filled, *given)}
    # Some servers compare names without case, and read `tenant[]` as a value of `tenant`.
    wrong = next((key for key in body if key.partition("[")[0].strip().casefold() in reserved), None)
    if wrong is not None:
        raise mark_unsent(InvalidArguments(f"The application fills {wrong!r:.100}. Leave it out of the body."))
    return {**body, **filled}


class _Removal:
    def __init__(self, document: Document, source: SourceFile, names: frozenset[str]) -> None:
        self._document = document
        self._source = source
        self._names = names
        self._count = 0

    def remove(self, schema: Any, source: SourceFile, parents: tuple[int, ...]) -> Any:
        """The schema without the fields, with references to schemas of the same value written out."""
        if not isinstance(schema, dict):
            return schema
        self._count += 1
        if id(schema) in parents or len(parents) > MAX_NESTED_PARTS or self._count > MAX_ALL_OF_PARTS:
            problem = f"`given` has {min(self._names)}, a field of a body that refers to itself"
            raise UnusableOperation(f"{problem}, or joins too many schemas.")
        parents = (*parents, id(schema))
        if isinstance(schema.get("$ref"), str):
            target = self._document.find(schema["$ref"], source)
            siblings = {key: schema[key] for key in schema if key != "$ref"}
            if target.source is not self._source or (siblings and source is not self._source):
                raise UnusableOperation(f"`given` has {min(self._names)}, a field of a body in several files.")
            parts = [self.remove(target.value, target.source, parents)]
            if siblings and self._document.version >= (3, 1):
                parts.append(self.remove(siblings, source, parents))
            return parts[0] if len(parts) == 1 else {"allOf": parts}
        removed = {key: value for key, value in schema.items() if key not in (*_LISTS, "minProperties")}
        if isinstance(schema.get("properties"), dict):
            removed["properties"] = {
                name: each for name, each in schema["properties"].items() if name not in self._names
            }
        if isinstance(schema.get("required"), list):
            removed["required"] = [each for each in schema["required"] if each not in self._names]
        lists = {
            key: [self.remove(each, source, parents) for each in _items(schema, key, MAX_ALL_OF_PARTS + 1)]
            for key in _LISTS
        }
        # Without the field, a value may match several schemas of a `oneOf`.
        choices = [{"anyOf": lists[key]} for key in ("anyOf", "oneOf") if lists[key]]
        if parts := [*lists["allOf"], *choices]:
            removed["allOf"] = parts
        return removed


def _iter_parts(document: Document, schema: Located) -> Iterator[Located]:
    """All schemas of the same value, each one once."""
    seen: set[int] = set()
    waiting = [schema]
    while waiting:
        part = waiting.pop()
        if not isinstance(part.value, dict) or id(part.value) in seen:
            continue
        seen.add(id(part.value))
        if len(seen) > MAX_ALL_OF_PARTS:
            raise UnusableOperation(f"The body joins more than {MAX_ALL_OF_PARTS:,} schemas.")
        yield part
        if isinstance(part.value.get("$ref"), str):
            waiting.append(document.find(part.value["$ref"], part.source))
        for key in _LISTS:
            waiting += [Located(each, part.source) for each in _items(part.value, key, MAX_ALL_OF_PARTS + 1)]
        waiting += [Located(part.value.get(key), part.source) for key in _SINGLE]
        dependent = part.value.get("dependentSchemas")
        if isinstance(dependent, dict):
            waiting += [Located(each, part.source) for each in islice(dependent.values(), MAX_ALL_OF_PARTS + 1)]


def _items(schema: dict[str, Any], key: str, most: int) -> list[Any]:
    """The first items of a list in a schema; none if a document has something else there."""
    items = schema.get(key)
    return items[:most] if isinstance(items, list) else []
