"""Generates docs/reference/api.md from the code itself, so that it can neither be forgotten nor be wrong."""

from __future__ import annotations

import inspect
import re
import typing
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import surehand
from surehand import observe, testing

PAGE = Path(__file__).parent / "reference" / "api.md"
HEAD = """# API

Every public name, from the code's own signatures and docstrings. `scripts/reference` writes this page, and the tests
compare it with the code.
"""


def page() -> str:
    """The whole page."""
    parts = [HEAD, "## `surehand`\n", *_names(surehand)]
    parts += ["## `surehand.observe`\n", *_names(observe), "## `surehand.testing`\n", *_names(testing)]
    return "\n".join(parts).rstrip() + "\n"


def _names(module: ModuleType) -> list[str]:
    return [_entry(name, getattr(module, name)) for name in sorted(module.__all__)]


def _entry(name: str, value: Any) -> str:
    if isinstance(value, ModuleType):
        return f"### `{name}`\n\n{_said(value)}\n\n" + "\n".join(_inside(name, value)) + "\n"
    if not isinstance(value, type):
        return f"### `{_signed(name, value)}`\n\n{_said(value)}\n" + _methods(name, type(value), value)
    return f"### `{_signed(name, value)}`\n\n{_said(value)}\n" + _methods(name, value, value)


def _inside(name: str, module: ModuleType) -> Iterator[str]:
    for inner in _public(module):
        value = getattr(module, inner)
        if isinstance(value, ModuleType):
            yield from _inside(f"{name}.{inner}", value)
        else:
            yield f"- `{name}.{inner}`: {_said(value)}"


def _own(module: ModuleType, name: str) -> bool:
    return name[0] != "_" and getattr(vars(module)[name], "__module__", None) == module.__name__


def _public(module: ModuleType) -> list[str]:
    listed = getattr(module, "__all__", None)
    if listed is not None:
        return sorted(listed)
    return sorted(name for name in vars(module) if _own(module, name))


def _methods(name: str, kind: type, value: Any) -> str:
    """The public methods and properties of our own classes, inherited ones too."""
    if not kind.__module__.startswith("surehand"):
        return ""
    found = {n: inspect.getattr_static(kind, n) for n in dir(kind) if not n.startswith("_")}
    rows = [
        f"- `{_signed(n, getattr(value, n, None), member)}`: {_said(member)}"
        for n, member in found.items()
        if _ours(member)
    ]
    return "\n" + "\n".join(rows) + "\n" if rows else ""


def _ours(member: Any) -> bool:
    function = _function(member)
    return bool(function) and function.__module__.startswith("surehand") and bool(inspect.getdoc(member))


def _function(member: Any) -> Any:
    if isinstance(member, (staticmethod, classmethod)):
        return member.__func__
    return member.fget if isinstance(member, property) else member if inspect.isfunction(member) else None


def _signed(name: str, value: Any, member: Any = None) -> str:
    if isinstance(member, property) or not callable(value) or typing.get_origin(value):
        return name
    try:
        signature = inspect.signature(value)
    except (ValueError, TypeError):
        return name
    taken = [p.replace(annotation=_bare(p.annotation)) for p in signature.parameters.values() if p.name != "self"]
    shown = str(signature.replace(parameters=taken, return_annotation=_bare(signature.return_annotation)))
    return name + re.sub(r"<(?:[^<>]|<[^<>]*>)*>", "...", shown)


class _Bare:
    """An annotation that shows without quotes, and without the modules that its parts come from."""

    def __init__(self, annotation: Any) -> None:
        self._annotation = annotation

    def __repr__(self) -> str:
        shown = self._annotation if isinstance(self._annotation, str) else inspect.formatannotation(self._annotation)
        return re.sub(r"typing\.|collections\.abc\.|surehand(\.\w+)+\.", "", shown)


def _bare(annotation: Any) -> Any:
    return annotation if annotation is inspect.Parameter.empty else _Bare(annotation)


def _said(value: Callable[..., Any] | Any) -> str:
    text = inspect.getdoc(_function(value) or value) or ""
    return " ".join(text.split("\n\n")[0].split())


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
