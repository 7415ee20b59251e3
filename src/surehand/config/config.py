"""`Config`, the parsed configuration file, and how it is found and read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from surehand.config import mcp_section, sections
from surehand.config.agents_section import AgentEntry, parse_agents
from surehand.config.builtin_section import ToolFamily, parse_builtin
from surehand.config.errors import ConfigError
from surehand.config.file_formats import read_config_file
from surehand.config.mcp_section import McpSection
from surehand.config.node import ConfigNode
from surehand.config.parsers import known_entries
from surehand.config.rest_section import RestToolEntry, parse_rest_tools
from surehand.config.sections import LogLevel, StoreSetting, WorkspaceSettings, folder_nodes
from surehand.config.tool_entry import ToolEntry
from surehand.config.tools_section import ToolSettings, ToolSource, ToolsSection, parse_tools
from surehand.runtime.defaults import Defaults
from surehand.runtime.limits.queues import Queue
from surehand.runtime.policy import Policy

CONFIG_FILE_NAMES = ("surehand.yaml", "surehand.yml", "surehand.json", "surehand.toml")
"""Names of the configuration file, in the order in which they are looked for."""
LOCK_FILE_NAME = "surehand.lock"
"""The lock file beside the configuration, which pins the tool definitions of servers."""

SECTION_PARSERS: Mapping[str, Callable[[ConfigNode], Any]] = {
    "defaults": sections.parse_defaults,
    "workspace": sections.parse_workspace,
    "builtin": parse_builtin,
    "policy": sections.parse_policy,
    "queues": sections.parse_queues,
    "store": sections.parse_store,
    "tools": parse_tools,
    "rest_tools": parse_rest_tools,
    "mcp_servers": mcp_section.parse_mcp_servers,
    "inputs": mcp_section.parse_inputs,
    "agents": parse_agents,
    "log": sections.parse_log,
}
_SECTION_ALIASES = {"servers": "mcp_servers", "mcp": "mcp_servers"}
"""Names of the sections in the files of VS Code and other programs."""
_IGNORED_SECTIONS = ("$schema", "sandbox", "global_shortcut", "preferences")
"""Sections of other programs that mean nothing here."""
UNAVAILABLE_SECTIONS = ("openapi", "gateway")


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
    defined_tools: tuple[ToolEntry, ...] = ()
    """Tools that the file itself defines."""
    rest_tools: tuple[RestToolEntry, ...] = ()
    mcp_servers: McpSection | None = None
    inputs: McpSection | None = None
    """Values that VS Code would ask for, referred to by its servers."""
    agents: tuple[AgentEntry, ...] = ()
    log: LogLevel | None = None
    """How much is logged on stderr; None for warnings and errors."""

    @property
    def base_folder(self) -> Path:
        """The folder that paths in the file are relative to."""
        return self.path.parent if self.path is not None else Path()


def read_config(path: str | Path) -> Config:
    """Read a configuration file; unknown keys are errors."""
    path = Path(path)
    top = read_config_file(path)
    entries = known_entries(
        top,
        SECTION_PARSERS,
        aliases=_SECTION_ALIASES,
        unavailable=UNAVAILABLE_SECTIONS,
        ignored=_IGNORED_SECTIONS,
    )
    # `policy:` without a value is null in YAML, and is treated like a missing section.
    parsed = {name: SECTION_PARSERS[name](entry) for name, entry in entries.items() if entry.value is not None}
    tools: ToolsSection = parsed.pop("tools", ToolsSection())
    defaults = {**_implied_defaults(top), **parsed.pop("defaults", {})}
    if tools.settings is not None:
        defaults = {**tools.settings.defaults, **defaults}
        _merge_settings(parsed, tools.settings)
    return Config(path, Defaults(**defaults), tools=tools.sources, defined_tools=tools.definitions, **parsed)


def _merge_settings(parsed: dict[str, Any], settings: ToolSettings) -> None:
    """Add what a `tools` mapping sets to the other sections, where they do not set it themselves."""
    if settings.mcp_servers is not None:
        if "mcp_servers" in parsed:
            raise settings.mcp_servers.node.error("There are two sections of MCP servers.", "keep one of them.")
        parsed["mcp_servers"] = settings.mcp_servers
    if settings.allowed_paths is not None:
        # `config.yml` names no root: its allowed paths are relative to the folder of the file.
        root = ConfigNode(settings.node.path, settings.node.lines, ".", settings.allowed_paths.key_path)
        workspace: WorkspaceSettings = parsed.get("workspace", WorkspaceSettings(root))
        if workspace.allowed_paths:
            raise settings.allowed_paths.error("workspace has allowed paths too.", "keep one of the two lists.")
        parsed["workspace"] = replace(workspace, allowed_paths=folder_nodes(settings.allowed_paths))
    parsed.setdefault("builtin", settings.families())


_AI_AGENT_SECTIONS = {"$schema", "defaults", "mcpServers", "restTools", "queues"}
_AI_AGENT_DEFAULTS = {
    "toolTimeout", "toolResponseMaxBytes", "traceMCP", "traceTools", "mcpInitConcurrency", "maxToolCallsPerTurn",
}  # fmt: skip
AI_AGENT_CALLS_PER_TURN = 10


def _implied_defaults(top: ConfigNode) -> dict[str, Any]:
    """Defaults of a file of ai-agent, which allows ten calls a turn unless it says otherwise.

    Such a file has its sections alone, spelt as there, and says more than which MCP servers there are.
    """
    sections = top.value if isinstance(top.value, dict) else {}
    defaults = sections.get("defaults") or {}
    is_ai_agent = (
        set(sections) <= _AI_AGENT_SECTIONS
        and isinstance(defaults, dict)
        and set(defaults) <= _AI_AGENT_DEFAULTS
        and bool(defaults or ("queues" in sections and "mcpServers" in sections))
    )
    return {"max_calls_per_turn": AI_AGENT_CALLS_PER_TURN} if is_ai_agent else {}


def find_config(folder: str | Path = ".") -> Path | None:
    """Find the configuration file of a folder; two of them are an error, because one would be ignored."""
    found = [path for name in CONFIG_FILE_NAMES if (path := Path(folder) / name).is_file()]
    if len(found) > 1:
        raise ConfigError(
            f"There are several configuration files: {', '.join(path.name for path in found)}.",
            fix=f"keep one, or name it: --config {found[0].name}.",
        )
    return found[0] if found else None
