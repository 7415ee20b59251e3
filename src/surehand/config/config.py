"""Config: everything that a configuration file says."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from surehand.config import mcp, sections
from surehand.config.builtin import Family, builtin
from surehand.config.document import read_document
from surehand.config.errors import ConfigError
from surehand.config.mcp import McpServers
from surehand.config.place import Place
from surehand.config.sections import Address, Source, Workspace
from surehand.config.values import known_entries
from surehand.runtime.defaults import Defaults
from surehand.runtime.policy import Policy
from surehand.runtime.queues import Queue

NAMES = ("surehand.yaml", "surehand.yml", "surehand.json", "surehand.toml")
"""What a configuration file is called when nobody names one."""

SECTIONS: Mapping[str, Callable[[Place], Any]] = {
    "defaults": sections.defaults,
    "workspace": sections.workspace,
    "builtin": builtin,
    "policy": sections.policy,
    "queues": sections.queues,
    "store": sections.store,
    "tools": sections.tools,
    "mcp_servers": mcp.mcp_servers,
    "inputs": mcp.inputs,
}
_OTHERS = {"servers": "mcp_servers", "mcp": "mcp_servers"}
"""As VS Code and others call them in files of their own."""
_LEFT_OUT = ("$schema", "sandbox", "global_shortcut", "preferences")
"""What other programs' files say of themselves."""
LATER = ("rest_tools", "openapi", "agents", "gateway")


@dataclass(frozen=True, slots=True)
class Config:
    """What the file says; a section that is not there has its default."""

    path: Path | None = None
    defaults: Defaults = field(default_factory=Defaults)
    workspace: Workspace | None = None
    builtin: tuple[Family, ...] = ()
    policy: Policy | None = None
    queues: Mapping[str, Queue] = field(default_factory=dict)
    store: Address | None = None
    tools: tuple[Source, ...] = ()
    mcp_servers: McpServers | None = None
    inputs: McpServers | None = None
    """What VS Code would ask for to fill in its servers."""

    @property
    def folder(self) -> Path:
        """What the file's own paths are relative to."""
        return self.path.parent if self.path is not None else Path()


def read_config(path: str | Path) -> Config:
    """Read a configuration file, refusing whatever in it means nothing."""
    path = Path(path)
    found = known_entries(read_document(path), SECTIONS, others=_OTHERS, later=LATER, left_out=_LEFT_OUT)
    # `policy:` with nothing after it is read as null, and says nothing.
    return Config(path, **{name: SECTIONS[name](inside) for name, inside in found.items() if inside.value is not None})


def find_config(folder: str | Path = ".") -> Path | None:
    """The configuration file of a folder; two of them are an error, because one would be ignored."""
    found = [path for name in NAMES if (path := Path(folder) / name).is_file()]
    if len(found) > 1:
        raise ConfigError(
            f"There are several configuration files: {', '.join(path.name for path in found)}.",
            fix=f"keep one, or name it: --config {found[0].name}.",
        )
    return found[0] if found else None
