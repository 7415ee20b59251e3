"""`surehand doctor`: what is here, what of it works, and what to do about the rest."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import click

from surehand.assemble import SourceError, load
from surehand.assemble.builtin import built_in
from surehand.cli.exits import FAILED, UNKNOWN, USAGE, Ended
from surehand.cli.finding import Finding, show, write_lines
from surehand.cli.machine import machine, missing_of
from surehand.cli.options import Given, near, shown, with_store
from surehand.cli.run import run
from surehand.cli.screen import is_person, size
from surehand.config.address import is_server, without_password
from surehand.config.config import Config, find_config, read_config
from surehand.config.errors import ConfigError
from surehand.core.errors import DefinitionError
from surehand.core.names import nearest
from surehand.store.errors import StoreError
from surehand.store.store import Store


@click.command("doctor")
@click.argument("names", nargs=-1, metavar="[SERVER]...")
@click.option(
    "--start", is_flag=True, help="Start every MCP server, and see what it says; those that are named always."
)
@click.option("--json", "as_json", is_flag=True, help="JSON lines, as in a pipe.")
@with_store
def command(given: Given, names: tuple[str, ...], start: bool, as_json: bool) -> None:
    """Look at what is installed, configured and reachable, and say what to do where something is wrong.

    With SERVER, only these MCP servers are looked at, and started.
    """
    found = run(_found(given, names, start or bool(names)))
    if as_json or not is_person(sys.stdout):
        write_lines(found)
    else:
        show(found)
    if any(finding.mark == "fail" for finding in found):
        raise Ended(FAILED)


async def _found(given: Given, names: tuple[str, ...], start: bool) -> list[Finding]:
    here = [] if names else [*machine()]
    config, finding = _config(given)
    if config is None:
        return [*here, finding]
    if names:
        _check_names(config, names)
        return [found async for found in _servers(config, names, start)]
    here += [finding, *_sources(config), *_built_in(config), *[found async for found in _store(given, config)]]
    return [*here, *[found async for found in _servers(config, names, start)]]


def _config(given: Given) -> tuple[Config | None, Finding]:
    about = "configuration"
    try:
        path = Path(given.config) if given.config else find_config()
        if path is None:
            return Config(), Finding(about, "warn", "There is none in this folder.", "surehand init makes one.")
        config = read_config(path)
    except ConfigError as error:
        told, _, fix = shown(error).partition(" Fix: ")
        return None, Finding(about, "fail", told, fix)
    return config, Finding(about, "ok", near(str(path)))


def _sources(config: Config) -> Iterator[Finding]:
    for source in config.tools:
        about = f"tools {source.text}"
        try:
            number = len(load(source.text, folder=config.folder))
        except SourceError as error:
            yield Finding(about, "fail", shown(error))
        else:
            yield Finding(about, "ok", f"{number} found", more={"tools": number})


def _built_in(config: Config) -> Iterator[Finding]:
    if not config.builtin:
        return
    try:
        tools = built_in(config, os.environ)
    except (ConfigError, DefinitionError) as error:
        told, _, fix = shown(error).partition(" Fix: ")
        yield Finding("built-in tools", "fail", told, fix)
    else:
        names = ", ".join(family.name for family in config.builtin)
        yield Finding("built-in tools", "ok", f"{len(tools)} of {names}", more={"tools": len(tools)})


async def _store(given: Given, config: Config) -> AsyncIterator[Finding]:
    try:
        address = given.store or (config.store.text(os.environ) if config.store else None)
    except ConfigError as error:
        yield Finding("store", "fail", shown(error))
        return
    if address is None:
        return
    name = near(without_password(address))
    yield _unopened(name, address) or await _opened(name, address)


def _unopened(name: str, address: str) -> Finding | None:
    """What there is to say of a store that cannot, or need not, be opened."""
    if is_server(address) and (missing := missing_of("postgres")):
        told = f"{name} needs what is not installed: {', '.join(missing)}."
        return Finding("store", "fail", told, "pip install 'surehand[postgres]'.")
    if not is_server(address) and not Path(address).exists():
        return Finding("store", "ok", f"{name} is not there yet: the first call that is remembered makes it.")
    return None


async def _opened(name: str, address: str) -> Finding:
    try:
        async with Store.open(address) as store:
            info = await store.info()
    except (StoreError, DefinitionError, OSError) as error:
        return Finding("store", "fail", shown(error))
    unknown = info["calls"].get("unknown", 0)
    told = f"{name}, version {info['version']}, {size(info['bytes'])}, {info['waiting']} waiting, {unknown} unknown"
    fix = "surehand pending lists them: a person says what became of them." if unknown else ""
    return Finding("store", "warn" if unknown else "ok", told, fix, {"waiting": info["waiting"], "unknown": unknown})


def _check_names(config: Config, names: tuple[str, ...]) -> None:
    from surehand.assemble.mcp import entries

    try:
        known = [entry.name for entry in entries(config.mcp_servers)] if config.mcp_servers else []
    except ConfigError as error:
        raise Ended(USAGE, shown(error)) from error
    for name in names:
        if name not in known:
            near_ones = nearest(name, known, 1)
            raise Ended(
                UNKNOWN, f"There is no server {name!r}.{f' Did you mean {near_ones[0]!r}?' if near_ones else ''}"
            )


async def _servers(config: Config, names: tuple[str, ...], start: bool) -> AsyncIterator[Finding]:
    if config.mcp_servers is None:
        return
    from surehand.cli.servers import servers  # loaded by those alone who have any

    for finding in await servers(config, os.environ, names=names, start=start):
        yield finding
