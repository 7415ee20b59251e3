"""The MCP servers that a configuration names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from surehand.config.config import Config
from surehand.config.mcp import McpServers
from surehand.core.errors import DefinitionError
from surehand.providers.mcp.provider import Server
from surehand.providers.mcp.written.entries import Block, inputs_of, server_of
from surehand.providers.mcp.written.entry import Entry
from surehand.providers.mcp.written.variables import Variables
from surehand.providers.mcp.written.written import Mistake, Written

LOCK = "surehand.lock"
"""The file that pins the definitions of servers' tools, beside the configuration."""


def mcp_servers(config: Config, environment: Mapping[str, str]) -> list[Server]:
    """Every server that is not switched off; nothing is started."""
    if config.mcp_servers is None:
        return []
    variables = variables_of(config, environment)
    return [server_for(config, entry, variables) for entry in entries(config.mcp_servers) if entry.enabled]


def server_for(config: Config, entry: Entry, variables: Variables) -> Server:
    """One of them; its definitions are pinned beside the configuration, unless it says otherwise."""
    assert config.mcp_servers is not None
    try:
        return server_of(entry, variables, config.mcp_servers.where(entry.at), lock=config.folder / LOCK)
    except DefinitionError as error:
        raise config.mcp_servers.error(entry.at, error.problem, error.fix) from error


def variables_of(config: Config, environment: Mapping[str, str]) -> Variables:
    """What references in the entries stand for."""
    if config.inputs is None:
        return Variables(environment, config.folder)
    with _placed(config.inputs):
        return Variables(environment, config.folder, inputs_of(_written(config.inputs)))


def entries(section: McpServers) -> list[Entry]:
    """Every server of a section, those too that are switched off."""
    with _placed(section):
        return Block(_written(section)).entries()


def run_here(config: Config) -> Iterator[Path]:
    """Files that servers are started from, and that say which of their definitions are trusted."""
    if config.mcp_servers is None:
        return
    yield config.folder / LOCK
    for entry in entries(config.mcp_servers):
        for text in (entry.command, *entry.args, entry.env_file or ""):
            if text and not text.startswith("-") and (path := config.folder / (entry.cwd or "") / text).is_file():
                yield path


def _written(section: McpServers) -> Written:
    return Written(section.value, section.place.at)


@contextmanager
def _placed(section: McpServers) -> Iterator[None]:
    """Mistakes with their file and line."""
    try:
        yield
    except Mistake as mistake:
        raise section.error(mistake.at, mistake.problem, mistake.fix) from None
