"""The keys of a server entry: our own, their aliases in the files of other programs, and the ones that are ignored."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from surehand.core.facets import EFFECTS
from surehand.providers.mcp.config.values import (
    FileNode,
    NodeParser,
    choice_parser,
    read_duration,
    read_flag,
    read_non_negative_integer,
    read_positive_integer,
    read_size,
    read_text,
    read_text_mapping,
    read_texts,
)


def _parse_effects(node: FileNode) -> dict[str, list[str]]:
    """Effects by glob of tool names; a plain list applies to all tools."""
    if not isinstance(node.value, Mapping):
        return {"*": _parse_effect_names(node)}
    return {glob: _parse_effect_names(child) for glob, child in node.entries().items()}


def _parse_effect_names(node: FileNode) -> list[str]:
    names = read_texts(node)
    if set(names) - EFFECTS:
        raise node.error("effects has an unknown effect.", f"use some of {', '.join(sorted(EFFECTS))}.")
    return names


def _parse_cache_seconds(node: FileNode) -> float | None:
    """How long to cache; a bare number is seconds in our own files, and milliseconds in those of other programs."""
    return read_duration(node, is_milliseconds="mcp_servers" not in node.key_path)


def _parse_tools_cache(node: FileNode) -> dict[str, float | None]:
    return {glob: _parse_cache_seconds(child) for glob, child in node.entries().items()}


def _parse_lock_path(node: FileNode) -> str | None:
    return None if node.value is False else read_text(node)


def _parse_manifest_folder(node: FileNode) -> bool | str:
    return node.value if isinstance(node.value, bool) else read_text(node)


_SANDBOX_PARSERS: Mapping[str, NodeParser] = {
    "network": read_flag,
    "env": read_text_mapping,
    "read": read_texts,
    "write": read_texts,
    "cpu": read_duration,
    "memory": read_size,
    "processes": read_positive_integer,
}


def _parse_sandbox(node: FileNode) -> bool | dict[str, Any]:
    if isinstance(node.value, bool):
        return node.value
    return {name: _SANDBOX_PARSERS[name](child) for name, child in node.known_entries(_SANDBOX_PARSERS).items()}


def is_editor_sandbox(node: FileNode) -> bool:
    """Whether a sandbox has the form of VS Code, which is not supported."""
    rules = node.value
    return isinstance(rules, Mapping) and ("filesystem" in rules or isinstance(rules.get("network"), Mapping))


OPTION_PARSERS: Mapping[str, NodeParser] = {
    "namespace": read_text,
    "tools_allowed": read_texts,
    "tools_denied": read_texts,
    "timeout": read_duration,
    "total": read_duration,
    "start_timeout": read_duration,
    "required": read_flag,
    "per": choice_parser(user="user", session="session", everyone="everyone"),
    "idle": read_duration,
    "queue": read_text,
    "retries": read_non_negative_integer,
    "cache": _parse_cache_seconds,
    "tools_cache": _parse_tools_cache,
    "probe": choice_parser(list="list", ping="ping", list_tools="list"),
    "probe_every": read_duration,
    "effects": _parse_effects,
    "protocol": choice_parser(**{"auto": "auto", "legacy": "legacy", "2026-07-28": "2026-07-28"}),
    "lock": _parse_lock_path,
    "frozen": read_flag,
    "manifest": _parse_manifest_folder,
    "sessions": read_positive_integer,
    "on_conflict": choice_parser(error="error", replace="replace", rename="rename"),
}
"""The options of every server."""
PYTHON_OPTION_NAMES = {"tools_allowed": "allow", "tools_denied": "deny"}
"""The keyword argument of an option, where it has another name than the key."""
CONNECTION_OPTION_PARSERS: Mapping[str, NodeParser] = {"sandbox": _parse_sandbox, "max_frame": read_size}
"""The options of the connection, which go to the address."""
COMMAND_KEYS = ("command", "args", "env", "env_file", "cwd", "sandbox")
"""Keys of servers that are started as a process."""
URL_KEYS = ("url", "headers", "auth")
"""Keys of servers that are reached over the network."""
DOCUMENTED_KEYS = ("type", *COMMAND_KEYS, *URL_KEYS, "max_frame", *OPTION_PARSERS, "enabled", "shared")
"""The keys of our own configuration files, which messages list."""
FOREIGN_KEYS = ("disabled", "tool_prefix", "name", "bearer_token_env_var")
"""Keys of other programs that are supported as well."""
REPORTED_IGNORED_KEYS = {
    "auto_approve": "what may run without being asked about is decided by policy",
    "tool_schemas": "schemas are the server's own",
    "sandbox_enabled": "the server runs without a sandbox, unless `sandbox` is `true` or lists what it may access",
    "headers_helper": "no program is run for headers; write them, with ${NAME} for secrets",
    "env_http_headers": "write them under `headers`, as ${NAME}",
    "env_vars": "write them under `env`, as ${NAME}",
    "auth_provider_type": "`auth` sets how to sign in",
}
"""Keys that are ignored with a note to the developer, and the reason."""
REPORTED_IGNORED_AUTH_KEYS = {
    "auth_server_metadata_url": "the server names its authorization server; `issuer` sets which one it must be"
}
"""Keys of `auth` that are ignored with a note."""
SILENTLY_IGNORED_KEYS = (
    "description", "version", "gallery", "dev", "source", "icon", "always_load", "watch_paths", "settings",
    "target_audience", "target_service_account",
)  # fmt: skip
"""Keys that are ignored without a note, because they concern the editor alone."""
KEY_ALIASES = {
    "transport": "type", "transport_type": "type", "environment": "env", "working_directory": "cwd",
    "server_url": "url", "http_url": "url", "http_headers": "headers", "oauth": "auth",
    "allow": "tools_allowed", "allowed_tools": "tools_allowed", "enabled_tools": "tools_allowed",
    "include_tools": "tools_allowed", "include": "tools_allowed", "tools": "tools_allowed",
    "deny": "tools_denied", "denied_tools": "tools_denied", "disabled_tools": "tools_denied",
    "exclude_tools": "tools_denied", "exclude": "tools_denied",
    "request_timeout": "timeout", "request_timeout_ms": "timeout", "tool_timeout": "timeout",
    "tool_timeout_ms": "timeout", "tool_timeout_sec": "timeout", "timeout_ms": "timeout",
    "startup_timeout": "start_timeout", "startup_timeout_sec": "start_timeout", "startup_timeout_ms": "start_timeout",
    "start_timeout_ms": "start_timeout", "cache_ms": "cache", "health_probe": "probe", "server_name": "name",
    "always_allow": "auto_approve", "trust": "auto_approve",
}  # fmt: skip
"""Our names for keys of other programs, in snake case."""
UNDOCUMENTED_KEYS = (*FOREIGN_KEYS, *REPORTED_IGNORED_KEYS, *SILENTLY_IGNORED_KEYS)
