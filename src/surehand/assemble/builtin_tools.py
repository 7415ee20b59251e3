"""The built-in tools that a configuration asks for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from surehand.config.builtin_section import SearchSettings, ToolFamily
from surehand.config.config import Config
from surehand.config.node import ConfigNode
from surehand.config.parsers import expand_variables
from surehand.config.store_address import IN_MEMORY_ADDRESS, is_server_address
from surehand.core.errors import DefinitionError
from surehand.core.tool import Tool
from surehand.sandbox.sandbox import Sandbox, Unprotected

if TYPE_CHECKING:
    from surehand.builtin.web.search_engines import SearchEngine
    from surehand.workspace.workspace import Workspace

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
_SANDBOX_SETTINGS = ("network", "env", "read", "write", "cpu", "memory", "processes")


def build_builtin_tools(config: Config, environment: Mapping[str, str], store: str | None = None) -> ToolList:
    """The tools of every family that is asked for; none of them may touch the store, or change what is run."""
    shared = _SharedParts(config, environment, store)
    return [tool for family in config.builtin for tool in _build_family(family, shared)]


class _SharedParts:
    """What several families need; made once, and only if one of them is there."""

    def __init__(self, config: Config, environment: Mapping[str, str], store: str | None) -> None:
        self.config, self.environment, self.store = config, environment, store

    @cached_property
    def workspace(self) -> Workspace:
        from surehand.workspace.workspace import Workspace  # loaded only for families that touch files

        given, options = self.config.workspace, {"fixed": self._executed_files(), "private": self._store_files()}
        if given is None:
            return Workspace.detect(self.config.base_folder, environment=self.environment, **options)
        return Workspace.detect(
            given.resolve_root(self.environment),
            environment=self.environment,
            **given.options(self.environment),
            **options,
        )

    def _executed_files(self) -> list[Path]:
        """The configuration, and files with tools: whoever changes them runs code in this program the next time."""
        named = [self.config.base_folder / source.location.partition(":")[0] for source in self.config.tools]
        found = [path.resolve() for path in named if path.exists()]
        if self.config.mcp_servers is not None:
            from surehand.assemble.mcp_servers import server_files  # loaded by those alone who have any

            found += [path.resolve() for path in server_files(self.config)]
        return [*found, *([self.config.path.resolve()] if self.config.path else [])]

    def _store_files(self) -> list[Path]:
        if self.store is None or is_server_address(self.store) or self.store == IN_MEMORY_ADDRESS:
            return []
        return [Path(self.store).resolve()]

    def resolve_folder(self, node: ConfigNode) -> Path:
        """A folder, relative to the configuration file."""
        return self.config.base_folder / Path(expand_variables(node, self.environment)).expanduser()


def _factory(name: str) -> Callable[..., ToolList]:
    """The factory of a family. Its module is imported now, so that families that are not configured cost nothing."""
    module = import_module(f"surehand.builtin.{_FACTORY_MODULES[name]}")
    factory: Callable[..., ToolList] = getattr(module, name)
    return factory


def _build_family(family: ToolFamily, shared: _SharedParts) -> ToolList:
    make = _FAMILY_BUILDERS.get(family.name)
    try:
        return make(family.settings, shared) if make else _factory(family.name)(**family.settings)
    except DefinitionError as error:
        raise family.node.error(error.problem, error.fix) from error


def _build_files(settings: Mapping[str, Any], shared: _SharedParts) -> ToolList:
    return _factory("files")(shared.workspace, **settings)


def _build_shell(settings: Mapping[str, Any], shared: _SharedParts) -> ToolList:
    given = dict(settings)
    limits = {name: given.pop(name) for name in _SANDBOX_SETTINGS if name in given}
    jail = _build_unprotected(limits) if given.pop("unprotected", False) else Sandbox(**limits)
    return _factory("shell")(shared.workspace, sandbox=jail, **given)


def _build_unprotected(limits: Mapping[str, Any]) -> Unprotected:
    if useless := [name for name in ("network", "read", "write") if name in limits]:
        raise DefinitionError(
            f"{', '.join(useless)} mean nothing for commands that are unprotected.", fix="take out one or the other."
        )
    return Unprotected(**limits)


def _build_web(settings: Mapping[str, Any], shared: _SharedParts) -> ToolList:
    given = dict(settings)
    search = given.pop("search", None)
    return _factory("web")(search=_build_search_engine(search, shared) if search else None, **given)


def _build_search_engine(search: SearchSettings, shared: _SharedParts) -> SearchEngine:
    from surehand.builtin.web import search_engines  # loaded by those alone who search

    given = {name: expand_variables(place, shared.environment) for name, place in search.settings.items()}
    engine: SearchEngine = getattr(search_engines, search.engine)(**given)
    return engine


def _folder_builder(name: str) -> Callable[[Mapping[str, Any], _SharedParts], ToolList]:
    def made(settings: Mapping[str, Any], shared: _SharedParts) -> ToolList:
        tools: ToolList = _factory(name)(shared.resolve_folder(settings["folder"]))
        return tools

    return made


_FAMILY_BUILDERS: dict[str, Callable[[Mapping[str, Any], _SharedParts], ToolList]] = {
    "files": _build_files,
    "shell": _build_shell,
    "web": _build_web,
    **{name: _folder_builder(name) for name in ("memory", "tasks", "sessions")},
}
