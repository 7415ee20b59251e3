"""Options that most commands share: where the tools come from, and how much is told when that fails."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import update_wrapper
from pathlib import Path
from typing import Any

import click

from toolwright.assemble import SourceError, assemble, load
from toolwright.cli.exits import USAGE, Ended
from toolwright.config.config import Config, find_config, read_config
from toolwright.config.errors import ConfigError
from toolwright.core.errors import DefinitionError
from toolwright.runtime.parts import Approver
from toolwright.runtime.runtime import Runtime

NOTHING = (
    "There are no tools here. Name them with --tools tools.py, or write a toolwright.yaml: `toolwright init` makes one."
)


@dataclass(frozen=True, slots=True)
class Given:
    """Where the tools come from, as the command line says."""

    tools: tuple[str, ...]
    config: str | None

    def assembled(self, approver: Approver | None = None) -> Runtime:
        """A runtime of these tools, before any loop runs: modules may take their time, or run a loop of their own."""
        try:
            found = self.config if self.config or self.tools else find_config()
            if not found and not self.tools:
                raise Ended(USAGE, NOTHING)
            config = read_config(found) if found else Config()
            return assemble(config, *(load(source) for source in self.tools), approver=approver)
        except (ConfigError, SourceError, DefinitionError) as error:
            raise Ended(USAGE, shown(error)) from error


@asynccontextmanager
async def started(runtime: Runtime) -> AsyncIterator[Runtime]:
    """The runtime while it runs; tools that cannot be started end the command."""
    try:
        await runtime.__aenter__()
    except DefinitionError as error:
        raise Ended(USAGE, shown(error)) from error
    except Exception as error:
        told = next(iter(str(error).splitlines()), "")
        raise Ended(USAGE, f"The tools cannot be started: {type(error).__name__}: {told}") from error
    try:
        yield runtime
    finally:
        await runtime.close()


def shown(error: Exception) -> str:
    """An error as people name the file: from where they are."""
    return str(error).replace(f"{Path.cwd()}/", "")


def with_tools(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options, and give the command a `Given` for them."""

    @click.option("-t", "--tools", multiple=True, metavar="SOURCE", help="file.py, package.module, or either:object.")
    @click.option("-c", "--config", metavar="FILE", help="Configuration file [toolwright.yaml, .yml, .json, .toml].")
    @click.option("--debug", is_flag=True, help="Show tracebacks and the runtime's own log.")
    @click.pass_context
    def run(ctx: click.Context, /, tools: tuple[str, ...], config: str | None, debug: bool, **others: Any) -> None:
        if debug:
            logging.getLogger("toolwright").setLevel(logging.DEBUG)
            ctx.obj["debug"] = True
        command(Given(tools, config), **others)

    return update_wrapper(run, command)
