"""`surehand doctor`: what is here, what of it works, and what to do about the rest."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import click

from surehand.assemble import ToolSourceError, load_tool_source
from surehand.assemble.builtin_tools import build_builtin_tools
from surehand.cli.doctor_checks import Finding, check_machine, missing_packages, print_findings, write_findings
from surehand.cli.exit_codes import EXIT_FAILED, EXIT_NOT_FOUND, EXIT_USAGE, CommandExit
from surehand.cli.formatting import format_size, is_terminal
from surehand.cli.lifecycle import run_coroutine
from surehand.cli.options import RuntimeOptions, error_message, relative_path, with_store
from surehand.config.config import Config, find_config, read_config
from surehand.config.errors import ConfigError
from surehand.config.store_address import hide_password, is_server_address
from surehand.core.errors import DefinitionError
from surehand.core.names import nearest_names
from surehand.store.errors import StoreError
from surehand.store.store import Store


@click.command("doctor")
@click.argument("names", nargs=-1, metavar="[SERVER]...")
@click.option(
    "--start", is_flag=True, help="Start every MCP server, and see what it says; those that are named always."
)
@click.option("--json", "as_json", is_flag=True, help="JSON lines, as in a pipe.")
@with_store
def command(options: RuntimeOptions, names: tuple[str, ...], start: bool, as_json: bool) -> None:
    """Look at what is installed, configured and reachable, and say what to do where something is wrong.

    With SERVER, only these MCP servers are looked at, and started.
    """
    found = run_coroutine(_diagnose(options, names, start or bool(names)))
    if as_json or not is_terminal(sys.stdout):
        write_findings(found)
    else:
        print_findings(found)
    if any(finding.status == "fail" for finding in found):
        raise CommandExit(EXIT_FAILED)


async def _diagnose(options: RuntimeOptions, names: tuple[str, ...], start: bool) -> list[Finding]:
    here = [] if names else [*check_machine()]
    config, finding = _check_config(options)
    if config is None:
        return [*here, finding]
    if names:
        _refuse_unknown_servers(config, names)
        return [found async for found in _check_servers(config, names, start)]
    here += [
        finding,
        *_check_sources(config),
        *_check_builtin_tools(config),
        *[found async for found in _check_store(options, config)],
    ]
    return [*here, *[found async for found in _check_servers(config, names, start)]]


def _check_config(options: RuntimeOptions) -> tuple[Config | None, Finding]:
    about = "configuration"
    try:
        path = Path(options.config_path) if options.config_path else find_config()
        if path is None:
            return Config(), Finding(about, "warn", "There is none in this folder.", "surehand init makes one.")
        config = read_config(path)
    except ConfigError as error:
        told, _, fix = error_message(error).partition(" Fix: ")
        return None, Finding(about, "fail", told, fix)
    return config, Finding(about, "ok", relative_path(str(path)))


def _check_sources(config: Config) -> Iterator[Finding]:
    for source in config.tools:
        about = f"tools {source.location}"
        try:
            number = len(load_tool_source(source.location, folder=config.base_folder))
        except ToolSourceError as error:
            yield Finding(about, "fail", error_message(error))
        else:
            yield Finding(about, "ok", f"{number} found", details={"tools": number})


def _check_builtin_tools(config: Config) -> Iterator[Finding]:
    if not config.builtin:
        return
    try:
        tools = build_builtin_tools(config, os.environ)
    except (ConfigError, DefinitionError) as error:
        told, _, fix = error_message(error).partition(" Fix: ")
        yield Finding("built-in tools", "fail", told, fix)
    else:
        names = ", ".join(family.name for family in config.builtin)
        yield Finding("built-in tools", "ok", f"{len(tools)} of {names}", details={"tools": len(tools)})


async def _check_store(options: RuntimeOptions, config: Config) -> AsyncIterator[Finding]:
    try:
        address = options.store_override or (config.store.resolve_address(os.environ) if config.store else None)
    except ConfigError as error:
        yield Finding("store", "fail", error_message(error))
        return
    if address is None:
        return
    name = relative_path(hide_password(address))
    yield _check_without_opening(name, address) or await _check_by_opening(name, address)


def _check_without_opening(name: str, address: str) -> Finding | None:
    """What there is to say of a store that cannot, or need not, be opened."""
    if is_server_address(address) and (missing := missing_packages("postgres")):
        told = f"{name} needs what is not installed: {', '.join(missing)}."
        return Finding("store", "fail", told, "pip install 'surehand[postgres]'.")
    if not is_server_address(address) and not Path(address).exists():
        return Finding("store", "ok", f"{name} is not there yet: the first call that is remembered makes it.")
    return None


async def _check_by_opening(name: str, address: str) -> Finding:
    try:
        async with Store.open(address) as store:
            info = await store.info()
    except (StoreError, DefinitionError, OSError) as error:
        return Finding("store", "fail", error_message(error))
    unknown = info["calls"].get("unknown", 0)
    told = (
        f"{name}, version {info['version']}, {format_size(info['bytes'])}, {info['waiting']} waiting, {unknown} unknown"
    )
    fix = "surehand pending lists them: a person says what became of them." if unknown else ""
    return Finding("store", "warn" if unknown else "ok", told, fix, {"waiting": info["waiting"], "unknown": unknown})


def _refuse_unknown_servers(config: Config, names: tuple[str, ...]) -> None:
    from surehand.assemble.mcp_servers import server_entries

    try:
        known = [entry.name for entry in server_entries(config.mcp_servers)] if config.mcp_servers else []
    except ConfigError as error:
        raise CommandExit(EXIT_USAGE, error_message(error)) from error
    for name in names:
        if name not in known:
            near_ones = nearest_names(name, known, 1)
            raise CommandExit(
                EXIT_NOT_FOUND, f"There is no server {name!r}.{f' Did you mean {near_ones[0]!r}?' if near_ones else ''}"
            )


async def _check_servers(config: Config, names: tuple[str, ...], start: bool) -> AsyncIterator[Finding]:
    if config.mcp_servers is None:
        return
    from surehand.cli.doctor_servers import check_servers  # loaded by those alone who have any

    for finding in await check_servers(config, os.environ, names=names, start=start):
        yield finding
