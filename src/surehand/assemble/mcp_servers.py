"""Builds the providers of the MCP servers in a configuration. The command line reads their entries here too."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from surehand.config.config import Config
from surehand.config.mcp_section import McpSection
from surehand.core.errors import DefinitionError
from surehand.providers.mcp.config.server_block import ServerBlock, build_server, enabled_entries, parse_inputs
from surehand.providers.mcp.config.server_entry import ServerEntry
from surehand.providers.mcp.config.values import FileNode, FileNodeError
from surehand.providers.mcp.config.variables import Variables
from surehand.providers.mcp.provider import Server

LOCK_FILE_NAME = "surehand.lock"
"""The lock file beside the configuration, which pins the tool definitions of servers."""


def build_mcp_servers(config: Config, environment: Mapping[str, str]) -> list[Server]:
    """Build a provider for every enabled server. No server is started."""
    if config.mcp_servers is None:
        return []
    variables = config_variables(config, environment)
    entries = enabled_entries(server_entries(config.mcp_servers), config.mcp_servers.location)
    return [build_mcp_server(config, entry, variables) for entry in entries]


def switched_off_servers(config: Config) -> list[tuple[str, str]]:
    """Name and namespace of every server that the configuration switches off."""
    if config.mcp_servers is None:
        return []
    entries = server_entries(config.mcp_servers)
    return [(entry.name, str(entry.options["namespace"])) for entry in entries if not entry.enabled]


def build_mcp_server(config: Config, entry: ServerEntry, variables: Variables) -> Server:
    """Build the provider of one server. Its lock file is beside the configuration, unless its entry names another."""
    assert config.mcp_servers is not None
    try:
        location = config.mcp_servers.location(entry.key_path)
        return build_server(entry, variables, location, lock=config.base_folder / LOCK_FILE_NAME)
    except DefinitionError as error:
        raise config.mcp_servers.error(entry.key_path, error.problem, error.fix) from error


def config_variables(config: Config, environment: Mapping[str, str]) -> Variables:
    """The values that references such as `${NAME}` in the entries are replaced by."""
    if config.inputs is None:
        return Variables(environment, config.base_folder)
    with _locate_mistakes(config.inputs):
        return Variables(environment, config.base_folder, parse_inputs(_section_value(config.inputs)))


def server_entries(section: McpSection) -> list[ServerEntry]:
    """Parse every server of a section, including disabled ones."""
    with _locate_mistakes(section):
        return ServerBlock(_section_value(section)).entries()


def server_files(config: Config) -> Iterator[Path]:
    """Files that servers are started from, and the lock file that says which definitions are trusted."""
    if config.mcp_servers is None:
        return
    yield config.base_folder / LOCK_FILE_NAME
    for entry in server_entries(config.mcp_servers):
        folder = config.base_folder / (entry.cwd or "")
        for text in (entry.command, *entry.args, entry.env_file or ""):
            if text and not text.startswith("-") and (folder / text).is_file():
                yield folder / text


def _section_value(section: McpSection) -> FileNode:
    return FileNode(section.value, section.node.key_path)


@contextmanager
def _locate_mistakes(section: McpSection) -> Iterator[None]:
    """Turn errors of entries into configuration errors with file and line."""
    try:
        yield
    except FileNodeError as error:
        raise section.error(error.key_path, error.problem, error.fix) from None
