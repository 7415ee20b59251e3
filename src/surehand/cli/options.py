"""Options that commands share: tool sources, configuration, store, toolsets and --debug; and their parameter types."""

from __future__ import annotations

import logging
import os
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import update_wrapper
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from surehand.assemble import ToolSourceError, assemble, load_tool_source
from surehand.catalogue.catalogue import Catalogue
from surehand.catalogue.listing import Listing
from surehand.cli.exit_codes import EXIT_USAGE, CommandExit
from surehand.cli.stderr_log import log_calls, use_configured_level
from surehand.config.config import Config, find_config, read_config
from surehand.config.errors import ConfigError
from surehand.config.store_address import hide_password, is_server_address, resolve_store_address
from surehand.core.durations import parse_duration
from surehand.core.errors import DefinitionError, InvalidArguments
from surehand.core.strict_json import parse_json
from surehand.runtime.pending.pending_call import Approver
from surehand.runtime.runtime import Runtime

if TYPE_CHECKING:
    from surehand.agent.agent import Agent

NO_TOOLS_MESSAGE = (
    "No tools are configured. Name some with --tools tools.py, or write a surehand.yaml: `surehand init` creates one."
)
NO_STORE_MESSAGE = "No store is configured. Add `store: surehand.db` to {file}, or name one with --store surehand.db."
MISSING_STORE_MESSAGE = (
    "The store {file} does not exist. The first call that is stored creates it, and so does `surehand store migrate`."
)
_STORE_ONLY_COMMANDS = ("pending", "show")
"""Commands that read a store and need no tools."""
toolset_option = click.option(
    "--toolset",
    "toolsets",
    multiple=True,
    metavar="NAME",
    help="Only tools of this toolset, or whose names match a glob, as in 'git__*'.",
)


@dataclass(frozen=True, slots=True)
class RuntimeOptions:
    """Where the tools come from and where calls are stored, as given on the command line."""

    tool_sources: tuple[str, ...] = ()
    config_path: str | None = None
    store_override: str | None = None
    """An address that replaces the one in the configuration."""

    def build_runtime(self, approver: Approver | None = None) -> Runtime:
        """Build a runtime with these tools and no store.

        With a store it would resume calls that were answered, and a command that only looks at tools must run none.
        Call it before an event loop runs: importing a module may take a while, or run a loop of its own.
        """
        config = self.load_config()
        agents = self._load_agents(config)[0] if config.agents else ()
        return self._assemble(self.without_store(config), None, approver, agents)

    def without_store(self, config: Config) -> Config:
        """A configuration without its store, whose shared queues are then queues of the one process."""
        if config.store is None and not self.store_override:
            return config  # a shared queue is a mistake
        queues = {name: replace(queue, shared=False) for name, queue in config.queues.items()}
        return replace(config, store=None, queues=queues)

    def build_runtime_with_store(self, approver: Approver | None = None) -> Runtime:
        """Build a runtime with the configured store, if there is one."""
        config = self.load_config()
        agents = self._load_agents(config)[0] if config.agents else ()
        return self._assemble(config, self._find_store_address(config), approver, agents)

    def build_runtime_with_agents(
        self, approver: Approver | None = None, *, nothing_configured: str = NO_TOOLS_MESSAGE
    ) -> tuple[Runtime, dict[str, Agent]]:
        """Build a runtime with the configured store, if there is one, and the agents of the file and the sources.

        `nothing_configured` is the error if there is neither a file nor a source.
        """
        config = self.load_config()
        configured, defined = self._load_agents(config)
        address = self._find_store_address(config)
        if self._has_nothing_configured(config, address):
            raise CommandExit(EXIT_USAGE, nothing_configured)
        runtime = self._assemble(config, address, approver, configured)
        return runtime, {agent.name: agent for agent in [*configured, *defined]}

    def _load_agents(self, config: Config) -> tuple[list[Agent], list[Agent]]:
        """The agents of the file, and those that Python sources define."""
        from surehand.assemble.agents import build_agents, load_agents  # loads the agent, which other commands need not

        try:
            defined = [agent for source in self.tool_sources for agent in load_agents(source)]
            for source in config.tools:
                defined += load_agents(source.location, folder=config.base_folder)
            return build_agents(config, os.environ, defined), defined
        except (ConfigError, ToolSourceError, DefinitionError) as error:
            raise CommandExit(EXIT_USAGE, error_message(error)) from error

    def build_answering_runtime(self) -> Runtime:
        """Build a runtime with a required store. Without tools, another process on the store resumes answered calls."""
        address = self.require_store_address()
        return self._assemble(self.load_config(), address, None)

    def require_store_address(self, *, may_be_new: bool = False) -> str:
        """The address of the store, which must exist unless it may be new."""
        config = self.load_config()
        address = self._find_store_address(config)
        if address is None:
            raise CommandExit(EXIT_USAGE, NO_STORE_MESSAGE.format(file=config.path or "a surehand.yaml"))
        if not may_be_new and not is_server_address(address) and not Path(address).exists():
            raise CommandExit(EXIT_USAGE, MISSING_STORE_MESSAGE.format(file=relative_path(address)))
        return address

    def follow_up_command(self, verb: str, *words: str) -> str:
        """Another command with the same options, as far as it takes them, for a person to copy."""
        sources = () if verb in _STORE_ONLY_COMMANDS else self.tool_sources
        options = [option for source in sources for option in ("-t", source)]
        if self.config_path:
            options += ["-c", self.config_path]
        if self.store_override:
            options += ["--store", relative_path(hide_password(self.store_override))]
        return shlex.join(["surehand", verb, *options, *words])

    def load_config(self) -> Config:
        """The configuration file, if there is one; else the defaults."""
        try:
            path = self.config_path if self.config_path or self.tool_sources else find_config()
            config = read_config(path) if path else Config()
        except ConfigError as error:
            raise CommandExit(EXIT_USAGE, error_message(error)) from error
        use_configured_level(config.log)
        return config

    def _find_store_address(self, config: Config) -> str | None:
        address = self.store_override
        if config.store and not address:
            try:
                address = config.store.resolve_address(os.environ)
            except ConfigError as error:
                raise CommandExit(EXIT_USAGE, error_message(error)) from error
        if address is not None and is_server_address(address):
            _validate_server_address(address)
        return address

    def _has_nothing_configured(self, config: Config, store: str | None) -> bool:
        return config.path is None and not self.tool_sources and store is None

    def _assemble(
        self, config: Config, store: str | None, approver: Approver | None, agents: Sequence[Agent] = ()
    ) -> Runtime:
        if self._has_nothing_configured(config, store):
            raise CommandExit(EXIT_USAGE, NO_TOOLS_MESSAGE)
        try:
            sources = [load_tool_source(source) for source in self.tool_sources]
            runtime = assemble(config, *sources, *agents, store=store, approver=approver)
        except (ConfigError, ToolSourceError, DefinitionError) as error:
            raise CommandExit(EXIT_USAGE, error_message(error)) from error
        log_calls(runtime)
        return runtime


def _validate_server_address(address: str) -> None:
    """Reject a malformed address without quoting it, because psycopg's own message would show the password."""
    try:
        from psycopg import ProgrammingError
        from psycopg.conninfo import conninfo_to_dict
    except ImportError:
        return  # opening the store reports the missing package
    try:
        conninfo_to_dict(address)
    except ProgrammingError:
        problem = "The address of the store is not a valid postgresql:// address."
        remedy = "Percent-encode special characters of the password, for example @ as %40."
        raise CommandExit(EXIT_USAGE, f"{problem} {remedy}") from None


def relative_path(path: str) -> str:
    """A path relative to the current directory, if it is inside."""
    return path.removeprefix(f"{Path.cwd()}/")


def error_message(error: Exception) -> str:
    """The message of an error, with paths relative to the current directory."""
    return str(error).replace(f"{Path.cwd()}/", "")


def listings_in_toolset(catalogue: Catalogue, name: str) -> list[Listing]:
    """The tools of a toolset, and those whose names match it as a glob."""
    try:
        members = catalogue.toolset(name)
    except KeyError:  # not a toolset: it can only be a glob
        members = []
    return list(dict.fromkeys([*members, *catalogue.select(name)]))


class DurationParam(click.ParamType[float | None]):
    """A duration: 30, 30s, 5m or off."""

    name = "duration"

    def __init__(self, *, allow_zero: bool = False) -> None:
        self._allow_zero = allow_zero

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float | None:
        """Seconds, or None for `off`."""
        try:
            seconds = parse_duration(value)
        except ValueError:
            self.fail(f"{value!r} is not a duration. Write 30s, 5m or off.", param, ctx)
        if seconds is not None and seconds <= 0 and not self._allow_zero:
            self.fail("the duration must be positive.", param, ctx)
        return seconds


class JsonObjectParam(click.ParamType[Mapping[str, Any]]):
    """A JSON object."""

    name = "json"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Mapping[str, Any]:
        """The parsed object."""
        try:
            parsed = parse_json(value)
        except InvalidArguments as error:
            self.fail(str(error).partition(" Send ")[0], param, ctx)  # the rest is advice for a model
        if not isinstance(parsed, dict):
            self.fail('give a JSON object: {"name": value, ...}.', param, ctx)
        return parsed


class HashParam(click.ParamType[str]):
    """A whole SHA-256 hash in hexadecimal; a prefix would be easy to forge."""

    name = "hash"

    def __init__(self, subject: str, source: str) -> None:
        self._subject = subject
        self._source = source

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The hash in lower case."""
        digits = str(value).strip().lower()
        if not re.fullmatch(r"[0-9a-f]{64}", digits):
            self.fail(f"{self._subject} has 64 hexadecimal digits, as `{self._source}` shows it.", param, ctx)
        return digits


class StoreAddressParam(click.ParamType[str]):
    """A file, or a postgresql:// address."""

    name = "address"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The address; a relative file starts at the current directory."""
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
    """Add the options for tool sources, and pass the command its `RuntimeOptions`."""
    return _TOOLS_OPTION(_CONFIG_OPTION(_DEBUG_OPTION(_pass_runtime_options(command))))


def with_store(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options for a store, and pass the command its `RuntimeOptions`."""
    return _STORE_OPTION(_CONFIG_OPTION(_DEBUG_OPTION(_pass_runtime_options(command))))


def with_tools_and_store(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options for tool sources and a store, and pass the command its `RuntimeOptions`."""
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
