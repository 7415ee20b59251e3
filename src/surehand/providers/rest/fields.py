"""Parts of JSON values by path: `pick=` takes one out of a response, `redact=` masks some."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from surehand.core.errors import DefinitionError, ToolError
from surehand.core.redaction import REDACTION_MASK
from surehand.providers.rest.template import PathStep, format_path, parse_path, value_at

EACH_ITEM = "*"
"""The step of a path that stands for every item of a list."""
_MAX_NAMES_SHOWN = 20


@dataclass(frozen=True, slots=True)
class PickPath:
    """A path into a response, such as `data.items[0].name` or `items.*.id`."""

    path: tuple[PathStep, ...]

    @classmethod
    def parse(cls, text: Any) -> PickPath:
        """Parse a path; raises `DefinitionError`."""
        if not isinstance(text, str) or not text:
            raise DefinitionError(f"pick must be a path, got {text!r}.", fix="write a path such as data.items[0].name.")
        return cls(parse_path(text.replace("[]", ".*").removeprefix(".")))

    def find(self, data: Any) -> Any:
        """The value at the path; raises `ToolError` if there is none."""
        return _find(data, self.path, ())


def _find(data: Any, path: tuple[PathStep, ...], walked: tuple[PathStep, ...]) -> Any:
    if not path:
        return data
    step, rest = path[0], path[1:]
    if step == EACH_ITEM and isinstance(data, list):
        return [_find(item, rest, (*walked, index)) for index, item in enumerate(data)]
    has_value, value = value_at(data, (step,))
    if has_value:
        return _find(value, rest, (*walked, step))
    place = format_path(walked) or "the answer"
    raise ToolError(f"The answer has no {format_path((*walked, step))}: {place} is {_describe(data)}.")


def _describe(data: Any) -> str:
    if isinstance(data, Mapping):
        names = ", ".join(map(str, list(data)[:_MAX_NAMES_SHOWN])) or "nothing"
        return f"an object with {names[:300]}"
    if isinstance(data, list):
        return f"a list of {len(data)}"
    return "null" if data is None else f"a {type(data).__name__}"


@dataclass(frozen=True, slots=True)
class FieldMask:
    """Masks fields of JSON values: a name is masked at any depth, a dotted path only where it leads."""

    names: frozenset[str] = frozenset()
    """In lower case."""
    paths: tuple[tuple[PathStep, ...], ...] = ()

    @classmethod
    def parse(cls, fields: Any) -> FieldMask:
        """Parse names and paths; raises `DefinitionError`."""
        texts = [fields] if isinstance(fields, str) else list(fields) if isinstance(fields, Iterable) else None
        if texts is None or not all(isinstance(text, str) and text for text in texts):
            raise DefinitionError(
                f"redact must be a list of names, got {fields!r}.", fix="write ['ssn', 'user.email']."
            )
        paths = [parse_path(text.replace("[]", ".*")) for text in texts]
        names = frozenset(str(path[0]).lower() for path in paths if len(path) == 1)
        return cls(names, tuple(path for path in paths if len(path) > 1))

    def __call__(self, value: Any) -> Any:
        """The value with the fields masked; the same object if there is nothing to mask."""
        if self.names:
            value = self._mask_names(value)
        for path in self.paths:
            value = _mask_path(value, path)
        return value

    def __bool__(self) -> bool:
        return bool(self.names or self.paths)

    def _mask_names(self, value: Any) -> Any:
        # What has nothing to mask stays the same object: a copy of all of a large response would double its memory.
        if isinstance(value, Mapping):
            masked = {
                key: REDACTION_MASK if str(key).lower() in self.names else self._mask_names(item)
                for key, item in value.items()
            }
            return masked if any(masked[key] is not item for key, item in value.items()) else value
        if isinstance(value, list):
            items = [self._mask_names(item) for item in value]
            return items if any(new is not old for new, old in zip(items, value, strict=True)) else value
        return value


def _mask_path(value: Any, path: tuple[PathStep, ...]) -> Any:
    if not path:
        return REDACTION_MASK
    step, rest = path[0], path[1:]
    if isinstance(value, Mapping):
        if step == EACH_ITEM:
            return {key: _mask_path(item, rest) for key, item in value.items()}
        return {**value, key: _mask_path(value[key], rest)} if (key := str(step)) in value else value
    if isinstance(value, list):
        if isinstance(step, int):
            return [_mask_path(item, rest) if index == step else item for index, item in enumerate(value)]
        return [_mask_path(item, rest if step == EACH_ITEM else path) for item in value]
    return value
