"""Addresses of stores, as people write them: a file, or a PostgreSQL server."""

from __future__ import annotations

import re
from pathlib import Path

IN_MEMORY_ADDRESS = ":memory:"
_SERVER_SCHEMES = ("postgresql://", "postgres://")
_PASSWORD = re.compile(r"(?<=://)([^:@/?]*):.*@|(?<=password=)[^&\s]*")


def is_server_address(address: str) -> bool:
    """Whether the address is that of a server, and not a file's."""
    return address.startswith(_SERVER_SCHEMES)


def resolve_store_address(text: str, folder: Path) -> str:
    """The address that a text means in a folder; a ValueError for what is no address of a store."""
    if is_server_address(text) or text == IN_MEMORY_ADDRESS:
        return text
    if "://" in text or not text.strip():
        raise ValueError("A store is a file, or a postgresql:// address.")
    return str((folder / Path(text).expanduser()).resolve())


def hide_password(address: str) -> str:
    """The address as it may be shown."""
    return _PASSWORD.sub(lambda found: "***" if found[1] is None else f"{found[1]}:***@", address)
