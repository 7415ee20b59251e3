"""The key `http` of `rest_tools` and `openapi`: settings of the HTTP client, which `surehand.assemble` gives to it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from surehand.config.node import ConfigNode
from surehand.config.parsers import (
    known_entries,
    or_off,
    read_count,
    read_duration,
    read_flag,
    read_number,
    read_positive_integer,
    read_size,
    read_text,
    read_texts,
)

CA_FILE = "ca_file"
"""A file with certificates of authorities that are trusted beside those of the system."""


def read_ports(node: ConfigNode) -> Any:
    """Ports that may be reached, or `any`."""
    if node.value == "any":
        return "any"
    return [read_positive_integer(item) for item in node.items("write [80, 443], or any.")]


def read_allow_private(node: ConfigNode) -> Any:
    """Whether private addresses may be reached, or which ones."""
    return node.value if isinstance(node.value, bool) else read_texts(node)


_READERS: Mapping[str, Callable[[ConfigNode], Any]] = {
    "allow_private": read_allow_private,
    "allow_hosts": read_texts,
    "deny_hosts": read_texts,
    "ports": read_ports,
    "allow_downgrade": read_flag,
    "max_bytes": or_off(read_size),
    "max_ratio": read_number,
    "max_header_bytes": read_size,
    "max_redirects": read_count,
    "max_connections": read_positive_integer,
    "user_agent": read_text,
    CA_FILE: read_text,
}
_TIMES = ("timeout", "connect_timeout", "read_timeout")
HTTP_KEYS = (*_READERS, *_TIMES)


def read_http_options(node: ConfigNode, *, is_milliseconds: bool | None = None) -> dict[str, Any]:
    """The settings, with the path of `ca_file` as it is written.

    Args:
        is_milliseconds: the unit of times without one; by default milliseconds under a camelCase key.
    """
    options: dict[str, Any] = {}
    for name, entry in known_entries(node, HTTP_KEYS).items():
        if name == "timeout":
            options[name] = or_off(lambda each: read_duration(each, is_milliseconds=is_milliseconds))(entry)
        elif name in _TIMES:
            options[name] = read_duration(entry, is_milliseconds=is_milliseconds)
        else:
            options[name] = _READERS[name](entry)
    return options
