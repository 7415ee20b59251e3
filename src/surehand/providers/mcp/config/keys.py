"""Keys: what may be said of a server in a file, in our words and in those of other programs."""

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
    """What tools do, by glob; one list is said of all of them."""
    if not isinstance(node.value, Mapping):
        return {"*": _parse_effect_names(node)}
    return {glob: _parse_effect_names(inside) for glob, inside in node.entries().items()}


def _parse_effect_names(node: FileNode) -> list[str]:
    found = read_texts(node)
    if set(found) - EFFECTS:
        raise node.error("effects names something unknown.", f"use some of {', '.join(sorted(EFFECTS))}.")
    return found


def _parse_cache_seconds(node: FileNode) -> float | None:
    """In the files of other programs, a bare number is milliseconds whatever the key looks like."""
    return read_duration(node, is_milliseconds="mcp_servers" not in node.key_path)


def _parse_tools_cache(node: FileNode) -> dict[str, float | None]:
    return {glob: _parse_cache_seconds(inside) for glob, inside in node.entries().items()}


def _parse_lock_path(node: FileNode) -> str | None:
    return None if node.value is False else read_text(node)


def _parse_manifest_folder(node: FileNode) -> bool | str:
    return node.value if isinstance(node.value, bool) else read_text(node)


_SANDBOX_PARSERS: Mapping[str, NodeParser] = {
    "network": read_flag, "env": read_text_mapping, "read": read_texts, "write": read_texts, "cpu": read_duration, "memory": read_size,
    "processes": read_positive_integer,
}  # fmt: skip


def _parse_sandbox(node: FileNode) -> bool | dict[str, Any]:
    if isinstance(node.value, bool):
        return node.value
    return {name: _SANDBOX_PARSERS[name](inside) for name, inside in node.known_entries(_SANDBOX_PARSERS).items()}


def is_editor_sandbox(node: FileNode) -> bool:
    """Whether a sandbox is told in VS Code's words, of which ours knows none."""
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
}
"""What may be said of any server, and how it is read."""
PYTHON_OPTION_NAMES = {"tools_allowed": "allow", "tools_denied": "deny"}
"""What an option is called there, where that is another word."""
CONNECTION_OPTION_PARSERS: Mapping[str, NodeParser] = {"sandbox": _parse_sandbox, "max_frame": read_size}
"""What may be said of a way to a server."""
COMMAND_KEYS = ("command", "args", "env", "env_file", "cwd", "sandbox")
"""Said of servers that are started here."""
URL_KEYS = ("url", "headers", "auth")
"""Said of servers that are reached over the network."""
DOCUMENTED_KEYS = ("type", *COMMAND_KEYS, *URL_KEYS, "max_frame", *OPTION_PARSERS, "enabled", "shared")
"""All that our own files say."""
FOREIGN_KEYS = ("disabled", "tool_prefix", "name", "bearer_token_env_var")
"""Further keys of other programs, which mean something here."""
REPORTED_IGNORED_KEYS = {
    "auto_approve": "what may run without being asked about is decided by policy",
    "tool_schemas": "schemas are the server's own",
    "sandbox_enabled": "it is run without a sandbox, unless `sandbox` says `true`, or in our words what it may reach",
    "headers_helper": "no program is run for headers; write them, with ${NAME} for what is secret",
    "env_http_headers": "write them under `headers`, as ${NAME}",
    "env_vars": "write them under `env`, as ${NAME}",
    "auth_provider_type": "`auth` says how to sign in",
}
"""Keys that are left out, and why."""
REPORTED_IGNORED_AUTH_KEYS = {
    "auth_server_metadata_url": "where to sign in is asked of the server; `issuer` says who it must be"
}
"""The same of `auth`."""
SILENTLY_IGNORED_KEYS = (
    "description", "version", "gallery", "dev", "source", "icon", "always_load", "watch_paths", "settings",
    "target_audience", "target_service_account",
)  # fmt: skip
"""Keys that are left out: an editor's own affairs."""
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
"""Other words for the same."""
UNDOCUMENTED_KEYS = (*FOREIGN_KEYS, *REPORTED_IGNORED_KEYS, *SILENTLY_IGNORED_KEYS)
