"""Addresses of stores in the configuration and on the command line: a file, or a PostgreSQL server."""

from __future__ import annotations

import re
from pathlib import Path

IN_MEMORY_ADDRESS = ":memory:"
_SERVER_SCHEMES = ("postgresql://", "postgres://")
_PASSWORD = re.compile(r"(?<=://)([^:@/?]*):.*@|(?<=password=)[^&\s]*")


def is_server_address(address: str) -> bool:
    """Whether an address names a server and not a file."""
    return address.startswith(_SERVER_SCHEMES)


def resolve_store_address(text: str, folder: Path) -> str:
    """Resolve an address relative to a folder; raises `ValueError` if it is not an address of a store."""
    if is_server_address(text) or text == IN_MEMORY_ADDRESS:
        return text
    if "://" in text or not text.strip():
        raise ValueError("A store must be a file or a postgresql:// address.")
    return str((folder / Path(text).expanduser()).resolve())


def hide_password(address: str) -> str:
    """The address with its password replaced by `***`."""
    return _PASSWORD.sub(lambda match: "***" if match[1] is None else f"{match[1]}:***@", address)
