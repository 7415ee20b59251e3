"""Sandbox: what a child process may see, reach and use up."""

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
"""Inside a sandbox: private, and gone with the command."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceLimits:
    """What a child process finds in its environment, and how much it may use up."""

    env: Mapping[str, str] = field(default_factory=dict)
    """Environment variables; nothing else is taken over from the host's."""
    cpu: float | str = 600.0
    """Processor seconds that one process may use."""
    memory: float | str = 4 << 30
    """Bytes that one process may allocate."""
    file_size: float | str = 2 << 30
    """Bytes that one file may grow to."""
    open_files: float = 4096
    processes: int = 512
    """Processes and threads that a command may have at once."""
    _may_be_infinite: ClassVar[frozenset[str]] = frozenset()

    def __post_init__(self) -> None:
        change = object.__setattr__
        change(self, "env", {name: _validate_variable(name, value) for name, value in self.env.items()})
        for name, read in _LIMIT_PARSERS.items():
            given = getattr(self, name)
            if given is not inf or name not in self._may_be_infinite:
                value = _parse_limit(name, given, read)
                change(self, name, value if name == "cpu" else int(value))

    @property
    def rlimits(self) -> dict[str, int]:
        """Each limit by its name in the kernel, and no more than this process has: it could not give more away."""
        given: dict[str, Any] = {"CORE": 0, "CPU": max(self.cpu, 1), "DATA": self.memory, "FSIZE": self.file_size}
        given |= {"NOFILE": self.open_files, "NPROC": self.processes}
        return {name: _cap_to_hard_limit(name, int(limit)) for name, limit in given.items() if limit is not inf}


@dataclass(frozen=True, slots=True, kw_only=True)
class Sandbox(ResourceLimits):
    """A jail for commands: the system to read, the given folders, and nothing else of the machine."""

    network: bool = False
    """Whether the host's network is shared. Then sockets of the UNIX kind are refused, for some lead to the host."""
    read: Sequence[PathArgument] = ()
    """Further files and folders of the host to be seen, at their own paths."""
    write: Sequence[PathArgument] = ()
    """Further folders of the host to be written to, at their own paths."""
    temporary: int | str = 1 << 30
    """Bytes that /tmp, which is private and kept in memory, may hold."""

    def __post_init__(self) -> None:
        ResourceLimits.__post_init__(self)  # `super` does not find its class where there are slots
        change = object.__setattr__
        change(self, "read", tuple(_existing_path(given) for given in _validate_path_list(self.read, "read")))
        change(self, "write", tuple(_existing_path(given) for given in _validate_path_list(self.write, "write")))
        change(self, "temporary", int(_parse_limit("temporary", self.temporary, parse_size)))

    @property
    def environment(self) -> dict[str, str]:
        """All that a command finds in its environment."""
        return {"PATH": DEFAULT_SEARCH_PATH, "HOME": SANDBOX_HOME, "LANG": "C.UTF-8", "TMPDIR": "/tmp", **self.env}


@dataclass(frozen=True, slots=True, kw_only=True)
class Unprotected(ResourceLimits):
    """No jail: commands may do all that this process may. Limits hold, and what they start ends with them.

    Only a jail keeps a command from harming whoever looks after it. Limits other than that on processes may be
    `math.inf`: then a command has what this process has, as suits one that stays.
    """

    _may_be_infinite: ClassVar[frozenset[str]] = frozenset({"cpu", "memory", "file_size", "open_files"})

    @property
    def environment(self) -> dict[str, str]:
        """All that a command finds in its environment."""
        path, home = os.environ.get("PATH", DEFAULT_SEARCH_PATH), os.path.expanduser("~")
        return {"PATH": path, "HOME": home, "LANG": "C.UTF-8", "TMPDIR": gettempdir(), **self.env}


def _cap_to_hard_limit(name: str, limit: int) -> int:
    hard = resource.getrlimit(getattr(resource, f"RLIMIT_{name}"))[1]
    return limit if hard == resource.RLIM_INFINITY else min(limit, hard)


def _validate_path_list(given: Any, name: str) -> Sequence[PathArgument]:
    if isinstance(given, (str, PathLike)):
        raise DefinitionError(f"{name}={given!r} is one path.", fix=f"give a list: {name}=[{str(given)!r}].")
    return tuple(given)


def _existing_path(given: PathArgument) -> Path:
    path = Path(given).expanduser().absolute()
    if not path.exists():
        raise DefinitionError(f"A sandbox cannot show {path}: there is no such path.", fix="name one that exists.")
    return path


def _validate_variable(name: str, value: Any) -> str:
    if not name or "=" in name or "\0" in name or not isinstance(value, str) or "\0" in value:
        raise DefinitionError(f"{name!r} is no environment variable.", fix="give names and values as text.")
    return value


def _parse_limit(name: str, given: Any, parse: Callable[[Any], Any]) -> float:
    try:
        value = parse(given)
    except (ValueError, TypeError, AttributeError):
        value = None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < inf:
        raise DefinitionError(
            f"{name}={given!r} is no limit.", fix="give a number above zero, or such as '2GiB', '30s'."
        )
    return value


UNPROTECTED: Final = Unprotected()
"""In place of a `Sandbox`: run commands without one."""
