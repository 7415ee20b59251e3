"""The built-in tools that a configuration asks for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from surehand import builtin
from surehand.config.address import IN_MEMORY, is_server
from surehand.config.builtin import Family, Search
from surehand.config.config import Config
from surehand.config.place import Place
from surehand.config.values import expanded
from surehand.core.errors import DefinitionError
from surehand.core.tool import Tool
from surehand.sandbox.sandbox import Sandbox, Unprotected

if TYPE_CHECKING:
    from surehand.builtin.search_engines import Engine

Tools: TypeAlias = list[Tool[..., Any]]
_SANDBOX = ("network", "env", "read", "write", "cpu", "memory", "processes")


def built_in(config: Config, environment: Mapping[str, str], store: str | None = None) -> Tools:
    """The tools of every family that is asked for; none of them may touch the store, or change what is run."""
    shared = _Shared(config, environment, store)
    return [tool for family in config.builtin for tool in _made(family, shared)]


class _Shared:
    """What several families need; made once, and only if one of them is there."""

    def __init__(self, config: Config, environment: Mapping[str, str], store: str | None) -> None:
        self.config, self.environment, self.store = config, environment, store

    @cached_property
    def workspace(self) -> builtin.Workspace:
        given, options = self.config.workspace, {"fixed": self._run_by_us(), "private": self._kept_by_us()}
        if given is None:
            return builtin.Workspace.detect(self.config.folder, environment=self.environment, **options)
        return builtin.Workspace.detect(
            given.folder(self.environment), environment=self.environment, **given.options(self.environment), **options
        )

    def _run_by_us(self) -> list[Path]:
        """The configuration, and files with tools: whoever changes them runs code in this program the next time."""
        named = [self.config.folder / source.text.partition(":")[0] for source in self.config.tools]
        found = [path.resolve() for path in named if path.exists()]
        if self.config.mcp_servers is not None:
            from surehand.assemble.mcp import run_here  # loaded by those alone who have any

            found += [path.resolve() for path in run_here(self.config)]
        return [*found, *([self.config.path.resolve()] if self.config.path else [])]

    def _kept_by_us(self) -> list[Path]:
        if self.store is None or is_server(self.store) or self.store == IN_MEMORY:
            return []
        return [Path(self.store).resolve()]

    def folder(self, place: Place) -> Path:
        """A folder, relative to the configuration file."""
        return self.config.folder / Path(expanded(place, self.environment)).expanduser()


def _made(family: Family, shared: _Shared) -> Tools:
    make = _MAKERS.get(family.name)
    try:
        return make(family.settings, shared) if make else getattr(builtin, family.name)(**family.settings)
    except DefinitionError as error:
        raise family.place.error(error.problem, error.fix) from error


def _files(settings: Mapping[str, Any], shared: _Shared) -> Tools:
    return builtin.files(shared.workspace, **settings)


def _shell(settings: Mapping[str, Any], shared: _Shared) -> Tools:
    given = dict(settings)
    limits = {name: given.pop(name) for name in _SANDBOX if name in given}
    jail = _unprotected(limits) if given.pop("unprotected", False) else Sandbox(**limits)
    return builtin.shell(shared.workspace, sandbox=jail, **given)


def _unprotected(limits: Mapping[str, Any]) -> Unprotected:
    if useless := [name for name in ("network", "read", "write") if name in limits]:
        raise DefinitionError(
            f"{', '.join(useless)} mean nothing for commands that are unprotected.", fix="take out one or the other."
        )
    return Unprotected(**limits)


def _web(settings: Mapping[str, Any], shared: _Shared) -> Tools:
    given = dict(settings)
    search = given.pop("search", None)
    return builtin.web(search=_engine(search, shared) if search else None, **given)


def _engine(search: Search, shared: _Shared) -> Engine:
    from surehand.builtin import search_engines  # loaded by those alone who search

    given = {name: expanded(place, shared.environment) for name, place in search.settings.items()}
    engine: Engine = getattr(search_engines, search.engine)(**given)
    return engine


def _in_folder(name: str) -> Callable[[Mapping[str, Any], _Shared], Tools]:
    def made(settings: Mapping[str, Any], shared: _Shared) -> Tools:
        tools: Tools = getattr(builtin, name)(shared.folder(settings["folder"]))
        return tools

    return made


_MAKERS: dict[str, Callable[[Mapping[str, Any], _Shared], Tools]] = {
    "files": _files,
    "shell": _shell,
    "web": _web,
    **{name: _in_folder(name) for name in ("memory", "tasks", "sessions")},
}
