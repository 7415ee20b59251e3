"""Keeps Python from importing what a tool wrote, in folders that this program imports from and tools may write.

A workspace can contain the folder of the program, the current directory, or another entry of `sys.path`. From such a
folder only files are imported that are there, unchanged, since tools may write to it, and none that has the name of a
module found elsewhere. `Workspace` reports its folders here, and `started_programs` those that servers import from. The
import system belongs to the whole process, and so does its guard: it touches `sys.path_hooks` and the caches of the
import system.
"""

from __future__ import annotations

import logging
import os
import sys
import sysconfig
import time
from collections.abc import Callable, Container, Iterable
from dataclasses import dataclass, field
from functools import cache, lru_cache, partial
from importlib.machinery import (
    EXTENSION_SUFFIXES,
    SOURCE_SUFFIXES,
    ExtensionFileLoader,
    FileFinder,
    ModuleSpec,
    PathFinder,
    SourceFileLoader,
    all_suffixes,
)
from pathlib import Path
from types import CodeType, ModuleType

from surehand.core.links import links_on_path

log = logging.getLogger("surehand")
OPTIONAL_MODULES = frozenset({
    "anthropic", "anyio", "brotli", "click", "cronsim", "fastapi", "html_to_markdown", "httpcore2", "httptools",
    "httpx2", "idna", "json_repair", "jsonschema_rs", "mcp", "mcp_types", "openai", "opentelemetry", "psycopg",
    "psycopg_pool", "pydantic", "pydantic_core", "pypdf", "re2", "rich", "sse_starlette", "starlette", "tiktoken",
    "typing_extensions", "uvicorn", "uvloop", "websockets", "yaml", "zstandard",
})  # fmt: skip
"""Modules that surehand imports where they are installed."""
_STARTUP_MODULES = frozenset({"sitecustomize", "usercustomize"})
"""Modules that Python itself imports when it starts, if they exist."""
_CLOCK_TOLERANCE_NANOSECONDS = 100_000_000
_MAX_PERIODS = 64
"""Periods that are kept for one folder before they are joined."""
_METADATA_SUFFIXES = (".dist-info", ".egg-info", ".egg-link")
"""Names of an installed distribution's metadata, in any case: its entry points name modules that programs load."""
_program_modules: dict[str, set[str]] = {}
"""Folders that programs of this process import from, such as MCP servers, and the modules that they import."""


@dataclass(slots=True)
class WritablePeriod:
    """The time in which tools may write to a folder, in nanoseconds of the file system's clock."""

    since: int
    until: int | None = None
    """None while it lasts."""
    clock_offset: int = field(default_factory=lambda: _file_clock() - _steady_clock())
    """What the file system's clock is ahead of one that is never set."""

    def contains(self, time_ns: int) -> bool:
        """Whether a file of this change time may have been written by a tool."""
        return time_ns >= self.since - self._clock_set_back() and (self.until is None or time_ns <= self.until)

    def _clock_set_back(self) -> int:
        """By how much the clock was set back since: files of this period then have earlier times than its start."""
        set_back = self.clock_offset - (_file_clock() - _steady_clock())
        # The kernel's coarse clock and the steady one are not read at the same instant.
        return set_back + _CLOCK_TOLERANCE_NANOSECONDS if set_back > _CLOCK_TOLERANCE_NANOSECONDS else 0


class ImportGuard:
    """The folders that tools may write, and the rules for importing from them."""

    def __init__(self) -> None:
        self._periods_by_folder: dict[str, list[WritablePeriod]] = {}
        self._entries_at_start: dict[str, dict[str, int]] = {}
        """Inode of each name in a folder that this program imports from, when tools could not write there yet."""

    def begin_writable_period(self, folder: Path) -> Callable[[], None]:
        """Note that tools may write to this folder and below it from now on; returns a function that ends that."""
        path = os.path.realpath(folder)
        import_folders = import_folders_below(path)
        for import_folder in import_folders:
            self._entries_at_start[import_folder] = _inodes_by_name(import_folder)
        period = WritablePeriod(_next_tick() if import_folders else _file_clock())
        is_new = path not in self._periods_by_folder
        self._periods_by_folder.setdefault(path, []).append(period)
        if is_new:
            self._replace_cached_finders(path)
            for import_folder in import_folders:
                _warn_about(import_folder)
        return partial(self._end_writable_period, path, period)

    def _end_writable_period(self, path: str, period: WritablePeriod) -> None:
        period.until = _file_clock()
        periods = self._periods_by_folder[path]
        if len(periods) > _MAX_PERIODS and all(each.until is not None for each in periods):
            periods[:] = [WritablePeriod(periods[0].since, period.until, periods[0].clock_offset)]

    def _replace_cached_finders(self, folder: str) -> None:
        # Python asks the path hooks once for each folder, and keeps the finder in `sys.path_importer_cache`.
        if self._path_hook not in sys.path_hooks:
            sys.path_hooks.insert(0, self._path_hook)
        for cached in [each for each in sys.path_importer_cache if _is_within(os.path.realpath(each), folder)]:
            del sys.path_importer_cache[cached]

    def is_writable(self, path: str) -> bool:
        """Whether tools may write to a path now."""
        return any(period.until is None for period in self._periods_of(path))

    def _periods_of(self, path: str) -> list[WritablePeriod]:
        return self._periods_at(os.path.realpath(path))

    def _periods_at(self, real_path: str) -> list[WritablePeriod]:
        if not self._periods_by_folder or is_installation_path(real_path):
            return []
        folders = [real_path, *map(str, Path(real_path).parents)]
        return [period for folder in folders for period in self._periods_by_folder.get(folder, ())]

    def may_have_been_written(self, path: str, status: os.stat_result | None) -> bool:
        """Whether a tool may have written a file with this status, or moved it to its place."""
        # The change time, not the time of modification: a program can set the latter to anything, and a rename changes
        # only the former. A link belongs to the folder that it is in, wherever it leads.
        location = os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))
        periods = [*self._periods_of(path), *self._periods_at(location)]
        return status is None or any(period.contains(status.st_ctime_ns) for period in periods)

    def may_lead_elsewhere(self, path: str) -> bool:
        """Whether a tool may have changed a link on the way to a file, or moved a folder behind such a link."""
        real_path = os.path.realpath(path)
        if real_path == path:
            return False
        # The import system has looked at the packages around the path, and folders that it starts from cannot be moved.
        checked = {*self._periods_by_folder, *import_folders_below(os.sep)}
        checked.update(each for each in map(str, Path(path).parents) if not os.path.islink(each))
        steps = {*map(str, links_on_path(path)), real_path, *map(str, Path(real_path).parents)}
        return any(self.may_have_been_written(step, _status_or_none(step)) for step in steps - checked)

    def was_there_at_start(self, folder: str, name: str) -> bool:
        """Whether an entry of a folder is the one that was there when tools could not write yet."""
        path = os.path.join(folder, name)
        status = _status_or_none(path)
        known = self._entries_at_start.get(os.path.realpath(folder), {})
        return not self.may_have_been_written(path, status) or (status is not None and known.get(name) == status.st_ino)

    def _path_hook(self, path: str) -> GuardedFinder:
        """The finder for a folder that tools may write; `ImportError` leaves other paths to Python's own finders."""
        if not os.path.exists(path) or not self._periods_of(path):
            raise ImportError(f"{path} is not a folder that tools may write", path=path)
        if not os.path.isdir(path) and not self.may_have_been_written(path, os.stat(path)):
            raise ImportError(f"{path} is an unchanged archive", path=path)
        return GuardedFinder(self, path)


class GuardedFinder:
    """Finds modules in one folder that tools may write. Python's import system calls it instead of a `FileFinder`."""

    def __init__(self, guard: ImportGuard, folder: str) -> None:
        self._guard = guard
        self._folder = folder
        # Bytecode without a source is left out, and the loader ignores `__pycache__`: both can be written by a tool.
        self._finder = FileFinder(
            folder,
            (ExtensionFileLoader, EXTENSION_SUFFIXES),
            (partial(UnchangedSourceLoader, guard=guard), SOURCE_SUFFIXES),  # type: ignore[arg-type]  # called like a class
        )

    def find_spec(self, fullname: str, target: ModuleType | None = None) -> ModuleSpec | None:
        """The module in this folder, unless a tool may have written it or another folder has one of its name."""
        spec = self._finder.find_spec(fullname, target)
        if spec is None or ("." not in fullname and self._shadows_another_module(fullname)):
            return None
        if not self._is_unchanged(spec, fullname.rpartition(".")[2]):
            problem = "it is new or has changed since tools may write there"
            log.warning("The module %s is not imported from %s: %s.", fullname, self._folder, problem)
            return None
        return spec

    def _shadows_another_module(self, name: str) -> bool:
        return self._guard.is_writable(self._folder) and _is_found_elsewhere(name)

    def _is_unchanged(self, spec: ModuleSpec, name: str) -> bool:
        is_package = spec.submodule_search_locations is not None
        if is_package and not self._guard.was_there_at_start(self._folder, name):
            return False
        if not spec.has_location or spec.origin is None:
            return True  # a folder without `__init__.py`: its modules are looked at when they are imported
        status = _status_or_none(os.path.realpath(spec.origin))
        return not (
            self._guard.may_have_been_written(spec.origin, status) or self._guard.may_lead_elsewhere(spec.origin)
        )

    def invalidate_caches(self) -> None:
        """Look at the folder again."""
        self._finder.invalidate_caches()


class UnchangedSourceLoader(SourceFileLoader):
    """Compiles a source that is unchanged, and never loads its `__pycache__`."""

    def __init__(self, fullname: str, path: str, *, guard: ImportGuard) -> None:
        super().__init__(fullname, path)
        self._guard = guard

    def get_code(self, fullname: str) -> CodeType:
        """The code of the source, checked and read by one descriptor: the path may lead to another file by then."""
        path = str(self.path)
        with open(path, "rb") as file:
            if self._guard.may_have_been_written(path, os.fstat(file.fileno())):
                raise ImportError(f"{path} has changed since tools may write there.", name=fullname, path=path)
            return self.source_to_code(file.read(), path)


IMPORT_GUARD = ImportGuard()
"""The guard of this process."""


def import_folders_below(folder: str | Path) -> list[str]:
    """Folders that this program imports from, at or below a folder; its installed packages are not among them."""
    top = os.path.realpath(folder)
    entries = {os.path.realpath(entry or os.getcwd()) for entry in sys.path}
    return sorted(entry for entry in entries if _is_within(entry, top) and not is_installation_path(entry))


def module_folders_below(folder: str | Path) -> list[str]:
    """The same, and the folders that programs started by this one import from."""
    top = os.path.realpath(folder)
    started = {each for each in _program_modules if _is_within(each, top) and not is_installation_path(each)}
    return sorted(started.union(import_folders_below(top)))


def add_program_folder(folder: str | Path, modules: Iterable[str]) -> None:
    """Keep tools from adding modules to a folder that a started program imports from.

    Args:
        modules: names that the program may import, wherever it finds them.
    """
    _program_modules.setdefault(os.path.realpath(folder), set()).update(modules)


def trusted_search_path() -> list[str]:
    """The entries of `sys.path` that no tool may write."""
    entries = [entry or os.getcwd() for entry in sys.path]
    return [entry for entry in entries if not IMPORT_GUARD.is_writable(entry)]


def module_names(folder: str | Path) -> set[str]:
    """Modules that a file in a folder could hide from this program, or from a program that imports from there."""
    names = (
        set(sys.stdlib_module_names) | OPTIONAL_MODULES | _STARTUP_MODULES | _program_modules.get(str(folder), set())
    )
    names.update(name for name in list(sys.modules) if "." not in name)
    for entry in trusted_search_path():
        names |= _module_names_in(entry)
    return names


def shadowed_module(name: str, modules: Container[str]) -> str | None:
    """The module that a file of this name would shadow: Python would import the file instead; None for none."""
    stem, dot, _ = name.partition(".")
    if is_metadata_folder(name):
        return stem
    if dot and name[len(stem) :] not in all_suffixes():
        return None
    return stem if stem in modules else None


def is_metadata_folder(name: str) -> bool:
    """Whether Python reads the entry points of a distribution from a folder of this name."""
    return name.lower().endswith(_METADATA_SUFFIXES)


def is_open_package(module: str) -> bool:
    """Whether Python takes modules from each folder of this name: a package without `__init__.py`, or not installed."""
    if module in sys.stdlib_module_names:
        return False
    spec = PathFinder.find_spec(module, trusted_search_path())
    if spec is None:
        return module in OPTIONAL_MODULES
    return spec.origin is None and any(map(_has_modules, spec.submodule_search_locations or ()))


def _has_modules(folder: str) -> bool:
    names = _inodes_by_name(folder)
    return any(name.endswith(tuple(SOURCE_SUFFIXES)) or has_package_file(os.path.join(folder, name)) for name in names)


def _module_names_in(folder: str) -> frozenset[str]:
    try:
        return _list_module_names(folder, os.stat(folder).st_mtime_ns)
    except OSError:
        return frozenset()


@lru_cache(maxsize=64)
def _list_module_names(folder: str, modified_at: int) -> frozenset[str]:
    return frozenset(name.partition(".")[0] for name in os.listdir(folder)) - {"__pycache__"}


def _is_found_elsewhere(name: str) -> bool:
    """Whether the standard library or a folder that no tool may write has a module of this name."""
    return name in sys.stdlib_module_names or PathFinder.find_spec(name, trusted_search_path()) is not None


@cache
def installation_folders() -> tuple[str, ...]:
    """Folders of Python, of installed packages and of surehand itself, where no tool may ever write."""
    names = ("stdlib", "platstdlib", "purelib", "platlib")
    folders = {sysconfig.get_path(name) for name in names}
    folders |= {str(Path(__file__).parents[1])}
    if sys.prefix != sys.base_prefix:
        folders.add(sys.prefix)
    site = sys.modules.get("site")
    if site is not None:
        folders.add(site.getusersitepackages())
    return tuple(sorted(os.path.realpath(folder) for folder in folders))


def is_installation_path(real_path: str) -> bool:
    """Whether a path belongs to Python, to an installed package or to surehand."""
    return any(_is_within(real_path, folder) for folder in installation_folders())


def _is_within(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)


def _inodes_by_name(folder: str) -> dict[str, int]:
    try:
        with os.scandir(folder) as entries:
            return {entry.name: entry.inode() for entry in entries}
    except OSError:
        return {}


def _status_or_none(path: str) -> os.stat_result | None:
    try:
        return os.lstat(path)
    except OSError:
        return None


def _file_clock() -> int:
    # The kernel stamps files with its coarse clock, which lags behind the precise one by up to a tick.
    clock = getattr(time, "CLOCK_REALTIME_COARSE", None)
    return time.time_ns() if clock is None else time.clock_gettime_ns(clock)


def _steady_clock() -> int:
    """A clock that nobody sets, and that goes on while the machine sleeps."""
    clock = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic_ns() if clock is None else time.clock_gettime_ns(clock)


def _next_tick() -> int:
    """Wait for the next tick of the file clock, a few milliseconds: older files then have an older time stamp."""
    start = _file_clock()
    while (now := _file_clock()) == start:
        time.sleep(0.001)
    return now


def _warn_about(import_folder: str) -> None:
    log.warning(
        "Tools may write to %s, and this program imports modules from there. Files that would be imported in place of "
        "a module are refused. Give tools a folder of their own, or start the program from another one.",
        import_folder,
    )
    modules = module_names(import_folder)
    present = [name for name in sorted(_inodes_by_name(import_folder)) if _shadows_module(import_folder, name, modules)]
    if present:
        log.warning("%s of %s can be imported in place of other modules.", ", ".join(present), import_folder)


def _shadows_module(folder: str, name: str, modules: Container[str]) -> bool:
    """Whether an entry of a folder has the name of a module found elsewhere; a folder counts if it is a package."""
    path = os.path.join(folder, name)
    module = shadowed_module(name, modules)
    if module is None or (os.path.isdir(path) and not has_package_file(path)):
        return False
    return _is_found_elsewhere(module)


def has_package_file(folder: str) -> bool:
    """Whether a folder is a package, with an `__init__` file of any kind."""
    return any(os.path.lexists(os.path.join(folder, f"__init__{suffix}")) for suffix in all_suffixes())
