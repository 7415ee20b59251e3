"""Addresses of stores, as people write them: a file, or a PostgreSQL server."""

from __future__ import annotations

import re
from pathlib import Path

IN_MEMORY = ":memory:"
_SERVERS = ("postgresql://", "postgres://")
_PASSWORD = re.compile(r"(?<=://)([^:@/?]*):.*@|(?<=password=)[^&\s]*")


def is_server(address: str) -> bool:
    """Whether the address is that of a server, and not a file's."""
    return address.startswith(_SERVERS)


def store_address(text: str, folder: Path) -> str:
    """The address that a text means in a folder; a ValueError for what is no address of a store."""
    if is_server(text) or text == IN_MEMORY:
        return text
    if "://" in text or not text.strip():
        raise ValueError("A store is a file, or a postgresql:// address.")
    return str((folder / Path(text).expanduser()).resolve())


def without_password(address: str) -> str:
    """The address as it may be shown."""
    return _PASSWORD.sub(lambda found: "***" if found[1] is None else f"{found[1]}:***@", address)
