"""Templates of JSON values: a text that is one reference becomes the value itself, never text that is parsed again."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from surehand.core.errors import DefinitionError
from surehand.providers.rest.template import Reference, RequestValues, TextTemplate, parse_template

JsonTemplate: TypeAlias = "ConstantValue | TemplateText | TemplateList | TemplateObject"

_MARK = "\ue000{}\ue001"
"""Stands for a reference while the JSON text around it is parsed; both characters are private to us."""
_MARKED = re.compile("\ue000([0-9]+)\ue001")


@dataclass(frozen=True, slots=True)
class ConstantValue:
    """A value without references."""

    value: Any

    def resolve(self, values: RequestValues) -> Any:
        """The value."""
        return self.value


@dataclass(frozen=True, slots=True)
class TemplateText:
    """A text with references, or the value of its only reference."""

    template: TextTemplate

    def resolve(self, values: RequestValues) -> Any:
        """The value of the only reference, or the text."""
        reference = self.template.only_reference
        return self.template.render(values, "A text") if reference is None else reference.resolve(values)


@dataclass(frozen=True, slots=True)
class TemplateList:
    """A list with templates."""

    items: tuple[JsonTemplate, ...]

    def resolve(self, values: RequestValues) -> list[Any]:
        """The list."""
        return [item.resolve(values) for item in self.items]


@dataclass(frozen=True, slots=True)
class TemplateObject:
    """An object with templates as values; its keys are constant."""

    fields: tuple[tuple[str, JsonTemplate], ...]

    def resolve(self, values: RequestValues) -> dict[str, Any]:
        """The object."""
        return {name: field.resolve(values) for name, field in self.fields}


def parse_json_template(value: Any) -> JsonTemplate:
    """Parse a value whose texts are templates; raises `DefinitionError`."""
    match value:
        case str():
            template = parse_template(value)
            return TemplateText(template) if template.references else ConstantValue("".join(map(str, template.parts)))
        case Mapping():
            return TemplateObject(tuple((_constant_key(key), parse_json_template(item)) for key, item in value.items()))
        case list() | tuple():
            return TemplateList(tuple(map(parse_json_template, value)))
        case None | bool() | int() | float():
            return ConstantValue(value)
    raise DefinitionError(
        f"A template cannot hold a {type(value).__name__}.", fix="use texts, numbers, booleans, lists and objects."
    )


def _constant_key(key: Any) -> str:
    if not isinstance(key, str) or parse_template(key).references:
        raise DefinitionError(f"{key!r} is not a constant key.", fix="put references into values only.")
    return key


def parse_json_text_template(text: str) -> JsonTemplate:
    """Parse JSON text with references, also outside of its strings, as in `{"id": {{input.id}}}`."""
    template = parse_template(text)
    if template.only_reference is not None:
        return TemplateText(template)
    marked = "".join(_with_marks(template))
    try:
        value = json.loads(marked)
    except ValueError as error:
        raise DefinitionError(
            f"The body is not JSON: {str(error).replace(chr(0xE000), '')}.",
            fix="write it as a mapping, or use body_type='text'.",
        ) from None
    return _restore(value, template.references)


def _with_marks(template: TextTemplate) -> Iterator[str]:
    """The text with a mark for each reference, in quotes where it stands outside of a string."""
    is_in_string = False
    number = 0
    for part in template.parts:
        if isinstance(part, str):
            if set(part) & {"\ue000", "\ue001"}:
                raise DefinitionError("The body holds U+E000 or U+E001.", fix="write it as a mapping.")
            yield part
            is_in_string = _ends_in_string(part, is_in_string)
        else:
            mark = _MARK.format(number)
            yield mark if is_in_string else f'"{mark}"'
            number += 1


def _ends_in_string(text: str, is_in_string: bool) -> bool:
    is_escaped = False
    for character in text:
        if is_escaped:
            is_escaped = False
        elif character == "\\" and is_in_string:
            is_escaped = True
        elif character == '"':
            is_in_string = not is_in_string
    return is_in_string


def _restore(value: Any, references: tuple[Reference, ...]) -> JsonTemplate:
    """The template of a parsed value, with the references in place of their marks."""
    match value:
        case str():
            pieces = _MARKED.split(value)
            parts = [piece if index % 2 == 0 else references[int(piece)] for index, piece in enumerate(pieces)]
            template = TextTemplate(tuple(part for part in parts if part != ""))
            return TemplateText(template) if template.references else ConstantValue(value)
        case dict():
            if any(_MARKED.search(key) for key in value):
                raise DefinitionError("A key of the body is a reference.", fix="put references into values only.")
            return TemplateObject(tuple((key, _restore(item, references)) for key, item in value.items()))
        case list():
            return TemplateList(tuple(_restore(item, references) for item in value))
    return ConstantValue(value)


def references_in(template: JsonTemplate) -> Iterator[Reference]:
    """All references of a template."""
    match template:
        case TemplateText(text):
            yield from text.references
        case TemplateList(items):
            for item in items:
                yield from references_in(item)
        case TemplateObject(fields):
            for _, field in fields:
                yield from references_in(field)
