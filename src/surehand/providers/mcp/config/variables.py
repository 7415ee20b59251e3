"""Substitutes `${NAME}` references in server entries, in the syntax of shells and of editors, and reads env files."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from surehand.core.errors import DefinitionError

# Editors write ${env:NAME}, ${input:name} and ${workspaceFolder}, shells ${NAME:-default}; we also take ${env.NAME}.
_REFERENCE = re.compile(r"\$\{(?:(?P<kind>[A-Za-z]+)[:.](?!-))?(?P<name>[^${}:]+)(?::-(?P<otherwise>[^{}]*))?\}")
_FOLDER_VARIABLES = frozenset({"workspaceFolder", "workspaceFolderBasename", "userHome", "pathSeparator", "/"})
_VARIABLE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_EDITOR_FOLDERS = (".vscode", ".cursor", ".idea")
_ENV_FILE_LINE = re.compile(r"\s*(?:export\s+)?([A-Za-z_]\w*)\s*=\s*(\"[^\"]*\"|'[^']*'|[^#\n]*?)\s*(?:#.*)?\Z")


@dataclass(frozen=True, slots=True)
class Variables:
    """The values of references: an environment, the folder of the file, and the editor's inputs."""

    environment: Mapping[str, str] = field(default_factory=lambda: os.environ)
    folder: Path = field(default_factory=Path)
    inputs: Mapping[str, str | None] = field(default_factory=dict)
    """Default values of the inputs that an editor would prompt for, by name."""

    def substitute(self, text: str, make_error: Callable[[str, str], DefinitionError]) -> str:
        """Substitute the references in a text, once: values that hold references are not substituted again.

        Args:
            make_error: makes the error to raise from a problem and its fix.
        """
        return _REFERENCE.sub(lambda match: self._resolve(match, make_error), text)

    def missing_in(self, texts: Iterable[str]) -> list[str]:
        """The variables that texts refer to and that are not set, sorted."""
        names = [self._missing_variable(match) for text in texts for match in _REFERENCE.finditer(text)]
        return sorted({name for name in names if name})

    def referenced_values(self, texts: Iterable[str]) -> dict[str, str]:
        """The values of the environment variables and inputs that texts refer to, by name."""
        references = [match for text in texts for match in _REFERENCE.finditer(text)]
        values = {match["name"].strip(): self._lookup(match) for match in references}
        return {name: value for name, value in values.items() if value and name not in _FOLDER_VARIABLES}

    def resolve_path(self, text: str) -> Path:
        """A path in the file, which is relative to the file's folder."""
        return self.folder / Path(text).expanduser()

    @property
    def workspace_folder(self) -> Path:
        """The folder that is open in an editor: the parent of `.vscode` and its like, else the file's folder."""
        folder = self.folder.resolve()
        return folder.parent if folder.name in _EDITOR_FOLDERS else folder

    def _resolve(self, match: re.Match[str], make_error: Callable[[str, str], DefinitionError]) -> str:
        value = self._lookup(match)
        if value is not None:
            return value
        name = self._missing_variable(match)
        if name is None:
            raise make_error(f"the reference {match[0]} is not supported", "use ${NAME} with an environment variable.")
        raise make_error(f"the environment variable {name} is not set", f"set {name}, or write ${{{name}:-otherwise}}.")

    def _missing_variable(self, match: re.Match[str]) -> str | None:
        """The variable that a reference lacks; None if it has a value, or if no variable could give it one."""
        if self._lookup(match) is not None:
            return None
        name = _variable_name(match["kind"], match["name"].strip())
        return name if name is not None and _VARIABLE_NAME.match(name) else None

    def _lookup(self, match: re.Match[str]) -> str | None:
        """The value of a reference, None if it has none."""
        kind = match["kind"]
        name = match["name"].strip()
        if kind is None:
            folders = {"workspaceFolder": self.workspace_folder, "userHome": Path.home()}
            if name in folders:
                return str(folders[name])
            if name == "workspaceFolderBasename":
                return self.workspace_folder.name
            if name in ("pathSeparator", "/"):
                return os.sep
        value = self.environment.get(_variable_name(kind, name) or "")
        if value:
            return value
        return _value_or_default(match, self.inputs.get(name) if kind == "input" else None, value)


def _value_or_default(match: re.Match[str], input_default: str | None, value: str | None) -> str | None:
    """As in a shell, the default after `:-` also applies to a variable that is set but empty."""
    if match["otherwise"] is not None:
        return match["otherwise"]
    return value if value is not None else input_default


def _variable_name(kind: str | None, name: str) -> str | None:
    """The environment variable behind a reference; for an editor's input its name in upper case."""
    if kind == "input":  # there is no prompt here, so the value comes from the environment
        return re.sub(r"\W+", "_", name).upper()
    return name if kind in (None, "env") else None


def has_references(text: str) -> bool:
    """Whether a text holds a reference."""
    return bool(_REFERENCE.search(text))


def read_env_file(path: Path) -> dict[str, str]:
    """Read variables from lines of `NAME=value`; other lines are ignored."""
    matches = (_ENV_FILE_LINE.match(line) for line in path.read_text(encoding="utf-8-sig").splitlines())
    return {match[1]: _unquote(match[2]) for match in matches if match}


def _unquote(value: str) -> str:
    is_quoted = len(value) > 1 and value[0] == value[-1] and value[0] in "\"'"
    return value[1:-1] if is_quoted else value
