"""Docstrings: the description for the model, and what they say of each parameter (Google, NumPy, Sphinx)."""

from __future__ import annotations

import re
from inspect import cleandoc
from typing import NamedTuple

_SECTION = re.compile(
    r"^(args|arguments|parameters|params|other parameters|returns?|yields?|raises|examples?|notes?|see also"
    r"|attributes|warnings?|references):?\s*$",
    re.IGNORECASE,
)
_PARAMETERS = {"args", "arguments", "parameters", "params", "other parameters"}
_GOOGLE = re.compile(r"^\*{0,2}(\w+)\s*(?:\([^)]*\))?\s*:\s*(.*)$")
_NUMPY = re.compile(r"^\*{0,2}(\w+(?:\s*,\s*\w+)*)\s*(?::.*)?$")
_SPHINX = re.compile(r"^:param\s+(?:[^:]*\s)?\*{0,2}(\w+)\s*:\s*(.*)$")


class Docstring(NamedTuple):
    """A docstring, taken apart."""

    description: str
    parameters: dict[str, str]


def read_docstring(text: str | None) -> Docstring:
    """Split a docstring into the description and its parameters' descriptions."""
    lines = cleandoc(text or "").splitlines()
    start = next((i for i in range(len(lines)) if _is_section(lines, i) or lines[i].startswith(":")), len(lines))
    return Docstring("\n".join(lines[:start]).strip(), _parameters(lines[start:]))


def _is_section(lines: list[str], index: int) -> bool:
    if not _SECTION.match(lines[index]):
        return False
    underlined = index + 1 < len(lines) and set(lines[index + 1].strip()) in ({"-"}, {"="})
    return underlined or lines[index].rstrip().endswith(":")


def _parameters(lines: list[str]) -> dict[str, str]:
    found: dict[str, list[str]] = {}
    section, numpy, names = "", False, [""]
    for index, line in enumerate(lines):
        stripped = line.strip()
        if _is_section(lines, index):
            section = stripped.rstrip(":").lower()
            numpy = not stripped.endswith(":")
            names = [""]
        elif match := _SPHINX.match(stripped):
            names = [match[1]]
            found[match[1]] = [match[2]]
        elif stripped.startswith(":"):
            names = [""]
        elif section in _PARAMETERS and (match := _entry(line, numpy=numpy)):
            names = re.split(r"\s*,\s*", match[1])
            found.update({name: [match[2] if match.lastindex == 2 else ""] for name in names})
        elif names[0] and stripped and set(stripped) != {"-"}:
            for name in names:
                found[name].append(stripped)
    return {name: " ".join(filter(None, parts)) for name, parts in found.items()}


def _entry(line: str, *, numpy: bool) -> re.Match[str] | None:
    indent = len(line) - len(line.lstrip())
    if numpy:
        return _NUMPY.match(line) if indent == 0 else None
    return _GOOGLE.match(line.strip()) if 0 < indent <= 4 else None
