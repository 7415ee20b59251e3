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

from surehand.assemble import SourceError, assemble, load
from surehand.cli.exits import USAGE, Ended
from surehand.config.address import is_server, store_address, without_password
from surehand.config.config import Config, find_config, read_config
from surehand.config.errors import ConfigError
from surehand.core.errors import DefinitionError
from surehand.runtime.parts import Approver
from surehand.runtime.runtime import Runtime

NOTHING = (
    "There are no tools here. Name them with --tools tools.py, or write a surehand.yaml: `surehand init` makes one."
)
NO_STORE = "No store is configured. Add `store: surehand.db` to {file}, or name one with --store surehand.db."
NOT_THERE = (
    "There is no store {file}. The first call that is remembered makes it, and so does `surehand store migrate`."
)
_LOOKING = ("pending", "show")
"""Commands that look at a store, and need no tools for that."""


@dataclass(frozen=True, slots=True)
class Given:
    """Where the tools come from and where calls are remembered, as the command line says."""

    tools: tuple[str, ...] = ()
    config: str | None = None
    store: str | None = None
    """An address that takes the place of the configuration's."""

    def assembled(self, approver: Approver | None = None) -> Runtime:
        """A runtime of these tools, before any loop runs: modules may take their time, or run a loop of their own.

        It has no store: with one it would go on with calls that were answered, and looking at tools must not run any.
        """
        return self._assembled(replace(self._read(), store=None), None, approver)

    def remembering(self, approver: Approver | None = None) -> Runtime:
        """The same with the store, where there is one."""
        config = self._read()
        return self._assembled(config, self._address(config), approver)

    def answering(self) -> Runtime:
        """The same with a store that has to be there. Tools need not be: then others go on with what is answered."""
        address = self.address()
        return self._assembled(self._read(), address, None)

    def address(self, *, new: bool = False) -> str:
        """The store that is meant; it has to be there already unless it may be new."""
        config = self._read()
        found = self._address(config)
        if found is None:
            raise Ended(USAGE, NO_STORE.format(file=config.path or "a surehand.yaml"))
        if not new and not is_server(found) and not Path(found).exists():
            raise Ended(USAGE, NOT_THERE.format(file=near(found)))
        return found

    def command(self, verb: str, *words: str) -> str:
        """A further command with the same options, as far as it takes them, for people to copy."""
        sources = () if verb in _LOOKING else self.tools
        options = [option for source in sources for option in ("-t", source)]
        options += ["-c", self.config] if self.config else []
        options += ["--store", near(without_password(self.store))] if self.store else []
        return shlex.join(["surehand", verb, *options, *words])

    def _read(self) -> Config:
        try:
            found = self.config if self.config or self.tools else find_config()
            return read_config(found) if found else Config()
        except ConfigError as error:
            raise Ended(USAGE, shown(error)) from error

    def _address(self, config: Config) -> str | None:
        try:
            found = config.store.text(os.environ) if config.store and not self.store else self.store
        except ConfigError as error:
            raise Ended(USAGE, shown(error)) from error
        if found is not None and is_server(found):
            _check_server(found)
        return found

    def _assembled(self, config: Config, store: str | None, approver: Approver | None) -> Runtime:
        if config.path is None and not self.tools and store is None:
            raise Ended(USAGE, NOTHING)
        try:
            return assemble(config, *(load(source) for source in self.tools), store=store, approver=approver)
        except (ConfigError, SourceError, DefinitionError) as error:
            raise Ended(USAGE, shown(error)) from error


def _check_server(address: str) -> None:
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
        raise Ended(USAGE, f"{problem} Write special characters of a password as %40 and the like.") from None


def near(path: str) -> str:
    """A file as people name it: from where they are."""
    return path.removeprefix(f"{Path.cwd()}/")


def shown(error: Exception) -> str:
    """An error that names files so."""
    return str(error).replace(f"{Path.cwd()}/", "")


class StoreAddress(click.ParamType[str]):
    """A file, or a postgresql:// address."""

    name = "address"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The address; a file is meant in the current folder."""
        try:
            return store_address(value, Path())
        except ValueError as error:
            self.fail(str(error), param, ctx)


_TOOLS = click.option(
    "-t", "--tools", multiple=True, metavar="SOURCE", help="file.py, package.module, or either:object."
)
_CONFIG = click.option("-c", "--config", metavar="FILE", help="Configuration file [surehand.yaml, .yml, .json, .toml].")
_STORE = click.option(
    "--store", type=StoreAddress(), metavar="ADDRESS", help="Where calls are remembered: a file or postgresql://..."
)
_DEBUG = click.option("--debug", is_flag=True, help="Show tracebacks and the runtime's own log.")


def with_tools(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command a `Given` of the tools that its options name."""
    return _TOOLS(_CONFIG(_DEBUG(_given(command))))


def with_store(command: Callable[..., None]) -> Callable[..., None]:
    """The same of a store."""
    return _STORE(_CONFIG(_DEBUG(_given(command))))


def with_tools_and_store(command: Callable[..., None]) -> Callable[..., None]:
    """The same of both."""
    return _TOOLS(with_store(command))


def _given(command: Callable[..., None]) -> Callable[..., None]:
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
        command(Given(tools, config, store), **others)

    return update_wrapper(run, command)
