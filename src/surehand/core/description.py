"""Description: what a model reads about a tool, from a string, a docstring or a text file beside the tool."""

from __future__ import annotations

import inspect
import logging
import os
import re
from collections.abc import Callable
from inspect import cleandoc
from string import Template
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from pathlib import Path

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


log = logging.getLogger("surehand")


class DescriptionSource:
    """Read when first needed: ten thousand docstrings need not be taken apart at import."""

    def __init__(self, source: str | os.PathLike[str] | None, function: Callable[..., Any] | None, name: str) -> None:
        self._source, self._function, self._name = source, function, name
        self._loaded_text: str | None = None

    def render(self, workspace: str | None = None) -> str:
        """The description, with `${workspace}`, `${directory}` and `${cwd}` filled in where it came from a file."""
        if self._loaded_text is None:
            self._loaded_text = self._load()
        if not isinstance(self._source, os.PathLike):
            return self._loaded_text
        root = workspace or os.environ.get("AGENT_WORKSPACE_ROOT") or os.getcwd()
        return Template(self._loaded_text).safe_substitute(workspace=root, directory=os.getcwd(), cwd=os.getcwd())

    def _load(self) -> str:
        if isinstance(self._source, str):
            return inspect.cleandoc(self._source).strip()
        if isinstance(self._source, os.PathLike):
            try:
                return self._resolve_path(self._source).read_text(encoding="utf-8").strip()
            except (OSError, UnicodeError) as error:
                log.warning("The description of %s cannot be read (%s); its docstring is used.", self._name, error)
        doc = getattr(self._function, "__doc__", None) if self._function else None
        return parse_docstring(doc).description or self._name.replace("_", " ").strip().capitalize() + "."

    def _resolve_path(self, path: os.PathLike[str]) -> Path:
        from pathlib import Path  # loaded by those alone who use it

        code = getattr(inspect.unwrap(self._function), "__code__", None) if self._function else None
        return Path(code.co_filename).parent / path if code else Path(path)
