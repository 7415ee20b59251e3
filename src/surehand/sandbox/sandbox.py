"""The settings `Sandbox` and `Unprotected`: what a child process may see, reach and use up."""

from __future__ import annotations

import os
import resource
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from os import PathLike
from pathlib import Path
from tempfile import gettempdir
from typing import Any, ClassVar, Final, TypeAlias

from surehand.core.durations import parse_duration, parse_size
from surehand.core.errors import DefinitionError

PathArgument: TypeAlias = str | PathLike[str]
DEFAULT_SEARCH_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


_LIMIT_PARSERS: dict[str, Callable[[Any], Any]] = {
    "cpu": parse_duration,
    "memory": parse_size,
    "file_size": parse_size,
    "open_files": lambda value: value,
    "processes": lambda value: value,
}

SANDBOX_HOME = "/tmp/home"
"""Home folder inside a sandbox; it is private and is deleted with the sandbox."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceLimits:
    """Environment variables and resource limits of a child process."""

    env: Mapping[str, str] = field(default_factory=dict)
    """Additional environment variables. Variables of this process are not inherited."""
    cpu: float | str = 600.0
    """CPU seconds that one process may use."""
    memory: float | str = 4 << 30
    """Bytes that one process may allocate. In a sandbox also those of all processes together, with shared memory, where
    control groups can be used; elsewhere /tmp and /dev/shm hold at most as much each."""
    file_size: float | str = 2 << 30
    """Bytes that one file may grow to."""
    open_files: float = 4096
    """File descriptors that one process may have open."""
    processes: int = 512
    """Processes and threads that a command may have at once."""
    _may_be_infinite: ClassVar[frozenset[str]] = frozenset()

    def __post_init__(self) -> None:
        set_field = object.__setattr__  # the dataclass is frozen
        set_field(self, "env", {name: _validate_variable(name, value) for name, value in self.env.items()})
        for name, parse in _LIMIT_PARSERS.items():
            given = getattr(self, name)
            if given is inf and name in self._may_be_infinite:
                continue
            limit = _parse_limit(name, given, parse)
            set_field(self, name, limit if name == "cpu" else int(limit))

    @property
    def rlimits(self) -> dict[str, int]:
        """Each limit by its RLIMIT name, at most the hard limit of this process, which it cannot raise."""
        limits: dict[str, Any] = {
            "CORE": 0,
            "CPU": max(self.cpu, 1),
            "DATA": self.memory,
            "FSIZE": self.file_size,
            "NOFILE": self.open_files,
            "NPROC": self.processes,
        }
        return {name: _cap_to_hard_limit(name, int(limit)) for name, limit in limits.items() if limit is not inf}


@dataclass(frozen=True, slots=True, kw_only=True)
class Sandbox(ResourceLimits):
    """An isolated environment: commands see the system's programs and the given folders, and nothing else."""

    network: bool = False
    """Whether commands share the host's network. UNIX sockets are then refused, because some lead to the host."""
    read: Sequence[PathArgument] = ()
    """Further files and folders of the host that are mounted read-only at their own paths."""
    write: Sequence[PathArgument] = ()
    """Further folders of the host that are mounted writable at their own paths."""
    temporary: int | str = 1 << 30
    """Bytes that /tmp may hold; it is private and kept in memory."""

    def __post_init__(self) -> None:
        # `super()` fails here: a dataclass with slots is a new class, and `super()` refers to the original one.
        ResourceLimits.__post_init__(self)
        set_field = object.__setattr__  # the dataclass is frozen
        set_field(self, "read", tuple(_existing_path(path) for path in _validate_path_list(self.read, "read")))
        set_field(self, "write", tuple(_existing_path(path) for path in _validate_path_list(self.write, "write")))
        set_field(self, "temporary", int(_parse_limit("temporary", self.temporary, parse_size)))

    @property
    def environment(self) -> dict[str, str]:
        """The whole environment of a command."""
        return {"PATH": DEFAULT_SEARCH_PATH, "HOME": SANDBOX_HOME, "LANG": "C.UTF-8", "TMPDIR": "/tmp", **self.env}


@dataclass(frozen=True, slots=True, kw_only=True)
class Unprotected(ResourceLimits):
    """No sandbox: commands may do everything that this process may. Limits apply, and their processes end with them.

    Without a sandbox a command can interfere with the supervisor that ends its processes. Limits other than
    `processes` may be `math.inf`: the command then has the limits of this process, as suits a long-running server.
    """

    _may_be_infinite: ClassVar[frozenset[str]] = frozenset({"cpu", "memory", "file_size", "open_files"})

    @property
    def environment(self) -> dict[str, str]:
        """The whole environment of a command."""
        path = os.environ.get("PATH", DEFAULT_SEARCH_PATH)
        home = os.path.expanduser("~")
        return {"PATH": path, "HOME": home, "LANG": "C.UTF-8", "TMPDIR": gettempdir(), **self.env}


def _cap_to_hard_limit(name: str, limit: int) -> int:
    hard = resource.getrlimit(getattr(resource, f"RLIMIT_{name}"))[1]
    return limit if hard == resource.RLIM_INFINITY else min(limit, hard)


def _validate_path_list(given: Any, name: str) -> Sequence[PathArgument]:
    if isinstance(given, (str, PathLike)):
        raise DefinitionError(
            f"`{name}` must be a list of paths, got {given!r}.", fix=f"write {name}=[{str(given)!r}]."
        )
    return tuple(given)


def _existing_path(given: PathArgument) -> Path:
    path = Path(given).expanduser().absolute()
    if not path.exists():
        raise DefinitionError(f"A sandbox cannot show {path}: it does not exist.", fix="name an existing path.")
    return path


def _validate_variable(name: str, value: Any) -> str:
    if not name or "=" in name or "\0" in name or not isinstance(value, str) or "\0" in value:
        raise DefinitionError(
            f"{name!r} is not a valid environment variable.", fix="use strings without NUL, and no `=` in the name."
        )
    return value


def _parse_limit(name: str, given: Any, parse: Callable[[Any], Any]) -> float:
    try:
        value = parse(given)
    except (ValueError, TypeError, AttributeError):
        value = None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < inf:
        raise DefinitionError(
            f"`{name}` must be a positive limit, got {given!r}.", fix="write a positive number, '2GiB' or '30s'."
        )
    return value


UNPROTECTED: Final = Unprotected()
"""Pass it in place of a `Sandbox` to run commands without one."""
