"""WorkspaceRoot: one directory of a workspace, held open. Files of the workspace are opened beneath its descriptor."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from surehand.core.errors import Unavailable


@dataclass(frozen=True, slots=True)
class WorkspaceRoot:
    """One directory of a workspace. A sandbox mounts it as it is (`path`, `writable`, `descriptor`)."""

    path: Path
    writable: bool
    open_descriptors: list[int]
    """The one descriptor of the directory; empty once the workspace is closed."""
    alias_parts: tuple[tuple[str, ...], ...]
    """The parts of its absolute paths: as configured, and with links resolved."""
    display_prefix: str = ""
    """Prefix of its paths as models see them; empty for the main root."""

    @property
    def descriptor(self) -> int:
        """The descriptor that all files of this root are opened beneath."""
        # A closed descriptor's number is soon another file's, so it must never be handed out again.
        if not self.open_descriptors:
            raise Unavailable("The workspace is closed.")
        return self.open_descriptors[0]
