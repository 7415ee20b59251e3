"""The MCP servers that a configuration names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from surehand.config.config import Config
from surehand.config.mcp_section import McpSection
from surehand.core.errors import DefinitionError
from surehand.providers.mcp.config.server_block import ServerBlock, build_server, parse_inputs
from surehand.providers.mcp.config.server_entry import ServerEntry
from surehand.providers.mcp.config.values import FileNode, FileNodeError
from surehand.providers.mcp.config.variables import Variables
from surehand.providers.mcp.provider import Server

LOCK_FILE_NAME = "surehand.lock"
"""The file that pins the definitions of servers' tools, beside the configuration."""


def build_mcp_servers(config: Config, environment: Mapping[str, str]) -> list[Server]:
    """Every server that is not switched off; nothing is started."""
    if config.mcp_servers is None:
        return []
    variables = config_variables(config, environment)
    return [build_mcp_server(config, entry, variables) for entry in server_entries(config.mcp_servers) if entry.enabled]


def build_mcp_server(config: Config, entry: ServerEntry, variables: Variables) -> Server:
    """One of them; its definitions are pinned beside the configuration, unless it says otherwise."""
    assert config.mcp_servers is not None
    try:
        return build_server(
            entry, variables, config.mcp_servers.location(entry.key_path), lock=config.base_folder / LOCK_FILE_NAME
        )
    except DefinitionError as error:
        raise config.mcp_servers.error(entry.key_path, error.problem, error.fix) from error


def config_variables(config: Config, environment: Mapping[str, str]) -> Variables:
    """What references in the entries stand for."""
    if config.inputs is None:
        return Variables(environment, config.base_folder)
    with _locate_mistakes(config.inputs):
        return Variables(environment, config.base_folder, parse_inputs(_section_value(config.inputs)))


def server_entries(section: McpSection) -> list[ServerEntry]:
    """Every server of a section, those too that are switched off."""
    with _locate_mistakes(section):
        return ServerBlock(_section_value(section)).entries()


def server_files(config: Config) -> Iterator[Path]:
    """Files that servers are started from, and that say which of their definitions are trusted."""
    if config.mcp_servers is None:
        return
    yield config.base_folder / LOCK_FILE_NAME
    for entry in server_entries(config.mcp_servers):
        for text in (entry.command, *entry.args, entry.env_file or ""):
            if text and not text.startswith("-") and (path := config.base_folder / (entry.cwd or "") / text).is_file():
                yield path


def _section_value(section: McpSection) -> FileNode:
    return FileNode(section.value, section.node.key_path)


@contextmanager
def _locate_mistakes(section: McpSection) -> Iterator[None]:
    """Mistakes with their file and line."""
    try:
        yield
    except FileNodeError as mistake:
        raise section.error(mistake.key_path, mistake.problem, mistake.fix) from None
