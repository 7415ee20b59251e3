"""Sources of tools by name: files, modules, and objects in them."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
import sysconfig
from contextlib import redirect_stdout
from hashlib import sha256
from pathlib import Path
from traceback import extract_tb
from types import ModuleType
from typing import Any, TypeAlias

from surehand.core.define import LazyTool
from surehand.core.errors import DefinitionError
from surehand.core.names import nearest_names
from surehand.core.provider import Provider
from surehand.core.tool import Tool
from surehand.runtime.sources import flatten_sources

SourceItem: TypeAlias = Tool[..., Any] | Provider | LazyTool


class ToolSourceError(Exception):
    """A source of tools cannot be loaded: says which, where and why."""


def load_tool_source(source: str, *, folder: str | Path = ".") -> list[SourceItem]:
    """The tools and providers of `file.py`, `package.module`, or `:object` in one of them."""
    where, wanted = _split_source(source)
    module = _load_module(where, Path(folder))
    value = _find_object(module, wanted, where) if wanted else module
    try:
        found = flatten_sources([value])
    except DefinitionError as error:
        raise ToolSourceError(f"{source}: {error.problem if not error.where else error}") from error
    if not found:
        raise ToolSourceError(f"{source} holds no tools. Put @tool above a function in it.")
    return found


def _split_source(source: str) -> tuple[str, str]:
    """The file or module, and the object in it; the colon of `C:\\tools.py` is neither."""
    where, colon, wanted = source.rpartition(":")
    return (where, wanted) if colon and wanted.replace(".", "_").isidentifier() and len(where) > 1 else (source, "")


def _find_object(module: ModuleType, object_path: str, module_name: str) -> Any:
    value: Any = module
    for name in object_path.split("."):
        if not hasattr(value, name):
            near = nearest_names(name, [known for known in dir(value) if not known.startswith("_")], 1)
            raise ToolSourceError(f"{module_name} has no {name!r}.{f' Did you mean {near[0]!r}?' if near else ''}")
        value = getattr(value, name)
    return value


def _load_module(where: str, folder: Path) -> ModuleType:
    path = folder / Path(where).expanduser()
    is_file = where.endswith(".py") or path.is_file()
    if is_file and not path.is_file():
        raise ToolSourceError(f"There is no file {path}.")
    _add_to_path(path.parent if is_file else folder)
    try:
        with redirect_stdout(sys.stderr):  # what a module prints is no part of our output
            return _load_module_file(path.resolve()) if is_file else importlib.import_module(where)
    except DefinitionError as error:
        raise ToolSourceError(str(error)) from error
    except (Exception, SystemExit) as error:
        raise ToolSourceError(_describe_error(error, where)) from error


def _add_to_path(folder: Path) -> None:
    if (entry := str(folder.resolve())) not in sys.path:
        sys.path.insert(0, entry)


def _load_module_file(path: Path) -> ModuleType:
    known = sys.modules.get(path.stem)
    if known is not None and getattr(known, "__file__", None) == str(path):
        return known
    name = path.stem
    if known is not None or name in sys.stdlib_module_names:  # never take the place of another module
        name = f"{name}_{sha256(str(path).encode()).hexdigest()[:8]}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ToolSourceError(f"{path} is no Python file.")
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _describe_error(error: BaseException, where: str) -> str:
    if isinstance(error, ToolSourceError):
        return str(error)
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}:{error.lineno}: {error.msg}"
    if isinstance(error, ModuleNotFoundError) and f"{where}.".startswith(f"{error.name}."):
        return f"There is no module {error.name!r}. A file is named with its ending, as in tools.py."
    told = next(iter(str(error).strip().splitlines()), "")
    problem = "it ends the program" if isinstance(error, SystemExit) else f"{type(error).__name__}: {told}".rstrip(": ")
    return f"{_user_code_location(error) or where}: {problem}"


def _user_code_location(error: BaseException) -> str:
    """The innermost line of the user's own code, and not of a library that it called."""
    frames = [frame for frame in extract_tb(error.__traceback__) if not frame.filename.startswith("<")]
    theirs = [frame for frame in frames if not frame.filename.startswith(_LIBRARY_FOLDERS)]
    return f"{theirs[-1].filename}:{theirs[-1].lineno}" if theirs else ""


_LIBRARY_FOLDERS = (*{sysconfig.get_path(name) + os.sep for name in ("stdlib", "purelib", "platlib")},)
_LIBRARY_FOLDERS += (str(Path(__file__).parents[1]) + os.sep,)
