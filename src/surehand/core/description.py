"""Descriptions of tools and of their parameters, from a string, a docstring or a text file beside the tool.

The docstring parser knows the styles of Google, NumPy and Sphinx.
"""

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

log = logging.getLogger("surehand")

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
    """The parts of a docstring: the description of the function, and those of its parameters by name."""

    description: str
    parameters: dict[str, str]


def parse_docstring(text: str | None) -> Docstring:
    """Split a docstring into its description and the descriptions of the parameters."""
    lines = cleandoc(text or "").splitlines()
    section_starts = (i for i in range(len(lines)) if _is_section_header(lines, i) or lines[i].startswith(":"))
    end = next(section_starts, len(lines))
    return Docstring("\n".join(lines[:end]).strip(), _parse_parameters(lines[end:]))


def _is_section_header(lines: list[str], index: int) -> bool:
    if not _SECTION_HEADER.match(lines[index]):
        return False
    is_underlined = index + 1 < len(lines) and set(lines[index + 1].strip()) in ({"-"}, {"="})
    return is_underlined or lines[index].rstrip().endswith(":")


def _parse_parameters(lines: list[str]) -> dict[str, str]:
    texts: dict[str, list[str]] = {}
    section = ""
    is_numpy = False
    current_names: list[str] = []
    for index, line in enumerate(lines):
        stripped = line.strip()
        if _is_section_header(lines, index):
            section = stripped.rstrip(":").lower()
            is_numpy = not stripped.endswith(":")
            current_names = []
        elif match := _SPHINX_PARAMETER.match(stripped):
            current_names = [match[1]]
            texts[match[1]] = [match[2]]
        elif stripped.startswith(":"):  # another field of Sphinx, such as `:returns:`
            current_names = []
        elif section in _PARAMETER_SECTIONS and (match := _match_parameter(line, is_numpy=is_numpy)):
            current_names = re.split(r"\s*,\s*", match[1])
            first_text = match[2] if match.lastindex == 2 else ""
            texts.update({name: [first_text] for name in current_names})
        elif stripped and set(stripped) != {"-"}:  # a further line of the parameters above
            for name in current_names:
                texts[name].append(stripped)
    return {name: " ".join(filter(None, parts)) for name, parts in texts.items()}


def _match_parameter(line: str, *, is_numpy: bool) -> re.Match[str] | None:
    indent = len(line) - len(line.lstrip())
    if is_numpy:
        return _NUMPY_PARAMETER.match(line) if indent == 0 else None
    return _GOOGLE_PARAMETER.match(line.strip()) if 0 < indent <= 4 else None


class DescriptionSource:
    """The source of a tool's description. It is read when first needed: parsing a docstring at import takes time."""

    def __init__(self, source: str | os.PathLike[str] | None, function: Callable[..., Any] | None, name: str) -> None:
        self._source = source
        self._function = function
        self._name = name
        self._loaded_text: str | None = None

    def render(self, workspace: str | None = None) -> str:
        """The description. In one from a file, `${workspace}`, `${directory}` and `${cwd}` are replaced."""
        if self._loaded_text is None:
            self._loaded_text = self._load()
        if not isinstance(self._source, os.PathLike):
            return self._loaded_text
        # `safe_substitute` leaves any other `$name` in the text as it is.
        root = workspace or os.environ.get("AGENT_WORKSPACE_ROOT") or os.getcwd()
        return Template(self._loaded_text).safe_substitute(workspace=root, directory=os.getcwd(), cwd=os.getcwd())

    def _load(self) -> str:
        if isinstance(self._source, str):
            return inspect.cleandoc(self._source).strip()
        if isinstance(self._source, os.PathLike):
            try:
                return self._resolve_path(self._source).read_text(encoding="utf-8").strip()
            except (OSError, UnicodeError) as error:
                log.warning("Cannot read the description of %s (%s); using its docstring.", self._name, error)
        docstring = getattr(self._function, "__doc__", None) if self._function else None
        return parse_docstring(docstring).description or self._name.replace("_", " ").strip().capitalize() + "."

    def _resolve_path(self, path: os.PathLike[str]) -> Path:
        from pathlib import Path  # imported on first use: few tools have their description in a file

        code = getattr(inspect.unwrap(self._function), "__code__", None) if self._function else None
        return Path(code.co_filename).parent / path if code else Path(path)
