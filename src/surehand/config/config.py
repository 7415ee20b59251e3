"""`Config`, the parsed configuration file, and how it is found and read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from surehand.config import mcp_section, sections
from surehand.config.builtin_section import ToolFamily, parse_builtin
from surehand.config.errors import ConfigError
from surehand.config.file_formats import read_config_file
from surehand.config.mcp_section import McpSection
from surehand.config.node import ConfigNode
from surehand.config.parsers import known_entries
from surehand.config.sections import StoreSetting, ToolSource, WorkspaceSettings
from surehand.runtime.defaults import Defaults
from surehand.runtime.limits.queues import Queue
from surehand.runtime.policy import Policy

CONFIG_FILE_NAMES = ("surehand.yaml", "surehand.yml", "surehand.json", "surehand.toml")
"""Names of the configuration file, in the order in which they are looked for."""

SECTION_PARSERS: Mapping[str, Callable[[ConfigNode], Any]] = {
    "defaults": sections.parse_defaults,
    "workspace": sections.parse_workspace,
    "builtin": parse_builtin,
    "policy": sections.parse_policy,
    "queues": sections.parse_queues,
    "store": sections.parse_store,
    "tools": sections.parse_tool_sources,
    "mcp_servers": mcp_section.parse_mcp_servers,
    "inputs": mcp_section.parse_inputs,
}
_SECTION_ALIASES = {"servers": "mcp_servers", "mcp": "mcp_servers"}
"""Names of the sections in the files of VS Code and other programs."""
_IGNORED_SECTIONS = ("$schema", "sandbox", "global_shortcut", "preferences")
"""Sections of other programs that mean nothing here."""
UNAVAILABLE_SECTIONS = ("rest_tools", "openapi", "agents", "gateway")


@dataclass(frozen=True, slots=True)
class Config:
    """The parsed sections of a configuration file, with defaults for missing ones."""

    path: Path | None = None
    defaults: Defaults = field(default_factory=Defaults)
    workspace: WorkspaceSettings | None = None
    builtin: tuple[ToolFamily, ...] = ()
    policy: Policy | None = None
    queues: Mapping[str, Queue] = field(default_factory=dict)
    store: StoreSetting | None = None
    tools: tuple[ToolSource, ...] = ()
    mcp_servers: McpSection | None = None
    inputs: McpSection | None = None
    """Values that VS Code would ask for, referred to by its servers."""

    @property
    def base_folder(self) -> Path:
        """The folder that paths in the file are relative to."""
        return self.path.parent if self.path is not None else Path()


def read_config(path: str | Path) -> Config:
    """Read a configuration file; unknown keys are errors."""
    path = Path(path)
    entries = known_entries(
        read_config_file(path),
        SECTION_PARSERS,
        aliases=_SECTION_ALIASES,
        unavailable=UNAVAILABLE_SECTIONS,
        ignored=_IGNORED_SECTIONS,
    )
    # `policy:` without a value is null in YAML, and is treated like a missing section.
    parsed = {name: SECTION_PARSERS[name](entry) for name, entry in entries.items() if entry.value is not None}
    return Config(path, **parsed)


def find_config(folder: str | Path = ".") -> Path | None:
    """Find the configuration file of a folder; two of them are an error, because one would be ignored."""
    found = [path for name in CONFIG_FILE_NAMES if (path := Path(folder) / name).is_file()]
    if len(found) > 1:
        raise ConfigError(
            f"There are several configuration files: {', '.join(path.name for path in found)}.",
            fix=f"keep one, or name it: --config {found[0].name}.",
        )
    return found[0] if found else None
