"""The mounts that hide this process's own stores and secrets from a sandbox, whatever folders the sandbox shows.

`bubblewrap` adds them to every command line. A mask is a mount over a name, so the files of a store are first created,
and kept in their place; see `kept_files`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from surehand.core.errors import NotStarted
from surehand.core.private_paths import OWNERS_FOLDER_SUFFIX, PRIVATE_PATHS, STORE_FILE_SUFFIXES
from surehand.sandbox.command_line import BindMount, PathMount, SandboxCommandLine
from surehand.store.errors import StoreUnavailable


def private_mounts(mounts: Sequence[BindMount], command_line: SandboxCommandLine) -> list[PathMount]:
    """The masks of private paths below the mounted folders, and the folders around them as mounts of their own.

    The files of a store are kept in their place until the sandbox has ended.

    A mount point cannot be renamed: a command cannot move the folder around a store away and put another in its place.
    """
    added: dict[Path, PathMount] = {}
    mounted = {mount.path for mount in mounts}
    for mount in mounts:
        real_path = Path(os.path.realpath(mount.path))
        if mount.writable:
            _refuse_store_links(real_path)
        for private_path in _existing_private_paths(real_path, command_line if mount.writable else None):
            path = mount.path / private_path.relative_to(real_path)
            if path in mounted:
                continue
            added[path] = PathMount(path, hidden=True)
            for folder in _folders_around(path, mounts):
                added.setdefault(folder, PathMount(folder, writable=True))
    return list(added.values())


def _refuse_store_links(folder: Path) -> None:
    """Refuse a folder with a link to a store: no mount can keep a link, and a command could replace it."""
    if links := PRIVATE_PATHS.store_links_below(folder):
        problem = f"the store of this program is reached by the link {links[0]}, which a command could replace"
        raise NotStarted(f"No command can run here: {problem}. Its developer has to name the real path of the store.")


def _existing_private_paths(folder: Path, command_line: SandboxCommandLine | None) -> Iterable[Path]:
    """The private paths below a folder; missing ones are created if the sandbox, of this command line, could do so."""
    for store in PRIVATE_PATHS.stores_below(folder):
        yield from _store_files(store) if command_line is None else _keep_store_files(store, command_line)
    for private_folder in PRIVATE_PATHS.folders_below(folder):
        if command_line is not None:
            private_folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if private_folder.is_dir():
            yield private_folder


def _keep_store_files(store: Path, command_line: SandboxCommandLine) -> list[Path]:
    from surehand.store.sqlite.kept_files import keep_store_files  # keeps sqlite3 off the import path

    try:
        files, release = keep_store_files(store)
    except StoreUnavailable as error:
        raise NotStarted(f"No command can run beside this store: {error}") from error
    command_line.end_callbacks.append(release)
    return files


def _store_files(store: Path) -> list[Path]:
    names = [store.name, *(store.name + suffix for suffix in (*STORE_FILE_SUFFIXES, OWNERS_FOLDER_SUFFIX))]
    return [path for name in names if (path := store.with_name(name)).exists()]


def _folders_around(path: Path, mounts: Sequence[BindMount]) -> list[Path]:
    """The folders between a path and the innermost mount that contains it, if that mount is writable."""
    containing = [mount for mount in mounts if mount.path in path.parents]
    innermost = max(containing, key=lambda mount: (len(mount.path.parts), not mount.writable))
    if not innermost.writable:
        return []
    return [folder for folder in path.parents if innermost.path in folder.parents]
