"""Variables: `${NAME}` in what people write about a server, filled in as late as that is possible."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from surehand.core.errors import DefinitionError

# Of an editor's: ${env:NAME}, ${input:name}, ${workspaceFolder}; of a shell's: ${NAME:-otherwise}; and ${env.NAME}.
_REFERENCE = re.compile(r"\$\{(?:(?P<kind>[A-Za-z]+)[:.](?!-))?(?P<name>[^${}:]+)(?::-(?P<otherwise>[^{}]*))?\}")
_VARIABLE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_EDITOR_FOLDERS = (".vscode", ".cursor", ".idea")
_ENV_FILE_LINE = re.compile(r"\s*(?:export\s+)?([A-Za-z_]\w*)\s*=\s*(\"[^\"]*\"|'[^']*'|[^#\n]*?)\s*(?:#.*)?\Z")


@dataclass(frozen=True, slots=True)
class Variables:
    """What references stand for: the environment, and the folder of the file that they were read from."""

    environment: Mapping[str, str] = field(default_factory=lambda: os.environ)
    folder: Path = field(default_factory=Path)
    inputs: Mapping[str, str | None] = field(default_factory=dict)
    """What an editor would ask for, with what it offers, by name."""

    def substitute(self, text: str, make_error: Callable[[str, str], DefinitionError]) -> str:
        """The text with its references filled in; what is filled in is not looked at again.

        Args:
            told: the error for a problem, with how to mend it.
        """
        return _REFERENCE.sub(lambda found: self._resolve(found, make_error), text)

    def missing_in(self, texts: Iterable[str]) -> list[str]:
        """Variables that some texts need and that are not set."""
        wanted = [self._missing_variable(found) for text in texts for found in _REFERENCE.finditer(text)]
        return sorted({name for name in wanted if name})

    def resolve_path(self, text: str) -> Path:
        """A path as it is meant in the file: relative to its folder."""
        return self.folder / Path(text).expanduser()

    @property
    def workspace_folder(self) -> Path:
        """The folder that an editor has open where it reads this file."""
        folder = self.folder.resolve()
        return folder.parent if folder.name in _EDITOR_FOLDERS else folder

    def _resolve(self, match: re.Match[str], make_error: Callable[[str, str], DefinitionError]) -> str:
        value = self._lookup(match)
        if value is not None:
            return value
        if (name := self._missing_variable(match)) is None:
            raise make_error(f"{match[0]} cannot be filled in here", "use ${NAME} of an environment variable.")
        raise make_error(f"the environment variable {name} is not set", f"set {name}, or write ${{{name}:-otherwise}}.")

    def _missing_variable(self, match: re.Match[str]) -> str | None:
        """The variable that is missing; None where there is none, or none could help."""
        if self._lookup(match) is not None:
            return None
        name = _variable_name(match["kind"], match["name"].strip())
        return name if name is not None and _VARIABLE_NAME.match(name) else None

    def _lookup(self, match: re.Match[str]) -> str | None:
        kind, name = match["kind"], match["name"].strip()
        places = {"workspaceFolder": self.workspace_folder, "userHome": Path.home()}
        if kind is None and name in places:
            return str(places[name])
        if kind is None and name == "workspaceFolderBasename":
            return self.workspace_folder.name
        if kind is None and name in ("pathSeparator", "/"):
            return os.sep
        value = self.environment.get(_variable_name(kind, name) or "")
        return value or _value_or_default(match, self.inputs.get(name) if kind == "input" else None, value)


def _value_or_default(match: re.Match[str], input_default: str | None, value: str | None) -> str | None:
    """As in a shell, what stands after `:-` holds for an empty variable too."""
    if match["otherwise"] is not None:
        return match["otherwise"]
    return value if value is not None else input_default


def _variable_name(kind: str | None, name: str) -> str | None:
    if kind == "input":  # nobody can be asked here
        return re.sub(r"\W+", "_", name).upper()
    return name if kind in (None, "env") else None


def has_references(text: str) -> bool:
    """Whether there is anything to fill in."""
    return bool(_REFERENCE.search(text))


def read_env_file(path: Path) -> dict[str, str]:
    """Variables from lines of `NAME=value`; lines that are none say nothing."""
    found = (_ENV_FILE_LINE.match(line) for line in path.read_text(encoding="utf-8-sig").splitlines())
    return {match[1]: _unquote(match[2]) for match in found if match}


def _unquote(value: str) -> str:
    return value[1:-1] if len(value) > 1 and value[0] == value[-1] and value[0] in "\"'" else value
