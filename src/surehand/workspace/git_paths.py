"""The files of a git repository that make git run a program: hooks, settings, and pointers to other settings.

A person runs git in the workspace, with the rights of that person. `protected_paths` keeps tools from changing these
files, in the repository of each root, in its worktrees and submodules, and in repositories further below.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

_GIT = ".git"
_BARE_MARK = "HEAD"
"""A folder with this file, `objects` and `refs` is a repository without `.git`: git reads its settings from there."""
_PROTECTED_NAMES = ("hooks", "config", "config.worktree", "commondir", "modules", "worktrees")
"""What decides, in the folder of a repository, which programs git runs: also pointers and settings of worktrees and
submodules. `commondir` makes git read hooks and settings from another folder."""
_OPTIONAL_NAMES = ("hooks", "config.worktree", "commondir")
"""Files that a repository need not have, and that a command must not add."""
_GITDIR_PREFIX = b"gitdir:"
_MAX_POINTER_BYTES = 4096


def git_protected_paths(root: Path) -> Iterator[Path]:
    """The protected paths of the repository in a root and of its submodules; some need not exist."""
    pointer = root / _GIT
    yield from _paths_of_repository(pointer)
    if os.path.lexists(root / _BARE_MARK):
        yield from (root / name for name in _PROTECTED_NAMES)
    for submodule in _submodule_folders(root):
        yield from _paths_of_repository(submodule / _GIT)


def absent_git_paths(root: Path) -> Iterator[Path]:
    """Paths of git in a root that a command must not create: `.git` itself, or files that the repository lacks."""
    if not os.path.lexists(root / _BARE_MARK):
        yield root / _BARE_MARK
    else:
        yield from (path for name in _OPTIONAL_NAMES if not os.path.lexists(path := root / name))
    pointer = root / _GIT
    if not os.path.lexists(pointer):
        yield pointer
        return
    folder = pointer if pointer.is_dir() else _pointer_target(pointer)
    if folder is not None:
        yield from (path for name in _OPTIONAL_NAMES if not os.path.lexists(path := folder / name))


def _paths_of_repository(pointer: Path) -> Iterator[Path]:
    if pointer.is_symlink() or not pointer.is_dir():
        # In a worktree or submodule `.git` is a file that names the repository; a link could lead to another one.
        yield pointer
        target = _pointer_target(pointer)
        if target is not None:
            yield from (target / name for name in _PROTECTED_NAMES)
        return
    yield from (pointer / name for name in _PROTECTED_NAMES)


def _pointer_target(pointer: Path) -> Path | None:
    try:
        if pointer.is_dir():
            return pointer.resolve()
        with pointer.open("rb") as file:
            content = file.read(_MAX_POINTER_BYTES)
    except OSError:
        return None
    if not content.startswith(_GITDIR_PREFIX):
        return None
    text = content.removeprefix(_GITDIR_PREFIX).strip().decode(errors="surrogateescape")
    return (pointer.parent / text).resolve()


def _submodule_folders(root: Path) -> Iterator[Path]:
    """The folders of submodules, as `.gitmodules` names them; it is a file of the workspace, so it only adds some."""
    try:
        lines = (root / ".gitmodules").read_text(errors="replace").splitlines()
    except OSError:
        return
    for line in lines:
        key, _, value = line.partition("=")
        folder = root / value.strip()
        if key.strip() == "path" and root in folder.resolve().parents and (folder / _GIT).exists():
            yield folder


def refuses_git_path(path: Path, roots: Sequence[Path], *, creates: bool) -> bool:
    """Whether a path is, or would become, something that makes git run a program.

    In a root nothing may be created at `.git` that is not there. Further below, that holds for existing repositories.
    """
    if any(_makes_bare_repository(path, root, creates) for root in roots if root in path.parents):
        return True
    for number, part in enumerate(path.parts):
        if part.casefold() != _GIT:  # some file systems take `.GIT` for the same
            continue
        pointer = Path(*path.parts[: number + 1])
        below = path.parts[number + 1 :]
        exists = pointer.is_dir() and not pointer.is_symlink()
        if not exists:
            return pointer.exists() or pointer.is_symlink() or (creates and pointer.parent in roots)
        if below and below[0].casefold() in _PROTECTED_NAMES:
            return _is_repository(pointer) or pointer.parent in roots
    return False


def _makes_bare_repository(path: Path, root: Path, creates: bool) -> bool:
    """Whether a change would make the root itself a repository, or change the settings of one that it is."""
    name = path.relative_to(root).parts[0].casefold()
    if not os.path.lexists(root / _BARE_MARK):
        return creates and name == _BARE_MARK.casefold()
    return name in _PROTECTED_NAMES


def _is_repository(folder: Path) -> bool:
    return (folder / "HEAD").exists() or (folder / "commondir").exists()
