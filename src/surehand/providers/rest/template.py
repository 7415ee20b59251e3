"""Templates of requests: a text with references to arguments and environment variables, parsed once.

A reference is `{city}` in a URL, and `${parameters.city}`, `{{input.city}}`, `${env.NAME}` or `${NAME}` (an environment
variable) everywhere. Values are looked up in the parsed template and never scanned for references themselves. Before
`${`, `{{` and, in a URL, `{` and `}`, a backslash takes away the meaning.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeAlias

from surehand.core.errors import DefinitionError, InvalidArguments
from surehand.http.errors import mark_unsent

PathStep: TypeAlias = str | int
Place: TypeAlias = Literal["url", "other"]
"""Where a template stands: only in a URL is `{city}` a reference."""

_REFERENCE = re.compile(
    r"\\(?P<escaped>\$\{|\{\{)|\$\{(?P<dollar>[^{}]*)\}|\{\{(?P<double>[^{}]*)\}\}|(?P<open>\$\{|\{\{)"
)
_URL_REFERENCE = re.compile(
    r"\\(?P<escaped>\$\{|\{\{|[{}])|\$\{(?P<dollar>[^{}]*)\}|\{\{(?P<double>[^{}]*)\}\}|(?P<open>\$\{|\{\{)"
    r"|(?P<single>\{[^{}]*\}?|\})"
)
_PATH = re.compile(r"(?:[^.\[\]{}\s'\"]+|\[[0-9]+\]|\['[^']*'\]|\[\"[^\"]*\"\])")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ARGUMENT_ROOTS = ("parameters", "input")


class RequestValues(Protocol):
    """What references stand for."""

    @property
    def arguments(self) -> Mapping[str, Any]:
        """The arguments of the call, plain JSON."""
        ...

    def variable(self, name: str) -> str:
        """The value of an environment variable; raises `ToolError` if it is not set."""
        ...


@dataclass(frozen=True, slots=True)
class ArgumentReference:
    """A reference to an argument, or to a part of it; an empty path stands for all arguments."""

    path: tuple[PathStep, ...]

    @property
    def label(self) -> str:
        """The path as a developer would write it: `user.tags[0]`."""
        return format_path(self.path)

    def resolve(self, values: RequestValues) -> Any:
        """The value; raises `InvalidArguments` if there is none."""
        value: Any = values.arguments
        for depth, step in enumerate(self.path):
            value = _step_into(value, step)
            if value is _MISSING:
                missing = format_path(self.path[: depth + 1])
                raise mark_unsent(InvalidArguments(f"The request needs {missing}, and the arguments have none."))
        return value


@dataclass(frozen=True, slots=True)
class VariableReference:
    """A reference to an environment variable."""

    name: str
    is_bare: bool = False
    """Whether it was written as `${NAME}`, without `env`."""

    def resolve(self, values: RequestValues) -> str:
        """The value of the variable."""
        return values.variable(self.name)


Reference: TypeAlias = ArgumentReference | VariableReference


@dataclass(frozen=True, slots=True)
class TextTemplate:
    """Literal texts and references, in order."""

    parts: tuple[str | Reference, ...]

    @property
    def references(self) -> tuple[Reference, ...]:
        """The references, in order."""
        return tuple(part for part in self.parts if not isinstance(part, str))

    @property
    def only_reference(self) -> Reference | None:
        """The reference that the template consists of; None if there is anything else."""
        part = self.parts[0] if len(self.parts) == 1 else ""
        return None if isinstance(part, str) else part

    def render(self, values: RequestValues, label: str) -> str:
        """The text with all values; `label` names the place in errors."""
        return "".join(
            part if isinstance(part, str) else scalar_text(part.resolve(values), label) for part in self.parts
        )


def parse_template(text: str, place: Place = "other") -> TextTemplate:
    """Parse a template; raises `DefinitionError` for a reference that cannot be read."""
    parts: list[str | Reference] = []
    for part in _parse_parts(text, place):
        if isinstance(part, str) and parts and isinstance(parts[-1], str):
            parts[-1] += part
        elif part != "":
            parts.append(part)
    return TextTemplate(tuple(parts))


def _parse_parts(text: str, place: Place) -> Iterator[str | Reference]:
    last = 0
    for match in (_URL_REFERENCE if place == "url" else _REFERENCE).finditer(text):
        yield text[last : match.start()]
        last = match.end()
        kind = match.lastgroup
        inner = match[kind] if kind else ""
        if kind == "escaped":
            yield inner
        elif kind == "open":
            close = "}" if inner == "${" else "}}"
            raise DefinitionError(
                f"{inner!r} at position {match.start()} of a template is not closed.",
                fix=f"close it with {close!r}, or write \\{inner} for the characters themselves.",
            )
        elif kind == "single":
            yield _parse_single(inner)
        elif kind == "dollar":
            yield _parse_dollar(inner.strip(), match[0])
        else:
            yield _parse_expression(inner.strip(), match[0])
    yield text[last:]


def _parse_single(inner: str) -> Reference:
    if not (inner.startswith("{") and inner.endswith("}")):
        raise DefinitionError("The URL has a brace without its other half.", fix="write {name}.")
    return ArgumentReference(_parse_path(inner[1:-1].strip(), inner))


def _parse_dollar(expression: str, written: str) -> Reference:
    if _VARIABLE.fullmatch(expression) and expression not in _ARGUMENT_ROOTS:
        return VariableReference(expression, is_bare=True)
    return _parse_expression(expression, written)


def _parse_expression(expression: str, written: str) -> Reference:
    root, dot, rest = expression.partition(".")
    if root == "env" and _VARIABLE.fullmatch(rest):
        return VariableReference(rest)
    if expression in _ARGUMENT_ROOTS:
        return ArgumentReference(())
    if root in _ARGUMENT_ROOTS and dot:
        return ArgumentReference(_parse_path(rest, written))
    raise DefinitionError(
        f"{written} is not a reference.", fix="write ${parameters.name}, {{input.name}} or ${env.NAME}."
    )


def _parse_path(text: str, written: str) -> tuple[PathStep, ...]:
    try:
        path = parse_path(text)
    except DefinitionError as error:
        raise DefinitionError(f"{written} is not a reference: {error.problem}", fix=error.fix) from None
    if isinstance(path[0], int):
        raise DefinitionError(f"{written} is not a reference: it has no name.", fix="write ${parameters.name}.")
    return path


def parse_path(text: str) -> tuple[PathStep, ...]:
    """Parse a dotted path such as `user.tags[0]`; raises `DefinitionError`."""
    steps: list[PathStep] = []
    position = 0
    while position < len(text):
        if text[position] == "." and steps:
            position += 1
        match = _PATH.match(text, position)
        if match is None or (steps and text[position - 1] != "." and match[0][0] != "["):
            break
        position = match.end()
        steps.append(_parse_step(match[0]))
    if not steps or position < len(text) or text.endswith("."):
        raise DefinitionError(f"{text!r} is not a path.", fix="write a path such as user.tags[0].name.")
    return tuple(steps)


def _parse_step(step: str) -> PathStep:
    if not step.startswith("["):
        return step
    return int(step[1:-1]) if step[1].isdecimal() else step[2:-2]


def format_path(path: tuple[PathStep, ...]) -> str:
    """A path as a developer would write it."""
    text = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)
    return text.removeprefix(".")


_MISSING = object()


def _step_into(value: Any, step: PathStep) -> Any:
    if isinstance(value, Mapping):
        return value.get(str(step), _MISSING)
    if isinstance(value, list):
        index = step if isinstance(step, int) else _as_index(step)
        return value[index] if index is not None and index < len(value) else _MISSING
    return _MISSING


def _as_index(step: str) -> int | None:
    return int(step) if step.isascii() and step.isdecimal() and len(step) < 10 else None


def value_at(value: Any, path: tuple[PathStep, ...]) -> tuple[bool, Any]:
    """Whether a JSON value has something at a path, and what."""
    for step in path:
        value = _step_into(value, step)
        if value is _MISSING:
            return False, None
    return True, value


def scalar_text(value: Any, label: str) -> str:
    """A JSON scalar as text; raises `InvalidArguments` for null, lists and objects."""
    match value:
        case str():
            return value
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case float():
            return str(int(value)) if value.is_integer() and abs(value) < 2**53 else repr(value)
    kind = "null" if value is None else "a list" if isinstance(value, list) else "an object"
    raise mark_unsent(InvalidArguments(f"{label} takes a text, a number or a boolean, and was given {kind}."))
