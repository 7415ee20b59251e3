"""Docstrings: the description for the model, and what they say of each parameter (Google, NumPy, Sphinx)."""

from __future__ import annotations

import re
from inspect import cleandoc
from typing import NamedTuple

_SECTION_HEADER = re.compile(
    r"^(args|arguments|parameters|params|other parameters|returns?|yields?|raises|examples?|notes?|see also"
    r"|attributes|warnings?|references):?\s*$",
    re.IGNORECASE,
)
_PARAMETER_SECTIONS = {"args", "arguments", "parameters", "params", "other parameters"}
_GOOGLE_PARAMETER = re.compile(r"^\*{0,2}(\w+)\s*(?:\([^)]*\))?\s*:\s*(.*)$")
_NUMPY_PARAMETER = re.compile(r"^\*{0,2}(\w+(?:\s*,\s*\w+)*)\s*(?::.*)?$")
_SPHINX_PARAMETER = re.compile(r"^:param\s+(?:[^:]*\s)?\*{0,2}(\w+)\s*:\s*(.*)$")


class Docstring(NamedTuple):
    """A docstring, taken apart."""

    description: str
    parameters: dict[str, str]


def parse_docstring(text: str | None) -> Docstring:
    """Split a docstring into the description and its parameters' descriptions."""
    lines = cleandoc(text or "").splitlines()
    start = next((i for i in range(len(lines)) if _is_section_header(lines, i) or lines[i].startswith(":")), len(lines))
    return Docstring("\n".join(lines[:start]).strip(), _parse_parameters(lines[start:]))


def _is_section_header(lines: list[str], index: int) -> bool:
    if not _SECTION_HEADER.match(lines[index]):
        return False
    underlined = index + 1 < len(lines) and set(lines[index + 1].strip()) in ({"-"}, {"="})
    return underlined or lines[index].rstrip().endswith(":")


def _parse_parameters(lines: list[str]) -> dict[str, str]:
    found: dict[str, list[str]] = {}
    section, numpy, names = "", False, [""]
    for index, line in enumerate(lines):
        stripped = line.strip()
        if _is_section_header(lines, index):
            section = stripped.rstrip(":").lower()
            numpy = not stripped.endswith(":")
            names = [""]
        elif match := _SPHINX_PARAMETER.match(stripped):
            names = [match[1]]
            found[match[1]] = [match[2]]
        elif stripped.startswith(":"):
            names = [""]
        elif section in _PARAMETER_SECTIONS and (match := _match_parameter(line, is_numpy=numpy)):
            names = re.split(r"\s*,\s*", match[1])
            found.update({name: [match[2] if match.lastindex == 2 else ""] for name in names})
        elif names[0] and stripped and set(stripped) != {"-"}:
            for name in names:
                found[name].append(stripped)
    return {name: " ".join(filter(None, parts)) for name, parts in found.items()}


def _match_parameter(line: str, *, is_numpy: bool) -> re.Match[str] | None:
    indent = len(line) - len(line.lstrip())
    if is_numpy:
        return _NUMPY_PARAMETER.match(line) if indent == 0 else None
    return _GOOGLE_PARAMETER.match(line.strip()) if 0 < indent <= 4 else None
