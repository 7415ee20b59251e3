"""Entry: one server as people write it in their files, in our words."""

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
    """One server: how it is reached, with its references still in it, and its options."""

    name: str
    transport_type: TransportType
    key_path: JsonPath = ()
    """The way to it in its file."""
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
    """As `mcp.stdio` and the others take them."""
    enabled: bool = True
    ignored_key_notes: tuple[str, ...] = ()
    """What of it was left out, and why."""

    def texts_with_variables(self) -> Iterator[str]:
        """Everything in which references are filled in; they mean nothing anywhere else."""
        yield from (self.command, *self.args, *self.env.values(), self.url, *self.headers.values())
        yield from (given for given in (self.cwd, self.env_file) if given)
        yield from (value for value in (self.auth or {}).values() if isinstance(value, str))


def parse_server_entry(name: str, node: FileNode, default_namespace: str) -> ServerEntry:
    """One server; a text is a command or a URL. It has this namespace, unless it asks for another."""
    if isinstance(node.value, str):
        node = FileNode({"url" if "://" in node.value.split(" ")[0] else "command": node.value}, node.key_path)
    found, notes = _split_ignored_keys(node.known_entries(DOCUMENTED_KEYS, KEY_ALIASES, UNDOCUMENTED_KEYS))
    kind = _transport_type(name, found, node)
    options = {
        PYTHON_OPTION_NAMES.get(key, key): OPTION_PARSERS[key](inside)
        for key, inside in found.items()
        if key in OPTION_PARSERS
    }
    return ServerEntry(
        name,
        kind,
        node.key_path,
        **(_command_fields(found) if kind == "stdio" else _url_fields(found)),
        connection_options={
            key: CONNECTION_OPTION_PARSERS[key](inside)
            for key, inside in found.items()
            if key in CONNECTION_OPTION_PARSERS
        },
        options={**options, **_parse_shared(found), "namespace": _parse_namespace(found, default_namespace)},
        enabled=_parse_switch(found, "enabled", True) and not _parse_switch(found, "disabled", False),
        ignored_key_notes=notes,
    )


def _split_ignored_keys(nodes: NodesByKey) -> tuple[NodesByKey, tuple[str, ...]]:
    """What means something here, and what of the rest is told."""
    left = {key: why for key, why in REPORTED_IGNORED_KEYS.items() if key in nodes}
    if "sandbox" in nodes and is_editor_sandbox(nodes["sandbox"]):
        left["sandbox"] = REPORTED_IGNORED_KEYS["sandbox_enabled"]
    notes = [f"{nodes[key].key} is left out: {why}." for key, why in left.items()]
    auth = nodes["auth"].value if "auth" in nodes else None
    named = {to_snake_case(str(key)): key for key in auth} if isinstance(auth, Mapping) else {}
    notes += [f"{named[key]} is left out: {why}." for key, why in REPORTED_IGNORED_AUTH_KEYS.items() if key in named]
    return {key: inside for key, inside in nodes.items() if key not in left}, tuple(notes)


_parse_type = choice_parser(
    stdio="stdio", local="stdio", http="http", streamable_http="http", streamablehttp="http", sse="sse",
    websocket="websocket", ws="websocket", remote="remote",
)  # fmt: skip


def _transport_type(name: str, nodes: NodesByKey, node: FileNode) -> TransportType:
    """As its type says; without one, a command is started and a URL is looked at."""
    reached = [key for key in ("command", "url") if key in nodes]
    if not reached:
        raise node.error(f"{name} has neither a command nor a url.", "write command: ..., or url: ....")
    kind = _parse_type(nodes["type"]) if "type" in nodes else "stdio" if "command" in nodes else "remote"
    needed, others = ("command", URL_KEYS) if kind == "stdio" else ("url", COMMAND_KEYS)
    if needed not in nodes:
        raise node.error(f"{name} is of type {kind}, which needs a {needed}.", f"write {needed}: ....")
    for key in others:
        if key in nodes:
            where = "is started here" if kind == "stdio" else "is reached by its url"
            raise nodes[key].error(f"{name} {where}: {nodes[key].key} means nothing there.", "take it out.")
    kind = _transport_type_of_url(read_text(nodes["url"])) if kind == "remote" else kind
    if kind == "websocket" and "auth" in nodes:
        raise nodes["auth"].error(f"{name} is a web socket, where nobody signs in.", "say who you are by headers.")
    return cast(TransportType, kind)


def _transport_type_of_url(url: str) -> TransportType:
    if url.lower().startswith(("ws://", "wss://")):
        return "websocket"
    return "sse" if "/sse" in url else "http"


def _command_fields(nodes: NodesByKey) -> dict[str, Any]:
    first, *rest = _parse_command_words(nodes["command"], may_be_command_line="args" not in nodes)
    return {
        "command": first,
        "args": (*rest, *(read_scalar_text(item) for item in nodes["args"].items()))
        if "args" in nodes
        else tuple(rest),
        "env": read_text_mapping(nodes["env"]) if "env" in nodes else {},
        "env_file": read_text(nodes["env_file"]) if "env_file" in nodes else None,
        "cwd": read_text(nodes["cwd"]) if "cwd" in nodes else None,
    }


def _parse_command_words(node: FileNode, *, may_be_command_line: bool) -> list[str]:
    """A command is a list, or a text; one that stands alone may be a whole line."""
    if isinstance(node.value, str):
        line = read_text(node)
        try:
            return (
                shlex.split(line) if may_be_command_line and " " in line.strip() and not Path(line).exists() else [line]
            )
        except ValueError:
            raise node.error("command has a quote that is never closed.", "write a list of words.") from None
    found = [read_scalar_text(item) for item in node.items("write command: npx, or a list of words.")]
    if not found or not found[0].strip():
        raise node.error("command is empty.", "write command: npx, or a list of words.")
    return found


def _url_fields(nodes: NodesByKey) -> dict[str, Any]:
    url = read_text(nodes["url"]).strip()
    if "://" not in url and not url.startswith("${"):
        raise nodes["url"].error("url is no URL.", "write https://host/path.")
    headers = read_text_mapping(nodes["headers"]) if "headers" in nodes else {}
    if "bearer_token_env_var" in nodes:
        headers = {"Authorization": f"Bearer ${{{read_text(nodes['bearer_token_env_var'])}}}", **headers}
    return {"url": url, "headers": headers, "auth": _parse_auth(nodes["auth"]) if "auth" in nodes else None}


_AUTH_PARSERS = {
    "type": choice_parser(oauth="oauth", client_credentials="client_credentials"),
    "scopes": lambda given: read_text(given).split() if isinstance(given.value, str) else read_texts(given),
    "client_id": read_text,
    "client_secret": read_text,
    "issuer": read_text,
    "redirect_port": read_positive_integer,
}
_AUTH_KEY_ALIASES = {"scope": "scopes", "callback_port": "redirect_port"}


def _parse_auth(node: FileNode) -> dict[str, Any] | None:
    """`oauth`, or `{type: oauth, scopes: [...], client_id, client_secret}`."""
    if isinstance(node.value, bool):
        return {"type": "oauth"} if node.value else None
    if isinstance(node.value, str):
        node = FileNode({"type": node.value}, node.key_path)
    found = node.known_entries(_AUTH_PARSERS, _AUTH_KEY_ALIASES, REPORTED_IGNORED_AUTH_KEYS)
    auth = {
        "type": "oauth",
        **{key: _AUTH_PARSERS[key](inside) for key, inside in found.items() if key in _AUTH_PARSERS},
    }
    if auth["type"] == "client_credentials":
        for key in ("client_id", "client_secret"):
            if key not in auth:
                raise node.error(f"client_credentials needs a {key}.", f"write {key}: ${{NAME}}.")
        if "redirect_port" in found:
            raise found["redirect_port"].error("client_credentials asks nobody.", "take it out.")
    return auth


def _parse_shared(nodes: NodesByKey) -> dict[str, str]:
    if "shared" not in nodes:
        return {}
    if "per" in nodes:
        raise nodes["shared"].error("shared says the same as per.", "keep one of them.")
    return {"per": "everyone" if read_flag(nodes["shared"]) else "session"}


def _parse_switch(nodes: NodesByKey, key: str, default: bool) -> bool:
    return read_flag(nodes[key]) if key in nodes else default


def _parse_namespace(nodes: NodesByKey, default: str) -> str:
    """What tools' names begin with: as the entry says, or what its own name gives."""
    if (asked := nodes.get("namespace") or nodes.get("tool_prefix")) is None:
        return default
    if not is_legal_name(chosen := read_text(asked).rstrip("_-")):
        fix = "use letters, digits, _ and -, not - at the start"
        raise asked.error(f"{asked.key} is no name for a server.", f"{fix}.")
    return chosen
