"""Loading tools from Python files and modules that the configuration or the command line names."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
import sysconfig
from contextlib import redirect_stdout
from hashlib import sha256
from importlib.machinery import ModuleSpec, PathFinder
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
    """A source of tools cannot be loaded. The message names the source, the line and the reason."""


def load_tool_source(source: str, *, folder: str | Path = ".") -> list[SourceItem]:
    """Load the tools and providers of `file.py`, `package.module`, or `:object` in one of them."""
    value = load_source_object(source, folder=folder)
    try:
        items = flatten_sources([value])
    except DefinitionError as error:
        problem = error if error.where else error.problem
        raise ToolSourceError(f"{source}: {problem}") from error
    if not items:
        raise ToolSourceError(f"{source} contains no tools. Put @tool above a function in it.")
    return items


def load_source_object(source: str, *, folder: str | Path = ".") -> Any:
    """Load the module, or the object in it, that `file.py`, `package.module` or `:object` in one of them names."""
    module_name, object_path = _split_source(source)
    module = _load_module(module_name, Path(folder))
    return _find_object(module, object_path, module_name) if object_path else module


def _split_source(source: str) -> tuple[str, str]:
    """Split a source into file or module, and object path. The colon of `C:\\tools.py` does not separate them."""
    module_name, colon, object_path = source.rpartition(":")
    is_object = object_path.replace(".", "_").isidentifier() and len(module_name) > 1
    return (module_name, object_path) if colon and is_object else (source, "")


def _find_object(module: ModuleType, object_path: str, module_name: str) -> Any:
    value: Any = module
    for name in object_path.split("."):
        if not hasattr(value, name):
            public_names = [known for known in dir(value) if not known.startswith("_")]
            nearest = nearest_names(name, public_names, 1)
            suggestion = f" Did you mean {nearest[0]!r}?" if nearest else ""
            raise ToolSourceError(f"{module_name} has no {name!r}.{suggestion}")
        value = getattr(value, name)
    return value


def _load_module(module_name: str, folder: Path) -> ModuleType:
    path = folder / Path(module_name).expanduser()
    is_file = module_name.endswith(".py") or path.is_file()
    if is_file and not path.is_file():
        raise ToolSourceError(f"The file {path} does not exist.{_suggest_file(path)}")
    _add_to_path(path.parent if is_file else folder)
    try:
        with redirect_stdout(sys.stderr):  # output of a module must not mix with the JSON that commands print
            return _load_module_file(path.resolve()) if is_file else _import_module(module_name, folder.resolve())
    except DefinitionError as error:
        raise ToolSourceError(str(error)) from error
    except (Exception, SystemExit) as error:
        raise ToolSourceError(_describe_error(error, module_name)) from error


def _add_to_path(folder: Path) -> None:
    """Let modules of the folder import each other. At the end: tools may write there, and hide no other module."""
    entry = str(folder.resolve())
    if entry not in sys.path:
        sys.path.append(entry)


def _import_module(name: str, folder: Path) -> ModuleType:
    """Import a module of the folder; one of the same name that is installed comes second, as it was not meant."""
    top_name = name.partition(".")[0]
    if top_name not in sys.modules and top_name not in sys.stdlib_module_names:
        spec = PathFinder.find_spec(top_name, [str(folder)])
        if spec is not None and spec.origin is not None:
            _execute_module(top_name, spec)
    return importlib.import_module(name)


def _load_module_file(path: Path) -> ModuleType:
    name = path.stem
    loaded = sys.modules.get(name)
    if loaded is not None and getattr(loaded, "__file__", None) == str(path):
        return loaded
    # Another name for a file that is called like a module: `import json` elsewhere must not find this file.
    if loaded is not None or name in sys.stdlib_module_names:
        name = f"{name}_{sha256(str(path).encode()).hexdigest()[:8]}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None:
        raise ToolSourceError(f"{path} is not a Python file.")
    return _execute_module(name, spec)


def _execute_module(name: str, spec: ModuleSpec) -> ModuleType:
    assert spec.loader is not None
    # Registered before it runs, as Python's own import does: dataclasses and circular imports look it up there.
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _suggest_file(path: Path) -> str:
    nearest = nearest_names(path.stem, {beside.stem for beside in path.parent.glob("*.py")}, 1)
    return f" Did you mean {nearest[0]}.py?" if nearest else ""


def _describe_error(error: BaseException, module_name: str) -> str:
    if isinstance(error, ToolSourceError):
        return str(error)
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}:{error.lineno}: {error.msg}"
    if isinstance(error, ModuleNotFoundError) and f"{module_name}.".startswith(f"{error.name}."):
        return f"The module {error.name!r} does not exist. Name a file with its extension, as in tools.py."
    if isinstance(error, SystemExit):
        problem = "the module exits the program"
    else:
        first_line = next(iter(str(error).strip().splitlines()), "")
        problem = f"{type(error).__name__}: {first_line}".rstrip(": ")
    return f"{_user_code_location(error) or module_name}: {problem}"


def _user_code_location(error: BaseException) -> str:
    """File and line of the innermost frame in the user's own code, not in a library that it called."""
    frames = [frame for frame in extract_tb(error.__traceback__) if not frame.filename.startswith("<")]
    user_frames = [frame for frame in frames if not frame.filename.startswith(_LIBRARY_FOLDERS)]
    return f"{user_frames[-1].filename}:{user_frames[-1].lineno}" if user_frames else ""


_LIBRARY_FOLDERS = (*{sysconfig.get_path(name) + os.sep for name in ("stdlib", "purelib", "platlib")},)
_LIBRARY_FOLDERS += (str(Path(__file__).parents[1]) + os.sep,)
