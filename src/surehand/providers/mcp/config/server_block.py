"""Entries: the servers of a file as people have it, be it Claude Desktop's, Cursor's, VS Code's or our own."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from os import PathLike
from pathlib import Path
from typing import Any

from surehand.core.errors import DefinitionError
from surehand.core.names import NAMESPACE_SEPARATOR, is_legal_name, sanitize_name
from surehand.providers.mcp.addresses.labels import to_namespace
from surehand.providers.mcp.config.deferred_address import build_address
from surehand.providers.mcp.config.keys import KEY_ALIASES
from surehand.providers.mcp.config.server_entry import ServerEntry, parse_server_entry
from surehand.providers.mcp.config.server_file import ServerFile, read_server_file
from surehand.providers.mcp.config.values import FileNode, FileNodeError, read_scalar_text, read_text, to_snake_case
from surehand.providers.mcp.config.variables import Variables
from surehand.providers.mcp.options import ServerOptions
from surehand.providers.mcp.provider import Server


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


log = logging.getLogger("surehand")
BLOCK_KEYS = ("mcp_servers", "context_servers", "servers")
"""What the block of servers is called."""


@dataclass(frozen=True, slots=True)
class ServerBlock:
    """The servers of a file, and what an editor would ask for to fill them in."""

    servers_node: FileNode
    inputs: Mapping[str, str | None] = field(default_factory=dict)

    def entries(self) -> list[ServerEntry]:
        """Every server of it, those too that are switched off."""
        named = list(self._named_nodes())
        spaces = unique_namespaces(name for name, _ in named)
        found = [parse_server_entry(name, given, spaces[name]) for name, given in named]
        _check_unique_namespaces(entry for entry in found if entry.enabled)
        return found

    def _named_nodes(self) -> Iterator[tuple[str, FileNode]]:
        if not isinstance(self.servers_node.value, (list, tuple)):
            yield from self.servers_node.entries("write name: {command: ...}, or name: {url: ...}.").items()
            return
        seen = set[str]()
        for item in self.servers_node.items():
            found = {
                KEY_ALIASES.get(to_snake_case(key), to_snake_case(key)): inside
                for key, inside in item.entries().items()
            }
            if "name" not in found:
                raise item.error("A server in a list needs a name.", "write name: ....")
            if (name := read_text(found["name"])) in seen:
                raise item.error(f"There are two servers {name!r}.", "give one another name.")
            seen.add(name)
            yield name, item


def _check_unique_namespaces(entries: Iterable[ServerEntry]) -> None:
    """A lock knows a server by its namespace: of two under one, each would be held back as another than the first."""
    taken = dict[str, str]()
    for entry in entries:
        namespace = str(entry.options["namespace"])
        if (other := taken.setdefault(namespace, entry.name)) != entry.name:
            problem = f"{entry.name} and {other} have the same namespace, {namespace}."
            raise FileNodeError(entry.key_path, problem, "give one of them another: namespace: ....")


def find_server_block(root: FileNode) -> ServerBlock:
    """The block of servers in a whole file, or the file itself where it is nothing else."""
    if isinstance(root.value, (list, tuple)):
        return ServerBlock(root)
    found = {to_snake_case(key): inside for key, inside in root.entries().items()}
    for name in BLOCK_KEYS:
        if name in found and not _looks_like_server(found[name]):
            return ServerBlock(found[name], parse_inputs(found.get("inputs")))
    for name in ("mcp", "tools"):
        if name in found and isinstance(found[name].value, Mapping) and not _looks_like_server(found[name]):
            return find_server_block(found[name])
    if found and not all(_looks_like_server(inside) for inside in found.values()):
        raise root.error("There are no MCP servers in it.", "put them under mcpServers: {name: {command: ...}}.")
    return ServerBlock(root)


def _looks_like_server(node: FileNode) -> bool:
    if not isinstance(node.value, Mapping):
        return isinstance(node.value, str)
    named = {
        KEY_ALIASES.get(to_snake_case(str(key)), to_snake_case(str(key))): value for key, value in node.value.items()
    }
    return any(isinstance(named.get(key), (str, list)) for key in ("command", "url"))


def parse_inputs(node: FileNode | None) -> dict[str, str | None]:
    """What an editor would ask for, with what it offers."""
    found = [item.entries() for item in node.items()] if node is not None else []
    return {
        read_text(item["id"]): read_scalar_text(item["default"]) if "default" in item else None
        for item in found
        if "id" in item
    }


def load_servers(
    source: str | PathLike[str] | Mapping[str, Any], *, environment: Mapping[str, str] | None = None, **options: Any
) -> list[Server]:
    """The servers of a file, or of a mapping, as other programs have it; those that are switched off are left out.

    Args:
        environment: what variables stand for; the environment of this program unless said otherwise.
        options: for servers that say nothing of it themselves.
    """
    if "namespace" in options:
        raise DefinitionError("Several servers cannot share a namespace.", fix="each has its own name.")
    file = ServerFile(FileNode(source)) if isinstance(source, Mapping) else read_server_file(Path(source).expanduser())
    try:
        block = find_server_block(file.root)
        variables = Variables(os.environ if environment is None else environment, file.folder, block.inputs)
        found = [entry for entry in block.entries() if entry.enabled]
    except FileNodeError as mistake:
        raise DefinitionError(mistake.problem, fix=mistake.fix, where=file.location_of(mistake.key_path)) from None
    return [_build_located_server(entry, variables, file.location_of(entry.key_path), options) for entry in found]


def _build_located_server(
    entry: ServerEntry, variables: Variables, location: str, options: Mapping[str, Any]
) -> Server:
    try:
        return build_server(entry, variables, location, **options)
    except DefinitionError as error:
        raise DefinitionError(error.problem, fix=error.fix, where=error.where or location) from error


def build_server(entry: ServerEntry, variables: Variables, location: str = "", **options: Any) -> Server:
    """One server; nothing is started, and no variable is looked at."""
    for note in entry.ignored_key_notes:
        log.info("%s: %s", location or entry.name, note)
    given = {**options, **entry.options, "deny": [*options.get("deny", ()), *entry.options.get("deny", ())]}
    for name in ("lock", "manifest"):
        if isinstance(given.get(name), str):
            given[name] = variables.resolve_path(given[name])
    server = Server(build_address(entry, variables, location), ServerOptions.from_mapping(given))
    server.configured_name = entry.name
    return server
