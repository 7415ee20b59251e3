"""Jail: what a sandbox shows, and a command line that runs a program in it."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, Self


class BindMount(Protocol):
    """A folder to show at its own path; a workspace's roots are such."""

    @property
    def path(self) -> Path: ...
    @property
    def writable(self) -> bool: ...
    @property
    def descriptor(self) -> int | None:
        """The folder, open: then nobody can put another one in its place."""
        ...


@dataclass(frozen=True, slots=True)
class PathMount:
    """A path of the host to show at its own path."""

    path: Path
    writable: bool = False
    descriptor: int | None = None
    hidden: bool = False
    """Something is there, and nobody can read it."""


@dataclass(slots=True)
class SandboxCommandLine:
    """A command line that runs a program inside a sandbox, and the descriptors that it needs.

    Close it once the process is started: the process has descriptors of its own by then.
    """

    argv: list[str] = field(default_factory=list)
    pass_fds: tuple[int, ...] = ()
    _owned_descriptors: list[int] = field(default_factory=list)

    def close(self) -> None:
        """Let go of the descriptors."""
        while self._owned_descriptors:
            os.close(self._owned_descriptors.pop())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def descriptor_with(self, content: str | bytes) -> int:
        """A descriptor that bubblewrap reads this from."""
        descriptor = os.memfd_create("sandbox")
        self._owned_descriptors.append(descriptor)
        self.pass_fds += (descriptor,)
        os.write(descriptor, os.fsencode(content))
        os.lseek(descriptor, 0, os.SEEK_SET)
        return descriptor

    def descriptor_of(self, mount: BindMount) -> int:
        """A descriptor of what is to be shown: a path could lead elsewhere by the time that it is bound."""
        if (descriptor := mount.descriptor) is None:
            descriptor = os.open(mount.path, os.O_PATH | os.O_CLOEXEC)
            self._owned_descriptors.append(descriptor)
        self.pass_fds += (descriptor,)
        return descriptor
