"""`ServerEntry`: one server of a configuration file, validated, with our names for the keys of other programs.

Its texts still hold `${NAME}` references; `DeferredAddress` substitutes them when the server is used.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias, cast

from surehand.core.json_with_comments import JsonPath
from surehand.core.names import is_legal_name
from surehand.providers.mcp.config.keys import (
    COMMAND_KEYS,
    CONNECTION_OPTION_PARSERS,
    DOCUMENTED_KEYS,
    KEY_ALIASES,
    OPTION_PARSERS,
    PYTHON_OPTION_NAMES,
    REPORTED_IGNORED_AUTH_KEYS,
    REPORTED_IGNORED_KEYS,
    UNDOCUMENTED_KEYS,
    URL_KEYS,
    is_editor_sandbox,
)
from surehand.providers.mcp.config.values import (
    FileNode,
    choice_parser,
    read_flag,
    read_positive_integer,
    read_scalar_text,
    read_text,
    read_text_mapping,
    read_texts,
    to_snake_case,
)

TransportType: TypeAlias = Literal["stdio", "http", "sse", "websocket"]
NodesByKey: TypeAlias = Mapping[str, FileNode]


@dataclass(frozen=True, slots=True)
class ServerEntry:
    """One server: how it is reached, and its options."""

    name: str
    transport_type: TransportType
    key_path: JsonPath = ()
    """The keys that lead to the entry in its file."""
    command: str = ""
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    env_file: str | None = None
    cwd: str | None = None
    url: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    auth: Mapping[str, Any] | None = None
    connection_options: Mapping[str, Any] = field(default_factory=dict)
    """`sandbox` and `max_frame`."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """The keyword options of `mcp.stdio` and `mcp.http`."""
    enabled: bool = True
    has_address: bool = True
    """False for an entry of options alone, which says nothing of how the server is reached; it is not enabled."""
    ignored_key_notes: tuple[str, ...] = ()
    """Which keys of another program are ignored, and why."""

    def texts_with_variables(self) -> Iterator[str]:
        """Every text in which `${NAME}` is substituted."""
        yield from (self.command, *self.args, *self.env.values(), self.url, *self.headers.values())
        yield from (path for path in (self.cwd, self.env_file) if path)
        yield from (value for value in (self.auth or {}).values() if isinstance(value, str))


def parse_server_entry(name: str, node: FileNode, default_namespace: str) -> ServerEntry:
    """Parse one server; a plain text is a command or a URL. Raises `FileNodeError`."""
    if isinstance(node.value, str):
        key = "url" if "://" in node.value.split(" ")[0] else "command"
        node = FileNode({key: node.value}, node.key_path)
    nodes, notes = _split_ignored_keys(node.known_entries(DOCUMENTED_KEYS, KEY_ALIASES, UNDOCUMENTED_KEYS))
    has_options = any(key in nodes for key in OPTION_PARSERS)
    has_address = not has_options or any(key in nodes for key in ("type", *COMMAND_KEYS, *URL_KEYS))
    transport_type = _transport_type(name, nodes, node) if has_address else "stdio"
    options = {
        PYTHON_OPTION_NAMES.get(key, key): OPTION_PARSERS[key](child)
        for key, child in nodes.items()
        if key in OPTION_PARSERS
    }
    connection_options = {
        key: CONNECTION_OPTION_PARSERS[key](child) for key, child in nodes.items() if key in CONNECTION_OPTION_PARSERS
    }
    return ServerEntry(
        name,
        transport_type,
        node.key_path,
        **_address_fields(nodes, transport_type if has_address else None),
        connection_options=connection_options,
        options={**options, **_parse_shared(nodes), "namespace": _parse_namespace(nodes, default_namespace)},
        enabled=has_address and _parse_switch(nodes, "enabled", True) and not _parse_switch(nodes, "disabled", False),
        has_address=has_address,
        ignored_key_notes=notes,
    )


def _split_ignored_keys(nodes: NodesByKey) -> tuple[NodesByKey, tuple[str, ...]]:
    """The nodes that are used, and a note for each ignored key that a person should know of."""
    ignored = {key: reason for key, reason in REPORTED_IGNORED_KEYS.items() if key in nodes}
    if "sandbox" in nodes and is_editor_sandbox(nodes["sandbox"]):
        ignored["sandbox"] = REPORTED_IGNORED_KEYS["sandbox_enabled"]
    notes = [f"{nodes[key].key} is left out: {reason}." for key, reason in ignored.items()]
    auth = nodes["auth"].value if "auth" in nodes else None
    auth_keys = {to_snake_case(str(key)): key for key in auth} if isinstance(auth, Mapping) else {}
    for key, reason in REPORTED_IGNORED_AUTH_KEYS.items():
        if key in auth_keys:
            notes.append(f"{auth_keys[key]} is left out: {reason}.")
    return {key: child for key, child in nodes.items() if key not in ignored}, tuple(notes)


_parse_type = choice_parser(
    stdio="stdio", local="stdio", http="http", streamable_http="http", streamablehttp="http", sse="sse",
    websocket="websocket", ws="websocket", remote="remote",
)  # fmt: skip


def _transport_type(name: str, nodes: NodesByKey, node: FileNode) -> TransportType:
    """The transport that `type` names; without it, stdio for a command, else the one that the URL suggests."""
    if "command" not in nodes and "url" not in nodes:
        raise node.error(f"{name} has neither a command nor a url.", "write command: ..., or url: ....")
    inferred = "stdio" if "command" in nodes else "remote"
    kind = _parse_type(nodes["type"]) if "type" in nodes else inferred
    needed_key, foreign_keys = ("command", URL_KEYS) if kind == "stdio" else ("url", COMMAND_KEYS)
    if needed_key not in nodes:
        raise node.error(f"{name} is of type {kind}, which needs a {needed_key}.", f"write {needed_key}: ....")
    for key in foreign_keys:
        if key in nodes:
            reached_by = "a command" if kind == "stdio" else "a url"
            raise nodes[key].error(f"{name} has {reached_by}, so {nodes[key].key} has no effect.", "remove it.")
    if kind == "remote":
        kind = _transport_type_of_url(read_text(nodes["url"]))
    if kind == "websocket" and "auth" in nodes:
        raise nodes["auth"].error(f"{name} is a WebSocket server, which has no sign-in.", "send a token in headers.")
    return cast(TransportType, kind)


def _transport_type_of_url(url: str) -> TransportType:
    if url.lower().startswith(("ws://", "wss://")):
        return "websocket"
    return "sse" if "/sse" in url else "http"


def _address_fields(nodes: NodesByKey, transport_type: TransportType | None) -> dict[str, Any]:
    if transport_type is None:
        return {}
    return _command_fields(nodes) if transport_type == "stdio" else _url_fields(nodes)


def _command_fields(nodes: NodesByKey) -> dict[str, Any]:
    command, *args = _parse_command_words(nodes["command"], may_be_command_line="args" not in nodes)
    if "args" in nodes:
        args += [read_scalar_text(item) for item in nodes["args"].items()]
    return {
        "command": command,
        "args": tuple(args),
        "env": read_text_mapping(nodes["env"]) if "env" in nodes else {},
        "env_file": read_text(nodes["env_file"]) if "env_file" in nodes else None,
        "cwd": read_text(nodes["cwd"]) if "cwd" in nodes else None,
    }


def _parse_command_words(node: FileNode, *, may_be_command_line: bool) -> list[str]:
    """The words of a command: a list, one word, or, without `args`, a whole command line."""
    if isinstance(node.value, str):
        line = read_text(node)
        if not may_be_command_line or " " not in line.strip() or Path(line).exists():
            return [line]
        try:
            return shlex.split(line)
        except ValueError:
            raise node.error("command has an unclosed quote.", "write a list of words.") from None
    words = [read_scalar_text(item) for item in node.items("write command: npx, or a list of words.")]
    if not words or not words[0].strip():
        raise node.error("command is empty.", "write command: npx, or a list of words.")
    return words


def _url_fields(nodes: NodesByKey) -> dict[str, Any]:
    url = read_text(nodes["url"]).strip()
    if "://" not in url and not url.startswith("${"):
        raise nodes["url"].error("url must be a URL.", "write https://host/path.")
    headers = read_text_mapping(nodes["headers"]) if "headers" in nodes else {}
    if "bearer_token_env_var" in nodes:
        headers = {"Authorization": f"Bearer ${{{read_text(nodes['bearer_token_env_var'])}}}", **headers}
    return {"url": url, "headers": headers, "auth": _parse_auth(nodes["auth"]) if "auth" in nodes else None}


_AUTH_PARSERS = {
    "type": choice_parser(oauth="oauth", client_credentials="client_credentials"),
    "scopes": lambda node: read_text(node).split() if isinstance(node.value, str) else read_texts(node),
    "client_id": read_text,
    "client_secret": read_text,
    "issuer": read_text,
    "redirect_port": read_positive_integer,
}
_AUTH_KEY_ALIASES = {"scope": "scopes", "callback_port": "redirect_port"}


def _parse_auth(node: FileNode) -> dict[str, Any] | None:
    """Parse `auth: oauth`, or `auth: {type: oauth, scopes: [...], client_id: ..., client_secret: ...}`."""
    if isinstance(node.value, bool):
        return {"type": "oauth"} if node.value else None
    if isinstance(node.value, str):
        node = FileNode({"type": node.value}, node.key_path)
    nodes = node.known_entries(_AUTH_PARSERS, _AUTH_KEY_ALIASES, REPORTED_IGNORED_AUTH_KEYS)
    auth: dict[str, Any] = {"type": "oauth"}
    auth |= {key: _AUTH_PARSERS[key](child) for key, child in nodes.items() if key in _AUTH_PARSERS}
    if auth["type"] == "client_credentials":
        for key in ("client_id", "client_secret"):
            if key not in auth:
                raise node.error(f"client_credentials needs a {key}.", f"write {key}: ${{NAME}}.")
        if "redirect_port" in nodes:
            raise nodes["redirect_port"].error(
                "client_credentials opens no browser, so redirect_port has no effect.", "remove it."
            )
    return auth


def _parse_shared(nodes: NodesByKey) -> dict[str, str]:
    """`shared: true` is another form of `per: everyone`."""
    if "shared" not in nodes:
        return {}
    if "per" in nodes:
        raise nodes["shared"].error("shared and per set the same option.", "keep one of them.")
    return {"per": "everyone" if read_flag(nodes["shared"]) else "session"}


def _parse_switch(nodes: NodesByKey, key: str, default: bool) -> bool:
    return read_flag(nodes[key]) if key in nodes else default


def _parse_namespace(nodes: NodesByKey, default: str) -> str:
    """The namespace of the server's tools: `namespace` or `tool_prefix`, else the one from its name."""
    node = nodes.get("namespace") or nodes.get("tool_prefix")
    if node is None:
        return default
    namespace = read_text(node).rstrip("_-")
    if not is_legal_name(namespace):
        fix = "use letters, digits, _ and -, and no - at the start."
        raise node.error(f"{node.key} must be a legal name.", fix)
    return namespace
