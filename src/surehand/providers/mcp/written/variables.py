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
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_EDITORS = (".vscode", ".cursor", ".idea")
_LINE = re.compile(r"\s*(?:export\s+)?([A-Za-z_]\w*)\s*=\s*(\"[^\"]*\"|'[^']*'|[^#\n]*?)\s*(?:#.*)?\Z")


@dataclass(frozen=True, slots=True)
class Variables:
    """What references stand for: the environment, and the folder of the file that they were read from."""

    environment: Mapping[str, str] = field(default_factory=lambda: os.environ)
    folder: Path = field(default_factory=Path)
    inputs: Mapping[str, str | None] = field(default_factory=dict)
    """What an editor would ask for, with what it offers, by name."""

    def filled(self, text: str, told: Callable[[str, str], DefinitionError]) -> str:
        """The text with its references filled in; what is filled in is not looked at again.

        Args:
            told: the error for a problem, with how to mend it.
        """
        return _REFERENCE.sub(lambda found: self._value(found, told), text)

    def missing(self, texts: Iterable[str]) -> list[str]:
        """Variables that some texts need and that are not set."""
        wanted = [self._wanted(found) for text in texts for found in _REFERENCE.finditer(text)]
        return sorted({name for name in wanted if name})

    def path(self, text: str) -> Path:
        """A path as it is meant in the file: relative to its folder."""
        return self.folder / Path(text).expanduser()

    @property
    def workspace(self) -> Path:
        """The folder that an editor has open where it reads this file."""
        folder = self.folder.resolve()
        return folder.parent if folder.name in _EDITORS else folder

    def _value(self, found: re.Match[str], told: Callable[[str, str], DefinitionError]) -> str:
        value = self._known(found)
        if value is not None:
            return value
        if (name := self._wanted(found)) is None:
            raise told(f"{found[0]} cannot be filled in here", "use ${NAME} of an environment variable.")
        raise told(f"the environment variable {name} is not set", f"set {name}, or write ${{{name}:-otherwise}}.")

    def _wanted(self, found: re.Match[str]) -> str | None:
        """The variable that is missing; None where there is none, or none could help."""
        if self._known(found) is not None:
            return None
        name = _variable_of(found["kind"], found["name"].strip())
        return name if name is not None and _NAME.match(name) else None

    def _known(self, found: re.Match[str]) -> str | None:
        kind, name = found["kind"], found["name"].strip()
        places = {"workspaceFolder": self.workspace, "userHome": Path.home()}
        if kind is None and name in places:
            return str(places[name])
        if kind is None and name == "workspaceFolderBasename":
            return self.workspace.name
        if kind is None and name in ("pathSeparator", "/"):
            return os.sep
        value = self.environment.get(_variable_of(kind, name) or "")
        return value or _otherwise(found, self.inputs.get(name) if kind == "input" else None, value)


def _otherwise(found: re.Match[str], offered: str | None, value: str | None) -> str | None:
    """As in a shell, what stands after `:-` holds for an empty variable too."""
    if found["otherwise"] is not None:
        return found["otherwise"]
    return value if value is not None else offered


def _variable_of(kind: str | None, name: str) -> str | None:
    if kind == "input":  # nobody can be asked here
        return re.sub(r"\W+", "_", name).upper()
    return name if kind in (None, "env") else None


def has_references(text: str) -> bool:
    """Whether there is anything to fill in."""
    return bool(_REFERENCE.search(text))


def from_file(path: Path) -> dict[str, str]:
    """Variables from lines of `NAME=value`; lines that are none say nothing."""
    found = (_LINE.match(line) for line in path.read_text(encoding="utf-8-sig").splitlines())
    return {match[1]: _unquoted(match[2]) for match in found if match}


def _unquoted(value: str) -> str:
    return value[1:-1] if len(value) > 1 and value[0] == value[-1] and value[0] in "\"'" else value
