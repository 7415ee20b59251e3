"""Loads the servers of a configuration file: of Claude Desktop, Cursor, VS Code and others, or our own.

`mcp.servers` and `assemble` use it. Reading a file starts no server and resolves no variable.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from os import PathLike
from pathlib import Path
from typing import Any

from surehand.core.errors import DefinitionError
from surehand.core.json_with_comments import JsonPath
from surehand.core.names import NAMESPACE_SEPARATOR, is_legal_name, sanitize_name
from surehand.providers.mcp.config.deferred_address import build_address
from surehand.providers.mcp.config.keys import KEY_ALIASES
from surehand.providers.mcp.config.server_entry import ServerEntry, parse_server_entry
from surehand.providers.mcp.config.server_file import ServerFile, read_server_file
from surehand.providers.mcp.config.values import FileNode, FileNodeError, read_scalar_text, read_text, to_snake_case
from surehand.providers.mcp.config.variables import Variables
from surehand.providers.mcp.labels import to_namespace
from surehand.providers.mcp.options import ServerOptions
from surehand.providers.mcp.provider import Server

log = logging.getLogger("surehand")
BLOCK_KEYS = ("mcp_servers", "context_servers", "servers")
"""The keys under which programs put their block of servers."""


@dataclass(frozen=True, slots=True)
class ServerBlock:
    """The block of servers in a file, and the inputs that an editor would prompt for."""

    servers_node: FileNode
    inputs: Mapping[str, str | None] = field(default_factory=dict)
    """Default values of `${input:name}`, by name."""

    def entries(self) -> list[ServerEntry]:
        """Every server of the block, disabled ones included."""
        named_nodes = list(self._named_nodes())
        namespaces = unique_namespaces(name for name, _ in named_nodes)
        entries = [parse_server_entry(name, node, namespaces[name]) for name, node in named_nodes]
        _check_unique_namespaces(entry for entry in entries if entry.enabled)
        return entries

    def _named_nodes(self) -> Iterator[tuple[str, FileNode]]:
        """The servers by name: a mapping by its keys, a list by the `name` of each item."""
        if not isinstance(self.servers_node.value, (list, tuple)):
            yield from self.servers_node.entries("write name: {command: ...}, or name: {url: ...}.").items()
            return
        names = set[str]()
        for item in self.servers_node.items():
            nodes = {_canonical_key(key): node for key, node in item.entries().items()}
            if "name" not in nodes:
                raise item.error("A server in a list needs a name.", "write name: ....")
            name = read_text(nodes["name"])
            if name in names:
                raise item.error(f"Two servers have the name {name!r}.", "rename one of them.")
            names.add(name)
            yield name, item


def _check_unique_namespaces(entries: Iterable[ServerEntry]) -> None:
    """Refuse two servers with one namespace: a lock would hold back each as an impostor of the other."""
    names_by_namespace = dict[str, str]()
    for entry in entries:
        namespace = str(entry.options["namespace"])
        other = names_by_namespace.setdefault(namespace, entry.name)
        if other != entry.name:
            problem = f"{entry.name} and {other} have the same namespace, {namespace}."
            raise FileNodeError(entry.key_path, problem, "give one of them another: namespace: ....")


def find_server_block(root: FileNode) -> ServerBlock:
    """The block of servers in a file, or the whole file if it holds nothing else."""
    if isinstance(root.value, (list, tuple)):
        return ServerBlock(root)
    nodes = {to_snake_case(key): node for key, node in root.entries().items()}
    for key in BLOCK_KEYS:
        if key in nodes and not _looks_like_server(nodes[key]):
            return ServerBlock(nodes[key], parse_inputs(nodes.get("inputs")))
    for key in ("mcp", "tools"):
        if key in nodes and isinstance(nodes[key].value, Mapping) and not _looks_like_server(nodes[key]):
            return find_server_block(nodes[key])
    if nodes and not all(_looks_like_server(node) for node in nodes.values()):
        raise root.error("The file has no MCP servers.", "put them under mcpServers: {name: {command: ...}}.")
    return ServerBlock(root)


def _looks_like_server(node: FileNode) -> bool:
    if not isinstance(node.value, Mapping):
        return isinstance(node.value, str)
    values = {_canonical_key(str(key)): value for key, value in node.value.items()}
    return any(isinstance(values.get(key), (str, list)) for key in ("command", "url"))


def _canonical_key(key: str) -> str:
    """Our name for a key of another program."""
    name = to_snake_case(key)
    return KEY_ALIASES.get(name, name)


def parse_inputs(node: FileNode | None) -> dict[str, str | None]:
    """The inputs that an editor would prompt for, with their default values."""
    if node is None:
        return {}
    inputs = [item.entries() for item in node.items()]
    return {
        read_text(each["id"]): read_scalar_text(each["default"]) if "default" in each else None
        for each in inputs
        if "id" in each
    }


def load_servers(
    source: str | PathLike[str] | Mapping[str, Any], *, environment: Mapping[str, str] | None = None, **options: Any
) -> list[Server]:
    """The enabled servers of a configuration file, or of a mapping with the same content.

    Args:
        environment: the values of variables; by default the environment of this process.
        options: defaults for servers that do not set them.
    """
    if "namespace" in options:
        raise DefinitionError(
            "Several servers cannot share a namespace.", fix="leave namespace out: each server has its own."
        )
    file = ServerFile(FileNode(source)) if isinstance(source, Mapping) else read_server_file(Path(source).expanduser())
    try:
        block = find_server_block(file.root)
        variables = Variables(os.environ if environment is None else environment, file.folder, block.inputs)
        entries = enabled_entries(block.entries(), file.location_of)
    except FileNodeError as error:
        raise DefinitionError(error.problem, fix=error.fix, where=file.location_of(error.key_path)) from None
    return [_build_located_server(entry, variables, file.location_of(entry.key_path), options) for entry in entries]


def enabled_entries(entries: Iterable[ServerEntry], location_of: Callable[[JsonPath], str]) -> list[ServerEntry]:
    """The entries of servers to start; one that does not say how its server is reached is left out with a warning."""
    for entry in entries:
        if not entry.has_address:
            problem = "it has neither a command nor a url"
            log.warning("%s: the MCP server %s is left out: %s.", location_of(entry.key_path), entry.name, problem)
    return [entry for entry in entries if entry.enabled]


def _build_located_server(
    entry: ServerEntry, variables: Variables, location: str, options: Mapping[str, Any]
) -> Server:
    """Build a server; errors name its place in the file."""
    try:
        return build_server(entry, variables, location, **options)
    except DefinitionError as error:
        raise DefinitionError(error.problem, fix=error.fix, where=error.where or location) from error


def build_server(entry: ServerEntry, variables: Variables, location: str = "", **options: Any) -> Server:
    """Build the provider for an entry; `options` are defaults that the entry overrides."""
    for note in entry.ignored_key_notes:
        log.info("%s: %s", location or entry.name, note)
    merged = {**options, **entry.options}
    merged["deny"] = [*options.get("deny", ()), *entry.options.get("deny", ())]
    for name in ("lock", "manifest"):
        if isinstance(merged.get(name), str):
            merged[name] = variables.resolve_path(merged[name])
    server = Server(build_address(entry, variables, location), ServerOptions.from_mapping(merged))
    server.configured_name = entry.name
    return server


def unique_namespaces(names: Iterable[str]) -> dict[str, str]:
    """A namespace for each server name: the name itself if valid, else the nearest valid one, with a hash if taken."""
    server_names = list(names)
    namespaces = {name: name for name in server_names if _is_valid_namespace(name)}
    taken = set(namespaces)
    for name in server_names:
        if name in namespaces:
            continue
        namespace = nearest_namespace(name)
        if namespace in taken:
            namespace = f"{namespace}_{_hash_suffix(name)}"
        namespaces[name] = namespace
        taken.add(namespace)
    return namespaces


def nearest_namespace(name: str) -> str:
    """`awslabs.core-mcp-server` as `awslabs_core-mcp-server`."""
    return name if _is_valid_namespace(name) else to_namespace(sanitize_name(name))


def _is_valid_namespace(name: str) -> bool:
    return is_legal_name(name) and NAMESPACE_SEPARATOR not in f"{name}_"


def _hash_suffix(name: str) -> str:
    return sha256(name.encode(errors="surrogatepass")).hexdigest()[:8]
