"""The parameters of an operation, read from a document of any version into one form.

Version 2.0 writes `collectionFormat` for what later versions call `style` and `explode`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, cast

from surehand.providers.openapi.document import Document, Located, UnusableOperation
from surehand.providers.openapi.document_limits import MAX_ARGUMENTS
from surehand.providers.openapi.examples import find_examples
from surehand.providers.openapi.operations import Operation

Place: TypeAlias = Literal["path", "query", "querystring", "header", "cookie"]
Style: TypeAlias = Literal[
    "simple", "label", "matrix", "form", "spaceDelimited", "pipeDelimited", "tabDelimited", "deepObject", "cookie"
]
PLACES: tuple[Place, ...] = ("path", "query", "querystring", "header", "cookie")
BODY_PLACES = ("body", "formData")
"""Where parameters of version 2.0 stand that make up the body."""
_DEFAULT_STYLES: dict[Place, Style] = {
    "path": "simple",
    "query": "form",
    "querystring": "form",
    "header": "simple",
    "cookie": "form",
}
_ALLOWED_STYLES: dict[Place, frozenset[str]] = {
    "path": frozenset({"simple", "label", "matrix"}),
    "query": frozenset({"form", "spaceDelimited", "pipeDelimited", "deepObject"}),
    "querystring": frozenset({"form"}),
    "header": frozenset({"simple"}),
    "cookie": frozenset({"form", "cookie"}),
}
_COLLECTION_STYLES: dict[str, Style] = {"ssv": "spaceDelimited", "tsv": "tabDelimited", "pipes": "pipeDelimited"}
_IGNORED_HEADERS = frozenset({"accept", "content-type", "authorization"})
"""Headers that other parts of a document describe: the specification says that such parameters are ignored."""
PATH_VARIABLE = re.compile(r"\{([^{}]+)\}")


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter: where it is sent, and how its value is written there."""

    name: str
    place: Place
    schema: Located
    style: Style = "simple"
    explode: bool = False
    allow_reserved: bool = False
    required: bool = False
    description: str = ""
    media_type: str = ""
    """The type that its value is written in, for a parameter with `content` in place of a schema."""
    examples: tuple[Any, ...] = ()


def iter_parameters(document: Document, operation: Operation) -> Iterator[Located]:
    """The resolved parameter objects of an operation and of its path; those of the operation win."""
    found: dict[tuple[str, str], Located] = {}
    for owner in (operation.path_item, operation.definition):
        written = owner.get("parameters")
        if written is None:
            continue
        if not isinstance(written, list):
            raise UnusableOperation("`parameters` is not a list.")
        if len(written) > MAX_ARGUMENTS:  # before the first is looked at: they may all have one name
            raise UnusableOperation(f"The operation has more than {MAX_ARGUMENTS:,} parameters.")
        for each in written:
            located = document.resolve(each, operation.source)
            found[_validate(located.value)] = located
            if len(found) > MAX_ARGUMENTS:
                raise UnusableOperation(f"The operation has more than {MAX_ARGUMENTS:,} parameters.")
    yield from found.values()


def _validate(value: Any) -> tuple[str, str]:
    if not isinstance(value, dict):
        raise UnusableOperation("A parameter is not an object.")
    name = value.get("name")
    if not isinstance(name, str) or not name:
        raise UnusableOperation("A parameter has no name.")
    place = value.get("in")
    if place not in PLACES and place not in BODY_PLACES:
        raise UnusableOperation(f"The parameter {name} is in {place!r:.40}, which is no place for one.")
    return str(place), name


def read_parameters(document: Document, operation: Operation) -> list[Parameter]:
    """The parameters that are sent in the address and the headers."""
    parameters = [
        _read_parameter(document, located)
        for located in iter_parameters(document, operation)
        if located.value["in"] in PLACES and not _is_ignored(located.value)
    ]
    variables = PATH_VARIABLE.findall(operation.path.partition("#")[0])
    known = {each.name for each in parameters if each.place == "path"}
    # A variable that the document forgot to describe has only one meaning.
    for name in dict.fromkeys(variables):
        if name not in known:
            schema = Located({"type": "string"}, operation.source)
            parameters.append(Parameter(name, "path", schema, required=True))
    return [each for each in parameters if each.place != "path" or each.name in variables]


def _is_ignored(value: dict[str, Any]) -> bool:
    return value["in"] == "header" and value["name"].lower() in _IGNORED_HEADERS


def _read_parameter(document: Document, located: Located) -> Parameter:
    value: dict[str, Any] = located.value
    place = cast(Place, value["in"])
    description = value.get("description")
    media_type, described = _described_value(document, located)
    schema = Located(described.value.get("schema", {}) if isinstance(described.value, dict) else {}, described.source)
    style, explode = _collection_format(value) if document.is_swagger else _style(value, place)
    return Parameter(
        name=value["name"],
        place=place,
        schema=Located(value, located.source) if document.is_swagger else schema,
        style=style,
        explode=explode,
        allow_reserved=value.get("allowReserved") is True,
        required=value.get("required") is True or place == "path",
        description=description if isinstance(description, str) else "",
        media_type=media_type,
        examples=find_examples(document, described),
    )


def _described_value(document: Document, located: Located) -> tuple[str, Located]:
    """The media type of a parameter with `content`, else empty; and what has the schema: its content, or itself."""
    content = located.value.get("content")
    if not isinstance(content, dict) or not content or "schema" in located.value:
        return "", located
    media_type, described = next(iter(content.items()))
    return str(media_type), document.resolve(described, located.source)


def _style(value: dict[str, Any], place: Place) -> tuple[Style, bool]:
    written = value.get("style")
    style = cast(Style, written) if written in _ALLOWED_STYLES[place] else _DEFAULT_STYLES[place]
    explode = value.get("explode")
    return style, explode if isinstance(explode, bool) else style in ("form", "cookie", "deepObject")


def _collection_format(value: dict[str, Any]) -> tuple[Style, bool]:
    written = value.get("collectionFormat")
    place = value["in"]
    if written in _COLLECTION_STYLES:
        return _COLLECTION_STYLES[written], False
    if written == "multi" and place == "query":
        return "form", True
    return _DEFAULT_STYLES[cast(Place, place)] if place in _DEFAULT_STYLES else "form", False
