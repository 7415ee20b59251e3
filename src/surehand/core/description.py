"""Description: what a model reads about a tool, from a string, a docstring or a text file beside the tool."""

from __future__ import annotations

import inspect
import logging
import os
from collections.abc import Callable
from string import Template
from typing import TYPE_CHECKING, Any

from surehand.core.docstring import read_docstring

if TYPE_CHECKING:
    from pathlib import Path

log = logging.getLogger("surehand")


class Description:
    """Read when first needed: ten thousand docstrings need not be taken apart at import."""

    def __init__(self, given: str | os.PathLike[str] | None, function: Callable[..., Any] | None, name: str) -> None:
        self._given, self._function, self._name = given, function, name
        self._text: str | None = None

    def text(self, workspace: str | None = None) -> str:
        """The description, with `${workspace}`, `${directory}` and `${cwd}` filled in where it came from a file."""
        if self._text is None:
            self._text = self._read()
        if not isinstance(self._given, os.PathLike):
            return self._text
        root = workspace or os.environ.get("AGENT_WORKSPACE_ROOT") or os.getcwd()
        return Template(self._text).safe_substitute(workspace=root, directory=os.getcwd(), cwd=os.getcwd())

    def _read(self) -> str:
        if isinstance(self._given, str):
            return inspect.cleandoc(self._given).strip()
        if isinstance(self._given, os.PathLike):
            try:
                return self._beside(self._given).read_text(encoding="utf-8").strip()
            except (OSError, UnicodeError) as error:
                log.warning("The description of %s cannot be read (%s); its docstring is used.", self._name, error)
        doc = getattr(self._function, "__doc__", None) if self._function else None
        return read_docstring(doc).description or self._name.replace("_", " ").strip().capitalize() + "."

    def _beside(self, path: os.PathLike[str]) -> Path:
        from pathlib import Path  # loaded by those alone who use it

        code = getattr(inspect.unwrap(self._function), "__code__", None) if self._function else None
        return Path(code.co_filename).parent / path if code else Path(path)
