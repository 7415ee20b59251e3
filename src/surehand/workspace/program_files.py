"""Which files of a workspace this program runs: modules it has loaded, packages, and files that their sources import.

`protected_paths` keeps tools from changing them, and `assemble` asks for the files behind tools and MCP servers.
"""

from __future__ import annotations

import ast
import os
import sys
from collections.abc import Iterable, Iterator
from functools import lru_cache
from importlib.machinery import all_suffixes
from pathlib import Path
from types import ModuleType

from surehand.workspace.import_guard import is_installation_path

BYTECODE_FOLDER = "__pycache__"
_MAX_SOURCE_BYTES = 2 << 20
MAX_FILES_FOLLOWED = 500


def loaded_files_below(folder: Path) -> frozenset[Path]:
    """The files of modules that this process has loaded from a folder, and the folders of its packages."""
    return frozenset(path for path in _loaded_files(len(sys.modules)) if folder in path.parents)


# Modules are hardly ever removed: if their number is the same, so are they.
@lru_cache(maxsize=1)
def _loaded_files(module_count: int) -> frozenset[Path]:
    found: set[Path] = set()
    for module in list(sys.modules.values()):
        if isinstance(module, ModuleType):
            found.update(_files_of_module(module))
    return frozenset(found)


def _files_of_module(module: ModuleType) -> Iterator[Path]:
    # By `vars`: asking a lazy module for an attribute could load another one.
    file = vars(module).get("__file__")
    if not isinstance(file, str):
        return
    path = os.path.realpath(file)
    if is_installation_path(path) or not os.path.exists(path):
        return
    yield Path(path)
    if "__path__" in vars(module):
        yield Path(path).parent


def imported_files(source: Path) -> set[Path]:
    """A Python file and all that it imports from its own folder, directly or not; nothing is run."""
    folder = source.parent
    found: set[Path] = set()
    waiting = [source]
    while waiting and len(found) < MAX_FILES_FOLLOWED:
        file = waiting.pop()
        if file in found:
            continue
        found.add(file)
        for name in imported_names(file):
            for path in find_modules(folder, name):
                if path.is_file():
                    waiting.append(path)
                elif path.is_dir():
                    found.add(path)  # a package, protected as a whole
    return found


def find_modules(folder: Path, name: str) -> list[Path]:
    """The file or package of a module's first name in a folder."""
    top = name.partition(".")[0]
    files = [folder / f"{top}{suffix}" for suffix in all_suffixes()]
    return [path for path in (folder / top, *files) if top and path.exists()]


def imported_names(source: Path) -> set[str]:
    """The modules that a Python file imports anywhere in it, relative ones by their plain name."""
    try:
        if source.stat().st_size > _MAX_SOURCE_BYTES or source.suffix not in ("", ".py"):
            return set()
        tree = ast.parse(source.read_bytes())
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return set()
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            names.update([node.module] if node.module else [alias.name for alias in node.names])
    return names


def executable_folders(folder: Path) -> list[Path]:
    """The folders of `PATH` below a folder: this program looks for the commands that it starts there."""
    entries = [entry for entry in os.environ.get("PATH", "").split(os.pathsep) if os.path.isabs(entry)]
    paths = [Path(os.path.realpath(entry)) for entry in entries]
    return [path for path in paths if folder in path.parents]


def is_importable_file(name: str) -> bool:
    """Whether Python imports a file of this name."""
    return any(name.endswith(suffix) for suffix in all_suffixes())


def bytecode_folders(files: Iterable[Path]) -> set[Path]:
    """Where Python keeps the bytecode of these files."""
    return {file.parent / BYTECODE_FOLDER for file in files if file.suffix == ".py"}
