"""The section `openapi`: OpenAPI documents whose operations are tools. `surehand.assemble` builds the providers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from surehand.config.http_options import read_http_options
from surehand.config.node import ConfigNode
from surehand.config.parsers import (
    known_entries,
    or_off,
    read_duration,
    read_flag,
    read_on_conflict,
    read_text,
    read_texts,
)

IMPORTED_METHODS = ("get", "post", "put", "patch", "delete", "head", "options", "trace", "query")


@dataclass(frozen=True, slots=True)
class OpenApiEntry:
    """One document of the section: its name there, and the keyword arguments of `openapi(...)`."""

    name: str
    node: ConfigNode
    document: str
    """A path relative to the file, or a URL."""
    options: Mapping[str, Any] = field(default_factory=dict, repr=False)
    lock: str | None = ""
    """A path; empty for the lock file beside the configuration, None for none."""


def parse_openapi(node: ConfigNode) -> tuple[OpenApiEntry, ...]:
    """Parse the section: entries by name, which is the namespace of the tools."""
    fix = "write petstore: {spec: petstore.yaml}."
    return tuple(_parse_entry(name, entry) for name, entry in node.entries(fix).items())


def _read_server(node: ConfigNode) -> str | dict[str, str]:
    if isinstance(node.value, str):
        return read_text(node)
    return {name: str(entry.value) for name, entry in node.entries("write an address, or {region: eu}.").items()}


def _read_mapping(node: ConfigNode) -> dict[str, Any]:
    node.entries("write {scheme: ${env.TOKEN}}.")
    return dict(node.value)


def _read_show(node: ConfigNode) -> str:
    if node.value not in ("all", "search", "auto"):
        raise node.error("show must be all, search or auto.")
    return str(node.value)


_READERS: dict[str, Callable[[ConfigNode], Any]] = {
    "namespace": read_text,
    "include": read_texts,
    "exclude": read_texts,
    "server": _read_server,
    "auth": _read_mapping,
    "given": _read_mapping,
    "show": _read_show,
    "queue": read_text,
    "timeout": or_off(read_duration),
    "required": read_flag,
    "on_conflict": read_on_conflict,
    "frozen": read_flag,
    "trusted_hosts": read_texts,
    "http": read_http_options,
}
_ALIASES = {
    "document": "spec",
    "url": "spec",
    "path": "spec",
    "base_url_override": "server",
    "base_url": "server",
    "tool_name_prefix": "namespace",
}
_SPEC_KEYS = ("spec", "lock", "include_methods", "tag_filter")


def _parse_entry(name: str, node: ConfigNode) -> OpenApiEntry:
    if isinstance(node.value, str):
        return OpenApiEntry(name, node, read_text(node))
    entries = known_entries(node, (*_SPEC_KEYS, *_READERS), aliases=_ALIASES)
    if "spec" not in entries:
        raise node.error(f"{name} has no document.", "write spec: petstore.yaml, or an address.")
    options = {key: _READERS[key](entry) for key, entry in entries.items() if key in _READERS}
    if "timeout" in options and options["timeout"] is None:
        options["timeout"] = "off"
    _add_filters(entries, options)
    lock = or_off(read_text)(entries["lock"]) if "lock" in entries else ""
    return OpenApiEntry(name, node, read_text(entries["spec"]), options, lock)


def _add_filters(entries: dict[str, ConfigNode], options: dict[str, Any]) -> None:
    """`include_methods` and `tag_filter` of other programs: an operation has to pass both."""
    if "tag_filter" in entries:
        options["include"] = [*options.get("include", ()), *(f"tag:{tag}" for tag in read_texts(entries["tag_filter"]))]
    if "include_methods" in entries:
        options["methods"] = methods = [method.lower() for method in read_texts(entries["include_methods"])]
        unknown = sorted(set(methods) - set(IMPORTED_METHODS))
        if unknown:
            raise entries["include_methods"].error(f"{unknown[0]} is no method.", "write [get, post].")
