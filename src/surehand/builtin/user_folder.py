"""Where the files of one user lie beneath a folder that several users share, for `memory` and `sessions`."""

from __future__ import annotations

import re
from hashlib import sha256
from pathlib import Path

USERS_FOLDER = ".users"
"""Its name begins with a dot, so that no path that a model may write leads into it."""
_MAX_READABLE_LENGTH = 40
_NOT_READABLE = re.compile(r"[^a-z0-9]+")


def user_folder(folder: Path, user: str | None) -> Path:
    """The folder of a user; without a user, the shared folder itself."""
    if user is None:
        return folder
    # The digest keeps users apart whose names differ only in letters that a file system would take for the same.
    digest = sha256(user.encode(errors="surrogatepass")).hexdigest()[:16]
    readable = _NOT_READABLE.sub("-", user.lower())[:_MAX_READABLE_LENGTH].strip("-")
    return folder / USERS_FOLDER / f"{readable or 'user'}-{digest}"
