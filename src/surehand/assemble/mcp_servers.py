"""Builds the providers of the MCP servers in a configuration. The command line reads their entries here too."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from surehand.config.config import LOCK_FILE_NAME, Config
from surehand.config.mcp_section import McpSection
from surehand.core.errors import DefinitionError
from surehand.core.names import nearest_names
from surehand.providers.mcp.config.server_block import ServerBlock, build_server, enabled_entries, parse_inputs
from surehand.providers.mcp.config.server_entry import ServerEntry
from surehand.providers.mcp.config.values import FileNode, FileNodeError
from surehand.providers.mcp.config.variables import Variables
from surehand.providers.mcp.provider import Server
from surehand.workspace.started_programs import program_files

log = logging.getLogger("surehand")


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
    entry = _with_known_queue(config, entry)
    try:
        location = config.mcp_servers.location(entry.key_path)
        return build_server(entry, variables, location, lock=config.base_folder / LOCK_FILE_NAME)
    except DefinitionError as error:
        raise config.mcp_servers.error(entry.key_path, error.problem, error.fix) from error


def _with_known_queue(config: Config, entry: ServerEntry) -> ServerEntry:
    """The entry; in a file without any queues it has none. Raises at its line if it names another queue than the file.

    Files of other programs often hold the servers alone: without the limit, they still work.
    """
    section = config.mcp_servers
    name = entry.options.get("queue")
    if section is None or name is None or name in config.queues:
        return entry
    key_path = (*entry.key_path, "queue")
    fix = f"add queues: {{{name}: {{concurrent: 2}}}} to the file."
    if not config.queues:
        log.warning("%s: There is no queue %r: calls are not limited. Fix: %s", section.location(key_path), name, fix)
        return replace(entry, options={key: value for key, value in entry.options.items() if key != "queue"})
    nearest = nearest_names(str(name), config.queues, 1)
    raise section.error(key_path, f"There is no queue {name!r}.", f"did you mean {nearest[0]!r}?" if nearest else fix)


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
        yield from program_files((entry.command or "", *entry.args), folder)
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
