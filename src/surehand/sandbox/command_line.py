"""The paths that a sandbox mounts, and the bubblewrap command line with the descriptors that it needs."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, Self, runtime_checkable


class BindMount(Protocol):
    """A folder or file of the host to mount at its own path, such as a root of a workspace."""

    @property
    def path(self) -> Path: ...
    @property
    def writable(self) -> bool: ...
    @property
    def descriptor(self) -> int | None:
        """An open descriptor of the path. With it, the mount cannot be redirected by replacing the path."""
        ...


@runtime_checkable
class HideableMount(Protocol):
    """A mount that may be hidden: the path exists in the sandbox, but cannot be read."""

    @property
    def hidden(self) -> bool: ...


@dataclass(frozen=True, slots=True)
class PathMount:
    """A path of the host to mount at its own path."""

    path: Path
    writable: bool = False
    descriptor: int | None = None
    hidden: bool = False
    """Whether the path exists in the sandbox but cannot be read there."""


@dataclass(slots=True)
class SandboxCommandLine:
    """A command line that runs a program inside a sandbox, and the descriptors that it needs.

    Close it once the process has been started: the process has its own copies of the descriptors by then.
    """

    argv: list[str] = field(default_factory=list)
    pass_fds: tuple[int, ...] = ()
    writable_folders: tuple[Path, ...] = ()
    """Folders of the host that the program can write to, with links resolved."""
    end_callbacks: list[Callable[[], None]] = field(default_factory=list)
    """Called when the sandbox has ended; a caller that waits for that takes them away before it closes this."""
    _owned_descriptors: list[int] = field(default_factory=list)

    def close(self) -> None:
        """Close the descriptors that were opened for this command line."""
        while self.end_callbacks:
            self.end_callbacks.pop()()
        while self._owned_descriptors:
            os.close(self._owned_descriptors.pop())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def descriptor_with(self, content: str | bytes) -> int:
        """Open an in-memory file with this content, for bubblewrap to read."""
        # A memfd instead of a pipe: a pipe would block at 64 KiB, because bubblewrap reads only once it has started.
        descriptor = os.memfd_create("sandbox")
        self._owned_descriptors.append(descriptor)
        self.pass_fds += (descriptor,)
        os.write(descriptor, os.fsencode(content))
        os.lseek(descriptor, 0, os.SEEK_SET)
        return descriptor

    def descriptor_of(self, mount: BindMount) -> int:
        """A descriptor of the mounted path: the path itself could be replaced before bubblewrap mounts it."""
        descriptor = mount.descriptor
        if descriptor is None:
            descriptor = os.open(mount.path, os.O_PATH | os.O_CLOEXEC)
            self._owned_descriptors.append(descriptor)
        self.pass_fds += (descriptor,)
        return descriptor
