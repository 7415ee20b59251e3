"""Programs that this process starts with its own rights, such as MCP servers: their files, and where they start.

What such a program runs must not come from a tool. Its files are protected in every workspace, it does not start in a
folder that tools may write unless that folder was asked for, and Python does not look for modules there.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

from surehand.workspace.import_guard import IMPORT_GUARD, add_program_folder
from surehand.workspace.program_files import MAX_FILES_FOLLOWED, find_modules, imported_files, imported_names

SAFE_PATH_VARIABLES = {"PYTHONSAFEPATH": "1"}
"""Python then imports nothing from its working directory or from the folder of its script."""
_PROGRAM_SUFFIXES = (".py", ".pyz", ".js", ".mjs", ".cjs", ".ts", ".sh", ".bash", ".rb", ".pl", ".jar", ".wasm")
_NODE_SUFFIXES = (".js", ".mjs", ".cjs", ".ts")
_PYTHON_NAME = re.compile(r"(python|pypy)[0-9.]*")
_started_files: set[Path] = set()


def register_program(argv: Sequence[str], folder: str | Path) -> None:
    """Protect the files of a program from tools, in every workspace of this process, and what it will import."""
    _started_files.update(path.resolve() for path in program_files(argv, Path(folder)))
    import_folder, sources = _python_sources(argv, Path(folder))
    if import_folder is not None:
        names = {name.partition(".")[0] for source in sources for name in imported_names(source)}
        add_program_folder(import_folder, names | _installed_names(argv))


def registered_files_below(folder: Path) -> list[Path]:
    """Files of started programs below a folder."""
    return [path for path in _started_files if folder in path.parents]


def program_files(argv: Sequence[str], folder: Path) -> Iterator[Path]:
    """The files that a command line runs: scripts, the modules that they import, and the target of `python -m`."""
    is_first_file = True
    for position, word in enumerate(argv):
        if position and argv[position - 1] == "-m" and _python_position(argv) is not None:
            for module in find_modules(folder, word):
                yield from imported_files(module) if module.is_file() else [module]
            continue
        path = folder / os.path.expanduser(word.rpartition("=")[2])
        if position and is_first_file and word and not word.startswith("-") and os.path.exists(path):
            is_first_file = False  # what an interpreter runs, whatever its name is
            if os.path.exists(path / "__main__.py"):
                yield path
        elif path.suffix not in _PROGRAM_SUFFIXES and (position or os.sep not in word):
            continue
        if os.path.isfile(path):
            yield path
            yield from imported_files(path)
            if path.suffix in _NODE_SUFFIXES:
                yield from (path.parent / name for name in ("node_modules", "package.json"))


def _python_sources(argv: Sequence[str], folder: Path) -> tuple[Path | None, set[Path]]:
    """The folder that a Python program imports from first, and its own files there; None if it is no such program."""
    position = _python_position(argv)
    words = argv if position is None else argv[position:]
    if position is not None and "-m" in words[:-1]:
        modules = find_modules(folder, words[words.index("-m") + 1])
        sources = (path for module in modules for path in (module.rglob("*.py") if module.is_dir() else [module]))
        return (folder if modules else None), set(islice(sources, MAX_FILES_FOLLOWED))
    for word in words:
        path = folder / os.path.expanduser(word)
        if word and not word.startswith("-") and os.path.isfile(path) and word is not argv[0]:
            if position is None and path.suffix != ".py":
                continue
            return path.parent, imported_files(path)
    return None, set()


def _installed_names(argv: Sequence[str]) -> set[str]:
    """Modules that are installed beside the interpreter of a command line."""
    position = _python_position(argv)
    if position is None or os.sep not in argv[position]:
        return set()
    site_packages = Path(argv[position]).parent.parent.glob("lib/python*/site-packages/*")
    return {path.name.partition(".")[0] for path in site_packages}


def _python_position(argv: Sequence[str]) -> int | None:
    """Where a command line names the Python interpreter, as in `env python3 server.py`."""
    return next((position for position, word in enumerate(argv) if is_python(word)), None)


def is_python(program: str) -> bool:
    """Whether a command is a Python interpreter."""
    return _PYTHON_NAME.fullmatch(os.path.basename(program)) is not None


def safe_start_folder(folder: str) -> str:
    """The folder itself, or, if tools may write there, the home folder or the root."""
    for candidate in (folder, os.path.expanduser("~")):
        if os.path.isdir(candidate) and not IMPORT_GUARD.is_writable(candidate):
            return candidate
    return folder if not IMPORT_GUARD.is_writable(folder) else os.sep


def make_paths_absolute(argv: Sequence[str], folder: str) -> list[str]:
    """A command line that means the same when it is started in another folder: its existing paths are absolute."""
    words: list[str] = []
    for position, word in enumerate(argv):
        option, equals, value = word.rpartition("=")
        path = os.path.join(folder, value)
        # The first words may name a program or a package, and a folder may have the same name by chance.
        looks_like_path = os.path.isfile(path) or os.sep in value or value in (".", "..") or position > 1
        is_path = value and not value.startswith("-") and looks_like_path and os.path.exists(path)
        words.append(f"{option}{equals}{os.path.abspath(path)}" if is_path and (position or os.sep in word) else word)
    return words


def needs_own_folder(argv: Sequence[str], folder: str) -> bool:
    """Whether a Python program imports modules of its own from beside its script, or from its working directory."""
    import_folder, sources = _python_sources(argv, Path(folder))
    if import_folder is None:
        return "-m" not in argv
    if "-m" in argv:
        return True
    names = {name.partition(".")[0] for source in sources for name in imported_names(source)}
    return any(find_modules(import_folder, name) for name in names - sys.stdlib_module_names)


def python_variables(argv: Sequence[str], folder: str, *, needs_folder: bool) -> dict[str, str]:
    """Variables that keep a Python program from importing what a tool wrote, if it needs nothing from there itself.

    Args:
        needs_folder: what `needs_own_folder` said before tools could write.
    """
    if needs_folder:
        return {}
    import_folder, _ = _python_sources(argv, Path(folder))
    is_safe = import_folder is not None and not IMPORT_GUARD.is_writable(str(import_folder))
    return {} if is_safe else SAFE_PATH_VARIABLES
