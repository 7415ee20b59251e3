"""Options that most commands share: where the tools come from, where calls are remembered, and how much is told."""

from __future__ import annotations

import logging
import os
import shlex
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import update_wrapper
from pathlib import Path
from typing import Any

import click

from surehand.assemble import ToolSourceError, assemble, load_tool_source
from surehand.catalogue.catalogue import Catalogue
from surehand.catalogue.listing import Listing
from surehand.cli.exit_codes import EXIT_USAGE, CommandExit
from surehand.config.config import Config, find_config, read_config
from surehand.config.errors import ConfigError
from surehand.config.store_address import hide_password, is_server_address, resolve_store_address
from surehand.core.durations import parse_duration
from surehand.core.errors import DefinitionError
from surehand.runtime.runtime import Runtime
from surehand.runtime.services import Approver

toolset_option = click.option(
    "--toolset",
    "toolsets",
    multiple=True,
    metavar="NAME",
    help="Only tools of this toolset, or whose names match a glob, as in 'git__*'.",
)


def listings_in_toolset(catalogue: Catalogue, name: str) -> list[Listing]:
    """The tools of the toolset, and those whose names match."""
    try:
        named = catalogue.toolset(name)
    except KeyError:  # then it can only be a glob
        named = []
    return list(dict.fromkeys([*named, *catalogue.select(name)]))


class DurationParam(click.ParamType[float | None]):
    """30, 30s, 5m or off."""

    name = "duration"

    def __init__(self, *, allow_zero: bool = False) -> None:
        self._allow_zero = allow_zero

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float | None:
        """Seconds, or None for `off`."""
        try:
            found = parse_duration(value)
        except ValueError:
            self.fail(f"{value!r} is no duration: write 30s, 5m or off.", param, ctx)
        if found is not None and found <= 0 and not self._allow_zero:
            self.fail("the time limit must be above zero.", param, ctx)
        return found


NO_TOOLS_MESSAGE = (
    "There are no tools here. Name them with --tools tools.py, or write a surehand.yaml: `surehand init` makes one."
)
NO_STORE_MESSAGE = "No store is configured. Add `store: surehand.db` to {file}, or name one with --store surehand.db."
MISSING_STORE_MESSAGE = (
    "There is no store {file}. The first call that is remembered makes it, and so does `surehand store migrate`."
)
_STORE_ONLY_COMMANDS = ("pending", "show")
"""Commands that look at a store, and need no tools for that."""


@dataclass(frozen=True, slots=True)
class RuntimeOptions:
    """Where the tools come from and where calls are remembered, as the command line says."""

    tool_sources: tuple[str, ...] = ()
    config_path: str | None = None
    store_override: str | None = None
    """An address that takes the place of the configuration's."""

    def build_runtime(self, approver: Approver | None = None) -> Runtime:
        """A runtime of these tools, before any loop runs: modules may take their time, or run a loop of their own.

        It has no store: with one it would go on with calls that were answered, and looking at tools must not run any.
        """
        return self._assemble(replace(self._read_config(), store=None), None, approver)

    def build_runtime_with_store(self, approver: Approver | None = None) -> Runtime:
        """The same with the store, where there is one."""
        config = self._read_config()
        return self._assemble(config, self._find_store_address(config), approver)

    def build_answering_runtime(self) -> Runtime:
        """The same with a store that has to be there. Tools need not be: then others go on with what is answered."""
        address = self.require_store_address()
        return self._assemble(self._read_config(), address, None)

    def require_store_address(self, *, may_be_new: bool = False) -> str:
        """The store that is meant; it has to be there already unless it may be new."""
        config = self._read_config()
        found = self._find_store_address(config)
        if found is None:
            raise CommandExit(EXIT_USAGE, NO_STORE_MESSAGE.format(file=config.path or "a surehand.yaml"))
        if not may_be_new and not is_server_address(found) and not Path(found).exists():
            raise CommandExit(EXIT_USAGE, MISSING_STORE_MESSAGE.format(file=relative_path(found)))
        return found

    def follow_up_command(self, verb: str, *words: str) -> str:
        """A further command with the same options, as far as it takes them, for people to copy."""
        sources = () if verb in _STORE_ONLY_COMMANDS else self.tool_sources
        options = [option for source in sources for option in ("-t", source)]
        options += ["-c", self.config_path] if self.config_path else []
        options += ["--store", relative_path(hide_password(self.store_override))] if self.store_override else []
        return shlex.join(["surehand", verb, *options, *words])

    def _read_config(self) -> Config:
        try:
            found = self.config_path if self.config_path or self.tool_sources else find_config()
            return read_config(found) if found else Config()
        except ConfigError as error:
            raise CommandExit(EXIT_USAGE, error_message(error)) from error

    def _find_store_address(self, config: Config) -> str | None:
        try:
            found = (
                config.store.resolve_address(os.environ)
                if config.store and not self.store_override
                else self.store_override
            )
        except ConfigError as error:
            raise CommandExit(EXIT_USAGE, error_message(error)) from error
        if found is not None and is_server_address(found):
            _validate_server_address(found)
        return found

    def _assemble(self, config: Config, store: str | None, approver: Approver | None) -> Runtime:
        if config.path is None and not self.tool_sources and store is None:
            raise CommandExit(EXIT_USAGE, NO_TOOLS_MESSAGE)
        try:
            return assemble(
                config, *(load_tool_source(source) for source in self.tool_sources), store=store, approver=approver
            )
        except (ConfigError, ToolSourceError, DefinitionError) as error:
            raise CommandExit(EXIT_USAGE, error_message(error)) from error


def _validate_server_address(address: str) -> None:
    """Here, because the database's own complaint would show the password."""
    try:
        from psycopg import ProgrammingError
        from psycopg.conninfo import conninfo_to_dict
    except ImportError:
        return  # opening it says what is missing
    try:
        conninfo_to_dict(address)
    except ProgrammingError:
        problem = "The address of the store is no valid postgresql:// address."
        raise CommandExit(
            EXIT_USAGE, f"{problem} Write special characters of a password as %40 and the like."
        ) from None


def relative_path(path: str) -> str:
    """A file as people name it: from where they are."""
    return path.removeprefix(f"{Path.cwd()}/")


def error_message(error: Exception) -> str:
    """An error that names files so."""
    return str(error).replace(f"{Path.cwd()}/", "")


class StoreAddressParam(click.ParamType[str]):
    """A file, or a postgresql:// address."""

    name = "address"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The address; a file is meant in the current folder."""
        try:
            return resolve_store_address(value, Path())
        except ValueError as error:
            self.fail(str(error), param, ctx)


_TOOLS_OPTION = click.option(
    "-t", "--tools", multiple=True, metavar="SOURCE", help="file.py, package.module, or either:object."
)
_CONFIG_OPTION = click.option(
    "-c", "--config", metavar="FILE", help="Configuration file [surehand.yaml, .yml, .json, .toml]."
)
_STORE_OPTION = click.option(
    "--store",
    type=StoreAddressParam(),
    metavar="ADDRESS",
    help="Where calls are remembered: a file or postgresql://...",
)
_DEBUG_OPTION = click.option("--debug", is_flag=True, help="Show tracebacks and the runtime's own log.")


def with_tools(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command a `Given` of the tools that its options name."""
    return _TOOLS_OPTION(_CONFIG_OPTION(_DEBUG_OPTION(_pass_runtime_options(command))))


def with_store(command: Callable[..., None]) -> Callable[..., None]:
    """The same of a store."""
    return _STORE_OPTION(_CONFIG_OPTION(_DEBUG_OPTION(_pass_runtime_options(command))))


def with_tools_and_store(command: Callable[..., None]) -> Callable[..., None]:
    """The same of both."""
    return _TOOLS_OPTION(with_store(command))


def _pass_runtime_options(command: Callable[..., None]) -> Callable[..., None]:
    @click.pass_context
    def run(
        ctx: click.Context,
        /,
        config: str | None,
        debug: bool,
        tools: tuple[str, ...] = (),
        store: str | None = None,
        **others: Any,
    ) -> None:
        if debug:
            logging.getLogger("surehand").setLevel(logging.DEBUG)
            ctx.obj["debug"] = True
        command(RuntimeOptions(tools, config, store), **others)

    return update_wrapper(run, command)
