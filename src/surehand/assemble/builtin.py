"""The built-in tools that a configuration asks for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from surehand import builtin
from surehand.config.address import IN_MEMORY_ADDRESS, is_server_address
from surehand.config.builtin import SearchSettings, ToolFamily
from surehand.config.config import Config
from surehand.config.place import ConfigNode
from surehand.config.values import expand_variables
from surehand.core.errors import DefinitionError
from surehand.core.tool import Tool
from surehand.sandbox.sandbox import Sandbox, Unprotected

if TYPE_CHECKING:
    from surehand.builtin.search_engines import SearchEngine

ToolList: TypeAlias = list[Tool[..., Any]]
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
    def workspace(self) -> builtin.Workspace:
        given, options = self.config.workspace, {"fixed": self._executed_files(), "private": self._store_files()}
        if given is None:
            return builtin.Workspace.detect(self.config.base_folder, environment=self.environment, **options)
        return builtin.Workspace.detect(
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
            from surehand.assemble.mcp import server_files  # loaded by those alone who have any

            found += [path.resolve() for path in server_files(self.config)]
        return [*found, *([self.config.path.resolve()] if self.config.path else [])]

    def _store_files(self) -> list[Path]:
        if self.store is None or is_server_address(self.store) or self.store == IN_MEMORY_ADDRESS:
            return []
        return [Path(self.store).resolve()]

    def resolve_folder(self, node: ConfigNode) -> Path:
        """A folder, relative to the configuration file."""
        return self.config.base_folder / Path(expand_variables(node, self.environment)).expanduser()


def _build_family(family: ToolFamily, shared: _SharedParts) -> ToolList:
    make = _FAMILY_BUILDERS.get(family.name)
    try:
        return make(family.settings, shared) if make else getattr(builtin, family.name)(**family.settings)
    except DefinitionError as error:
        raise family.node.error(error.problem, error.fix) from error


def _build_files(settings: Mapping[str, Any], shared: _SharedParts) -> ToolList:
    return builtin.files(shared.workspace, **settings)


def _build_shell(settings: Mapping[str, Any], shared: _SharedParts) -> ToolList:
    given = dict(settings)
    limits = {name: given.pop(name) for name in _SANDBOX_SETTINGS if name in given}
    jail = _build_unprotected(limits) if given.pop("unprotected", False) else Sandbox(**limits)
    return builtin.shell(shared.workspace, sandbox=jail, **given)


def _build_unprotected(limits: Mapping[str, Any]) -> Unprotected:
    if useless := [name for name in ("network", "read", "write") if name in limits]:
        raise DefinitionError(
            f"{', '.join(useless)} mean nothing for commands that are unprotected.", fix="take out one or the other."
        )
    return Unprotected(**limits)


def _build_web(settings: Mapping[str, Any], shared: _SharedParts) -> ToolList:
    given = dict(settings)
    search = given.pop("search", None)
    return builtin.web(search=_build_search_engine(search, shared) if search else None, **given)


def _build_search_engine(search: SearchSettings, shared: _SharedParts) -> SearchEngine:
    from surehand.builtin import search_engines  # loaded by those alone who search

    given = {name: expand_variables(place, shared.environment) for name, place in search.settings.items()}
    engine: SearchEngine = getattr(search_engines, search.engine)(**given)
    return engine


def _folder_builder(name: str) -> Callable[[Mapping[str, Any], _SharedParts], ToolList]:
    def made(settings: Mapping[str, Any], shared: _SharedParts) -> ToolList:
        tools: ToolList = getattr(builtin, name)(shared.resolve_folder(settings["folder"]))
        return tools

    return made


_FAMILY_BUILDERS: dict[str, Callable[[Mapping[str, Any], _SharedParts], ToolList]] = {
    "files": _build_files,
    "shell": _build_shell,
    "web": _build_web,
    **{name: _folder_builder(name) for name in ("memory", "tasks", "sessions")},
}
