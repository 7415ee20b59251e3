"""Keys: what may be said of a server in a file, in our words and in those of other programs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from surehand.core.facets import EFFECTS
from surehand.providers.mcp.written.written import (
    Reader,
    Written,
    bytes_of,
    duration,
    flag,
    number,
    one_of,
    text,
    texts,
    whole,
    words,
)


def _effects(given: Written) -> dict[str, list[str]]:
    """What tools do, by glob; one list is said of all of them."""
    if not isinstance(given.value, Mapping):
        return {"*": _of_effects(given)}
    return {glob: _of_effects(inside) for glob, inside in given.entries().items()}


def _of_effects(given: Written) -> list[str]:
    found = texts(given)
    if set(found) - EFFECTS:
        raise given.mistake("effects names something unknown.", f"use some of {', '.join(sorted(EFFECTS))}.")
    return found


def _cache(given: Written) -> float | None:
    """In the files of other programs, a bare number is milliseconds whatever the key looks like."""
    return duration(given, ms="mcp_servers" not in given.at)


def _caches(given: Written) -> dict[str, float | None]:
    return {glob: _cache(inside) for glob, inside in given.entries().items()}


def _file(given: Written) -> str | None:
    return None if given.value is False else text(given)


def _folder(given: Written) -> bool | str:
    return given.value if isinstance(given.value, bool) else text(given)


_LIMITS: Mapping[str, Reader] = {
    "network": flag, "env": words, "read": texts, "write": texts, "cpu": duration, "memory": bytes_of,
    "processes": whole,
}  # fmt: skip


def _sandbox(given: Written) -> bool | dict[str, Any]:
    if isinstance(given.value, bool):
        return given.value
    return {name: _LIMITS[name](inside) for name, inside in given.known(_LIMITS).items()}


def is_editors(sandbox: Written) -> bool:
    """Whether a sandbox is told in VS Code's words, of which ours knows none."""
    rules = sandbox.value
    return isinstance(rules, Mapping) and ("filesystem" in rules or isinstance(rules.get("network"), Mapping))


OPTIONS: Mapping[str, Reader] = {
    "namespace": text,
    "tools_allowed": texts,
    "tools_denied": texts,
    "timeout": duration,
    "total": duration,
    "start_timeout": duration,
    "required": flag,
    "per": one_of(user="user", session="session", everyone="everyone"),
    "idle": duration,
    "queue": text,
    "retries": number,
    "cache": _cache,
    "tools_cache": _caches,
    "probe": one_of(list="list", ping="ping", list_tools="list"),
    "probe_every": duration,
    "effects": _effects,
    "protocol": one_of(**{"auto": "auto", "legacy": "legacy", "2026-07-28": "2026-07-28"}),
    "lock": _file,
    "frozen": flag,
    "manifest": _folder,
    "sessions": whole,
}
"""What may be said of any server, and how it is read."""
IN_PYTHON = {"tools_allowed": "allow", "tools_denied": "deny"}
"""What an option is called there, where that is another word."""
LIMITS: Mapping[str, Reader] = {"sandbox": _sandbox, "max_frame": bytes_of}
"""What may be said of a way to a server."""
COMMAND = ("command", "args", "env", "env_file", "cwd", "sandbox")
"""Said of servers that are started here."""
URL = ("url", "headers", "auth")
"""Said of servers that are reached over the network."""
KEYS = ("type", *COMMAND, *URL, "max_frame", *OPTIONS, "enabled", "shared")
"""All that our own files say."""
SWITCHES = ("disabled", "tool_prefix", "name", "bearer_token_env_var")
"""Further keys of other programs, which mean something here."""
NOTED = {
    "auto_approve": "what may run without being asked about is decided by policy",
    "tool_schemas": "schemas are the server's own",
    "sandbox_enabled": "it is run without a sandbox, unless `sandbox` says `true`, or in our words what it may reach",
    "headers_helper": "no program is run for headers; write them, with ${NAME} for what is secret",
    "env_http_headers": "write them under `headers`, as ${NAME}",
    "env_vars": "write them under `env`, as ${NAME}",
    "auth_provider_type": "`auth` says how to sign in",
}
"""Keys that are left out, and why."""
NOTED_OF_AUTH = {"auth_server_metadata_url": "where to sign in is asked of the server; `issuer` says who it must be"}
"""The same of `auth`."""
SILENT = (
    "description", "version", "gallery", "dev", "source", "icon", "always_load", "watch_paths", "settings",
    "target_audience", "target_service_account",
)  # fmt: skip
"""Keys that are left out: an editor's own affairs."""
OTHERS = {
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
FURTHER = (*SWITCHES, *NOTED, *SILENT)
