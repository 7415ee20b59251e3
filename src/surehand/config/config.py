"""Config: everything that a configuration file says."""

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
"""What a configuration file is called when nobody names one."""

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
"""As VS Code and others call them in files of their own."""
_IGNORED_SECTIONS = ("$schema", "sandbox", "global_shortcut", "preferences")
"""What other programs' files say of themselves."""
UNAVAILABLE_SECTIONS = ("rest_tools", "openapi", "agents", "gateway")


@dataclass(frozen=True, slots=True)
class Config:
    """What the file says; a section that is not there has its default."""

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
    """What VS Code would ask for to fill in its servers."""

    @property
    def base_folder(self) -> Path:
        """What the file's own paths are relative to."""
        return self.path.parent if self.path is not None else Path()


def read_config(path: str | Path) -> Config:
    """Read a configuration file, refusing whatever in it means nothing."""
    path = Path(path)
    found = known_entries(
        read_config_file(path),
        SECTION_PARSERS,
        aliases=_SECTION_ALIASES,
        unavailable=UNAVAILABLE_SECTIONS,
        ignored=_IGNORED_SECTIONS,
    )
    # `policy:` with nothing after it is read as null, and says nothing.
    return Config(
        path, **{name: SECTION_PARSERS[name](inside) for name, inside in found.items() if inside.value is not None}
    )


def find_config(folder: str | Path = ".") -> Path | None:
    """The configuration file of a folder; two of them are an error, because one would be ignored."""
    found = [path for name in CONFIG_FILE_NAMES if (path := Path(folder) / name).is_file()]
    if len(found) > 1:
        raise ConfigError(
            f"There are several configuration files: {', '.join(path.name for path in found)}.",
            fix=f"keep one, or name it: --config {found[0].name}.",
        )
    return found[0] if found else None
