"""Description: what a model reads about a tool, from a string, a docstring or a text file beside the tool."""

from __future__ import annotations

import inspect
import logging
import os
from collections.abc import Callable
from string import Template
from typing import TYPE_CHECKING, Any

from surehand.core.docstring import parse_docstring

if TYPE_CHECKING:
    from pathlib import Path

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
