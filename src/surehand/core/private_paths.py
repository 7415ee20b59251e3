"""The paths of this process that no tool and no command may read or change: its stores, and folders with secrets.

A runtime and its store register here, a workspace and a sandbox look here. One set serves the whole process, because a
workspace is often opened before the runtime that knows the store, and every workspace has to protect every store.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from surehand.core.links import links_on_path

STORE_FILE_SUFFIXES = ("-journal", "-wal", "-shm")
"""Files that SQLite writes beside a database, and reads when it opens the database."""
OWNERS_FOLDER_SUFFIX = "-owners"
"""The folder beside a database with the locks of the runtimes that use it."""
_NOT_A_FILE = ("://", ":memory:")


class PrivatePaths:
    """Files of stores, and folders, by their real paths."""

    def __init__(self) -> None:
        self.stores: set[Path] = set()
        """SQLite databases. Names that begin with theirs and a dash are private too."""
        self.store_links: set[Path] = set()
        """Links on the paths of stores: what replaces one replaces the store when it is opened the next time."""
        self._folders: set[Path] = set()
        self.on_new_store: list[Callable[[Path], None]] = []
        """Called with the path of a store before it is opened for the first time."""

    def add_store(self, address: str | os.PathLike[str]) -> None:
        """Make a store's files private; an address of a server, or in memory, has none."""
        text = os.fspath(address)
        if any(mark in text for mark in _NOT_A_FILE):
            return
        self.store_links |= links_on_path(text)
        store = Path(os.path.realpath(text))
        if store not in self.stores:
            self.stores.add(store)
            for callback in self.on_new_store:
                callback(store)

    def add_folder(self, folder: Path) -> None:
        """Make a folder private, with everything that is or will be in it."""
        self._folders.add(Path(os.path.realpath(folder)))

    @property
    def folders(self) -> set[Path]:
        """Private folders, among them the one in which the tokens of signed-in people are."""
        return {*self._folders, Path(os.path.realpath(state_folder()))}

    def stores_below(self, folder: Path) -> list[Path]:
        """The stores in a folder or below it."""
        return sorted(store for store in self.stores if folder in store.parents)

    def store_links_below(self, folder: Path) -> list[Path]:
        """The links in a folder or below it that lead to a store."""
        return sorted(link for link in self.store_links if folder in link.parents)

    def folders_below(self, folder: Path) -> list[Path]:
        """The private folders below a folder."""
        return sorted(private for private in self.folders if folder in private.parents)


PRIVATE_PATHS = PrivatePaths()
"""The private paths of this process."""


def state_folder() -> Path:
    """The folder for data that cannot be obtained again without a person: `SUREHAND_STATE`, or as XDG says."""
    if configured := os.environ.get("SUREHAND_STATE"):
        return Path(configured).expanduser()
    xdg_state = os.environ.get("XDG_STATE_HOME", "")
    base = Path(xdg_state) if os.path.isabs(xdg_state) else Path(os.path.expanduser("~"), ".local", "state")
    return base / "surehand"


def is_store_file(path: Path, store: Path) -> bool:
    """Whether a path is a store, a file beside it such as `calls.db-wal`, or in a folder such as `calls.db-owners`."""
    depth = len(store.parts)
    if len(path.parts) < depth or path.parts[: depth - 1] != store.parts[:-1]:
        return False
    # Some file systems take upper and lower case for the same.
    name = path.parts[depth - 1].casefold()
    store_name = store.name.casefold()
    return name == store_name or name.startswith(f"{store_name}-")
