"""Entries: the servers of a file as people have it, be it Claude Desktop's, Cursor's, VS Code's or our own."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any

from surehand.core.errors import DefinitionError
from surehand.providers.mcp.options import Options
from surehand.providers.mcp.provider import Server
from surehand.providers.mcp.written.entry import Entry, read_entry
from surehand.providers.mcp.written.file import File, read_file
from surehand.providers.mcp.written.keys import OTHERS
from surehand.providers.mcp.written.late import route_of
from surehand.providers.mcp.written.namespaces import namespaces
from surehand.providers.mcp.written.variables import Variables
from surehand.providers.mcp.written.written import Mistake, Written, snake, text, word

log = logging.getLogger("surehand")
BLOCKS = ("mcp_servers", "context_servers", "servers")
"""What the block of servers is called."""


@dataclass(frozen=True, slots=True)
class Block:
    """The servers of a file, and what an editor would ask for to fill them in."""

    servers: Written
    inputs: Mapping[str, str | None] = field(default_factory=dict)

    def entries(self) -> list[Entry]:
        """Every server of it, those too that are switched off."""
        named = list(self._named())
        spaces = namespaces(name for name, _ in named)
        found = [read_entry(name, given, spaces[name]) for name, given in named]
        _check_namespaces(entry for entry in found if entry.enabled)
        return found

    def _named(self) -> Iterator[tuple[str, Written]]:
        if not isinstance(self.servers.value, (list, tuple)):
            yield from self.servers.entries("write name: {command: ...}, or name: {url: ...}.").items()
            return
        seen = set[str]()
        for item in self.servers.items():
            found = {OTHERS.get(snake(key), snake(key)): inside for key, inside in item.entries().items()}
            if "name" not in found:
                raise item.mistake("A server in a list needs a name.", "write name: ....")
            if (name := text(found["name"])) in seen:
                raise item.mistake(f"There are two servers {name!r}.", "give one another name.")
            seen.add(name)
            yield name, item


def _check_namespaces(entries: Iterable[Entry]) -> None:
    """A lock knows a server by its namespace: of two under one, each would be held back as another than the first."""
    taken = dict[str, str]()
    for entry in entries:
        namespace = str(entry.options["namespace"])
        if (other := taken.setdefault(namespace, entry.name)) != entry.name:
            problem = f"{entry.name} and {other} have the same namespace, {namespace}."
            raise Mistake(entry.at, problem, "give one of them another: namespace: ....")


def block_of(top: Written) -> Block:
    """The block of servers in a whole file, or the file itself where it is nothing else."""
    if isinstance(top.value, (list, tuple)):
        return Block(top)
    found = {snake(key): inside for key, inside in top.entries().items()}
    for name in BLOCKS:
        if name in found and not _is_server(found[name]):
            return Block(found[name], inputs_of(found.get("inputs")))
    for name in ("mcp", "tools"):
        if name in found and isinstance(found[name].value, Mapping) and not _is_server(found[name]):
            return block_of(found[name])
    if found and not all(_is_server(inside) for inside in found.values()):
        raise top.mistake("There are no MCP servers in it.", "put them under mcpServers: {name: {command: ...}}.")
    return Block(top)


def _is_server(given: Written) -> bool:
    if not isinstance(given.value, Mapping):
        return isinstance(given.value, str)
    named = {OTHERS.get(snake(str(key)), snake(str(key))): value for key, value in given.value.items()}
    return any(isinstance(named.get(key), (str, list)) for key in ("command", "url"))


def inputs_of(given: Written | None) -> dict[str, str | None]:
    """What an editor would ask for, with what it offers."""
    found = [item.entries() for item in given.items()] if given is not None else []
    return {text(item["id"]): word(item["default"]) if "default" in item else None for item in found if "id" in item}


def servers(
    source: str | PathLike[str] | Mapping[str, Any], *, environment: Mapping[str, str] | None = None, **options: Any
) -> list[Server]:
    """The servers of a file, or of a mapping, as other programs have it; those that are switched off are left out.

    Args:
        environment: what variables stand for; the environment of this program unless said otherwise.
        options: for servers that say nothing of it themselves.
    """
    if "namespace" in options:
        raise DefinitionError("Several servers cannot share a namespace.", fix="each has its own name.")
    file = File(Written(source)) if isinstance(source, Mapping) else read_file(Path(source).expanduser())
    try:
        block = block_of(file.top)
        variables = Variables(os.environ if environment is None else environment, file.folder, block.inputs)
        found = [entry for entry in block.entries() if entry.enabled]
    except Mistake as mistake:
        raise DefinitionError(mistake.problem, fix=mistake.fix, where=file.where(mistake.at)) from None
    return [_placed(entry, variables, file.where(entry.at), options) for entry in found]


def _placed(entry: Entry, variables: Variables, where: str, options: Mapping[str, Any]) -> Server:
    try:
        return server_of(entry, variables, where, **options)
    except DefinitionError as error:
        raise DefinitionError(error.problem, fix=error.fix, where=error.where or where) from error


def server_of(entry: Entry, variables: Variables, where: str = "", **options: Any) -> Server:
    """One server; nothing is started, and no variable is looked at."""
    for note in entry.notes:
        log.info("%s: %s", where or entry.name, note)
    given = {**options, **entry.options, "deny": [*options.get("deny", ()), *entry.options.get("deny", ())]}
    for name in ("lock", "manifest"):
        if isinstance(given.get(name), str):
            given[name] = variables.path(given[name])
    server = Server(route_of(entry, variables, where), Options.of(given))
    server.written_as = entry.name
    return server
