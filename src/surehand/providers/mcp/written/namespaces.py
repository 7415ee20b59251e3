"""Namespaces: what tools' names begin with, for servers that other programs let be called anything."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256

from surehand.core.names import NAMESPACE_SEPARATOR, is_legal_name, sanitize_name
from surehand.providers.mcp.addresses.label import to_namespace


def unique_namespaces(names: Iterable[str]) -> dict[str, str]:
    """One for each name: itself if it can be one, else the nearest that can; where that is taken, with a hash."""
    given = list(names)
    found = {name: name for name in given if _is_valid_namespace(name)}
    taken = set(found)
    for name in given:
        if name not in found:
            found[name] = near if (near := nearest_namespace(name)) not in taken else f"{near}_{_hash_suffix(name)}"
            taken.add(found[name])
    return found


def nearest_namespace(name: str) -> str:
    """`awslabs.core-mcp-server` as `awslabs_core-mcp-server`."""
    return name if _is_valid_namespace(name) else to_namespace(sanitize_name(name))


def _is_valid_namespace(name: str) -> bool:
    return is_legal_name(name) and NAMESPACE_SEPARATOR not in f"{name}_"


def _hash_suffix(name: str) -> str:
    return sha256(name.encode(errors="surrogatepass")).hexdigest()[:8]
