"""The symbolic links on a path. Whoever replaces one of them replaces what the path leads to."""

from __future__ import annotations

import os
from pathlib import Path


def links_on_path(path: str | os.PathLike[str]) -> set[Path]:
    """All links that are followed on the way to a file, each by the real path of its folder."""
    links: set[Path] = set()
    waiting = [Path(os.path.abspath(path))]
    while waiting:
        step = waiting.pop()
        for entry in (step, *step.parents):
            link = Path(os.path.realpath(entry.parent), entry.name)
            if link not in links and link.is_symlink():
                links.add(link)
                waiting.append(Path(os.path.normpath(link.parent / os.readlink(link))))
    return links
