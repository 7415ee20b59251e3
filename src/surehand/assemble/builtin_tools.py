"""Builds the built-in tools that a configuration enables."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from surehand.config.builtin_section import SearchSettings, ToolFamily
from surehand.config.config import CONFIG_FILE_NAMES, LOCK_FILE_NAME, Config
from surehand.config.errors import ConfigError
from surehand.config.node import ConfigNode
from surehand.config.parsers import expand_variables
from surehand.config.store_address import IN_MEMORY_ADDRESS, is_server_address
from surehand.core.errors import DefinitionError, NotStarted
from surehand.core.tool import Tool
from surehand.sandbox.sandbox import Sandbox, Unprotected

if TYPE_CHECKING:
    from surehand.builtin.web.search_engines import SearchEngine
    from surehand.builtin.web.search_engines.engine import SearchQuery, SearchResult
    from surehand.workspace.workspace import Workspace

log = logging.getLogger("surehand")
ToolList: TypeAlias = list[Tool[..., Any]]
_FACTORY_MODULES = {
    "clock": "clock",
    "data": "data",
    "delegate": "agent.delegate",
    "env": "env",
    "files": "files.tools",
    "goals": "agent.goals",
    "inbox": "agent.inbox",
    "memories": "agent.memories",
    "memory": "memory",
    "plans": "agent.plans",
    "sessions": "agent.tasks",
    "shell": "shell.tools",
    "spaces": "agent.spaces",
    "tasks": "agent.tasks",
    "todo": "todo",
    "web": "web.tools",
}
"""Module of each factory, relative to `surehand.builtin`."""
_NO_EFFECT_REASONS = {
    "delegate": "they only return what an agent's host is to do, and there are no agents yet",
    "plans": "there are no agents yet, which due plans would wake",
}
"""Families that have an effect only in a program that acts on their outcomes, each with what is missing."""
_SANDBOX_SETTINGS = ("network", "env", "read", "write", "cpu", "memory", "processes")


def build_families(
    config: Config, environment: Mapping[str, str], store: str | None = None
) -> list[tuple[ToolFamily, ToolList]]:
    """Build the tools of every enabled family; none can read the store or change files that this program runs."""
    shared = _SharedResources(config, environment, store)
    for family in config.builtin:
        if family.name in _NO_EFFECT_REASONS:
            log.warning("The tools of %s have no effect yet: %s.", family.name, _NO_EFFECT_REASONS[family.name])
    return [(family, _build_family(family, shared)) for family in config.builtin]


def build_builtin_tools(config: Config, environment: Mapping[str, str], store: str | None = None) -> ToolList:
    """The tools of all families in one list."""
    return [tool for _, tools in build_families(config, environment, store) for tool in tools]


class _SharedResources:
    """The configuration and the workspace, which several families share."""

    def __init__(self, config: Config, environment: Mapping[str, str], store: str | None) -> None:
        self.config = config
        self.environment = environment
        self.store = store
        self._workspace: Workspace | None = None

    def open_workspace(self) -> Workspace:
        """The one workspace of all families that touch files."""
        if self._workspace is None:
            self._workspace = self._detect_workspace()
        return self._workspace

    def _detect_workspace(self) -> Workspace:
        from surehand.workspace.workspace import Workspace  # loaded only for families that touch files

        settings = self.config.workspace
        protected = {"fixed": self._executed_files(), "private": self._store_files()}
        if settings is None:
            return Workspace.detect(self.config.base_folder, environment=self.environment, **protected)
        return Workspace.detect(
            settings.resolve_root(self.environment),
            environment=self.environment,
            **settings.options(self.environment),
            **protected,
        )

    def _executed_files(self) -> list[Path]:
        """Files that this program runs or trusts: the configuration, files with tools, and files of MCP servers.

        Tools must not change them, and not create them either: the content would run in this program the next time.
        """
        from surehand.workspace.program_files import find_modules, imported_files  # as for the workspace

        folder = self.config.base_folder.resolve()
        files: set[Path] = {folder / name for name in (*CONFIG_FILE_NAMES, LOCK_FILE_NAME)}
        sources = [source.location for source in self.config.tools]
        sources += [each.name for agent in self.config.agents for each in agent.middleware if ":" in each.name]
        for source in sources:
            location = source.partition(":")[0]
            found = [folder / location] if (folder / location).is_file() else find_modules(folder, location)
            files.update(path for module in found for path in (module, *imported_files(module)))
        for section in (self.config.mcp_servers, *(agent.mcp for agent in self.config.agents)):
            if section is not None:
                from surehand.assemble.mcp_servers import server_files  # imports the MCP SDK

                files.update(server_files(replace(self.config, mcp_servers=section)))
        if self.config.path is not None:
            files.add(self.config.path)
        return sorted(path.resolve() for path in files)

    def _store_files(self) -> list[Path]:
        if self.store is None or is_server_address(self.store) or self.store == IN_MEMORY_ADDRESS:
            return []
        return [Path(self.store).resolve()]

    def resolve_folder(self, node: ConfigNode) -> Path:
        """Resolve a folder relative to the configuration file."""
        return self.config.base_folder / Path(expand_variables(node, self.environment)).expanduser()


def _factory(name: str) -> Callable[..., ToolList]:
    """Import the factory of a family. Modules of families that are not enabled are never imported."""
    module = import_module(f"surehand.builtin.{_FACTORY_MODULES[name]}")
    factory: Callable[..., ToolList] = getattr(module, name)
    return factory


def _build_family(family: ToolFamily, shared: _SharedResources) -> ToolList:
    build = _FAMILY_BUILDERS.get(family.name)
    try:
        if build is not None:
            return build(family.settings, shared)
        return _factory(family.name)(**family.settings)
    except DefinitionError as error:
        raise family.node.error(error.problem, error.fix) from error


def _build_files(settings: Mapping[str, Any], shared: _SharedResources) -> ToolList:
    return _factory("files")(shared.open_workspace(), **settings)


def _build_shell(settings: Mapping[str, Any], shared: _SharedResources) -> ToolList:
    options = dict(settings)
    sandbox_settings = {name: options.pop(name) for name in _SANDBOX_SETTINGS if name in options}
    is_unprotected = options.pop("unprotected", False)
    sandbox = _build_unprotected(sandbox_settings) if is_unprotected else Sandbox(**sandbox_settings)
    return _factory("shell")(shared.open_workspace(), sandbox=sandbox, **options)


def _build_unprotected(limits: Mapping[str, Any]) -> Unprotected:
    if conflicts := [name for name in ("network", "read", "write") if name in limits]:
        raise DefinitionError(
            f"{', '.join(conflicts)} cannot be combined with `unprotected`.", fix="remove one or the other."
        )
    return Unprotected(**limits)


def _build_web(settings: Mapping[str, Any], shared: _SharedResources) -> ToolList:
    options = dict(settings)
    search: SearchSettings | None = options.pop("search", None)
    if search is None:
        return _factory("web")(**options)
    if search.max_results is not None:
        options["max_results"] = search.max_results
    return _factory("web")(search=_build_search_engine(search, shared), **options)


def _build_search_engine(search: SearchSettings, shared: _SharedResources) -> SearchEngine:
    from surehand.builtin.web import search_engines  # imports the HTTP client

    try:
        options: dict[str, Any] = {
            name: expand_variables(node, shared.environment) for name, node in search.settings.items()
        }
    except ConfigError as error:
        if not search.is_optional:
            raise
        log.warning("web_search cannot be used: %s", error)
        return _MissingSearchEngine(search.engine, error.problem)
    # The developer wrote the address into the file, so it may be private; the model cannot choose another one.
    options["allow_private"] = bool({"endpoint", "url"} & options.keys())
    engine: SearchEngine = getattr(search_engines, search.engine)(**options)
    return engine


@dataclass(frozen=True, slots=True)
class _MissingSearchEngine:
    """Stands for an engine with a variable that is not set."""

    name: str
    problem: str
    topics: tuple[str, ...] = ()

    async def search(self, search_query: SearchQuery) -> list[SearchResult]:
        raise NotStarted(f"web_search is not set up: {self.problem} Go on without searching the web.")


def _folder_builder(name: str) -> Callable[[Mapping[str, Any], _SharedResources], ToolList]:
    """A builder for a family whose factory takes a folder."""

    def build(settings: Mapping[str, Any], shared: _SharedResources) -> ToolList:
        return _factory(name)(shared.resolve_folder(settings["folder"]))

    return build


_FAMILY_BUILDERS: dict[str, Callable[[Mapping[str, Any], _SharedResources], ToolList]] = {
    "files": _build_files,
    "shell": _build_shell,
    "web": _build_web,
    **{name: _folder_builder(name) for name in ("memory", "tasks", "sessions")},
}
