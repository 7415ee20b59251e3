"""`surehand doctor`: check the installation, the configuration, the store and the MCP servers."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import click

from surehand.assemble import ToolSourceError, assemble, load_tool_source
from surehand.assemble.builtin_tools import build_builtin_tools
from surehand.catalogue.listing import Listing
from surehand.cli.doctor_checks import Finding, check_machine, missing_packages, print_findings, write_findings
from surehand.cli.doctor_webhooks import check_webhooks
from surehand.cli.exit_codes import EXIT_FAILED, EXIT_NOT_FOUND, EXIT_USAGE, CommandExit
from surehand.cli.formatting import format_size, is_terminal
from surehand.cli.lifecycle import run_coroutine
from surehand.cli.options import RuntimeOptions, error_message, relative_path, with_store
from surehand.config.config import Config, find_config, read_config
from surehand.config.errors import ConfigError
from surehand.config.store_address import hide_password, is_server_address
from surehand.core.errors import DefinitionError
from surehand.core.extras import install_command
from surehand.core.names import nearest_names
from surehand.store.errors import StoreError
from surehand.store.store import Store


@click.command("doctor")
@click.argument("names", nargs=-1, metavar="[SERVER]...")
@click.option(
    "--start", is_flag=True, help="Start every MCP server and list its tools; named servers are always started."
)
@click.option("--json", "as_json", is_flag=True, help="JSON lines, as in a pipe.")
@with_store
def command(options: RuntimeOptions, names: tuple[str, ...], start: bool, as_json: bool) -> None:
    """Check what is installed, configured and reachable, and say how to fix problems.

    With SERVER, only these MCP servers are checked, and started.
    """
    findings = run_coroutine(_diagnose(options, names, start or bool(names)))
    if as_json or not is_terminal(sys.stdout):
        write_findings(findings)
    else:
        print_findings(findings)
    if any(finding.status == "fail" for finding in findings):
        raise CommandExit(EXIT_FAILED)


async def _diagnose(options: RuntimeOptions, names: tuple[str, ...], start: bool) -> list[Finding]:
    findings = [] if names else list(check_machine())
    config, config_finding = _check_config(options)
    if config is None:
        return [*findings, config_finding]
    if names:
        _refuse_unknown_servers(config, names)
        return await _check_servers(config, names, start)
    findings.append(config_finding)
    tool_findings = [*_check_sources(config), *_check_builtin_tools(config)]
    if not any(finding.status == "fail" for finding in tool_findings):
        tool_findings += _check_tools_together(options, config)
    findings += tool_findings
    findings += _check_builtin_packages(config)
    findings += await _check_documents(config)
    findings += await _check_store(options, config)
    findings += await check_webhooks(config, os.environ, options.store_override)
    findings += await _check_servers(config, names, start)
    return findings


def _check_config(options: RuntimeOptions) -> tuple[Config | None, Finding]:
    """The configuration, or None if it is invalid, and the finding about it."""
    subject = "configuration"
    try:
        path = Path(options.config_path) if options.config_path else find_config()
        if path is None:
            return Config(), Finding(subject, "warn", "none in this folder.", "`surehand init` creates one.")
        config = read_config(path)
    except ConfigError as error:
        return None, _failure(subject, error)
    return config, Finding(subject, "ok", relative_path(str(path)))


def _failure(subject: str, error: Exception) -> Finding:
    problem, _, fix = error_message(error).partition(" Fix: ")
    return Finding(subject, "fail", problem, fix)


def _check_sources(config: Config) -> Iterator[Finding]:
    for source in config.tools:
        subject = f"tools {source.location}"
        try:
            count = len(load_tool_source(source.location, folder=config.base_folder))
        except ToolSourceError as error:
            yield Finding(subject, "fail", error_message(error))
        else:
            yield Finding(subject, "ok", f"{count} found", details={"tools": count})


def _check_builtin_tools(config: Config) -> Iterator[Finding]:
    if not config.builtin:
        return
    try:
        tools = build_builtin_tools(config, os.environ)
    except (ConfigError, DefinitionError) as error:
        yield _failure("built-in tools", error)
    else:
        names = ", ".join(family.name for family in config.builtin)
        yield Finding("built-in tools", "ok", f"{len(tools)} of {names}", details={"tools": len(tools)})


def _check_tools_together(options: RuntimeOptions, config: Config) -> Iterator[Finding]:
    """Find what keeps a runtime from starting though each source can be loaded: names that clash, missing queues."""
    try:
        runtime = assemble(replace(options.without_store(config), mcp_servers=None))
    except (ConfigError, DefinitionError) as error:
        yield _failure("tools", error)
        return
    for mistake in runtime.check_tools():
        yield _failure("tools", mistake)
    yield from _check_rest_tools([listing for listing in runtime.catalogue if listing.kind == "rest"])


def _check_rest_tools(listings: list[Listing]) -> Iterator[Finding]:
    """Check what requests need: the packages of the HTTP client, and environment variables."""
    if not listings:
        return
    from surehand.providers.rest.handler import RestHandler  # few configurations have REST tools

    missing = missing_packages("http")
    if missing:
        problem = f"REST tools need packages that are not installed: {', '.join(missing)}."
        yield Finding("REST tools", "fail", problem, f"{install_command('http')}.")
    for listing in listings:
        handler = listing.tool.handler
        unset = (
            sorted(name for name in handler.variables if not os.environ.get(name))
            if isinstance(handler, RestHandler)
            else []
        )
        if unset:
            problem = f"environment variables that its requests need are not set: {', '.join(unset)}."
            yield Finding(listing.name, "warn", problem, "set them before its first call.")


def _check_builtin_packages(config: Config) -> Iterator[Finding]:
    missing = missing_packages("http")
    if missing and any(family.name == "web" for family in config.builtin):
        problem = f"web needs packages that are not installed: {', '.join(missing)}."
        yield Finding("built-in tools", "fail", problem, f"{install_command('http')}.")


async def _check_store(options: RuntimeOptions, config: Config) -> list[Finding]:
    try:
        address = options.store_override or (config.store.resolve_address(os.environ) if config.store else None)
    except ConfigError as error:
        return [Finding("store", "fail", error_message(error))]
    if address is None:
        return []
    name = relative_path(hide_password(address))
    return [_check_without_opening(name, address) or await _check_by_opening(name, address)]


def _check_without_opening(name: str, address: str) -> Finding | None:
    """The finding about a store that cannot or need not be opened; None for any other."""
    if is_server_address(address):
        missing = missing_packages("postgres")
        if not missing:
            return None
        problem = f"{name} needs packages that are not installed: {', '.join(missing)}."
        return Finding("store", "fail", problem, f"{install_command('postgres')}.")
    folder = Path(address).parent
    if not folder.is_dir():
        problem = f"{name} cannot be created: its folder does not exist."
        return Finding("store", "fail", problem, f"create {relative_path(str(folder))}, or name another file.")
    if not Path(address).exists():
        return Finding("store", "ok", f"{name} does not exist yet: the first call that is stored creates it.")
    return None


async def _check_by_opening(name: str, address: str) -> Finding:
    try:
        async with Store.open(address) as store:
            info = await store.info()
    except (StoreError, DefinitionError, OSError) as error:
        return Finding("store", "fail", error_message(error))
    waiting = info["waiting"]
    unknown = info["calls"].get("unknown", 0)
    size = format_size(info["bytes"])
    message = (
        f"{name}, schema version {info['version']}, {size}; calls: {waiting} pending, {unknown} with unknown effect"
    )
    fix = "`surehand pending` lists the unknown calls: settle each with what happened." if unknown else ""
    return Finding("store", "warn" if unknown else "ok", message, fix, {"waiting": waiting, "unknown": unknown})


def _refuse_unknown_servers(config: Config, names: tuple[str, ...]) -> None:
    # Imported here: it brings the MCP SDK, which takes a second to load.
    from surehand.assemble.mcp_servers import server_entries

    try:
        known = [entry.name for entry in server_entries(config.mcp_servers)] if config.mcp_servers else []
    except ConfigError as error:
        raise CommandExit(EXIT_USAGE, error_message(error)) from error
    for name in names:
        if name not in known:
            similar = nearest_names(name, known, 1)
            hint = f" Did you mean {similar[0]!r}?" if similar else ""
            raise CommandExit(EXIT_NOT_FOUND, f"There is no server {name!r}.{hint}")


async def _check_documents(config: Config) -> list[Finding]:
    if not config.openapi:
        return []
    # Imported here: it brings what OpenAPI documents need.
    from surehand.cli.doctor_documents import check_documents

    return await check_documents(config, os.environ)


async def _check_servers(config: Config, names: tuple[str, ...], start: bool) -> list[Finding]:
    if config.mcp_servers is None:
        return []
    # Imported here: it brings the MCP SDK, which takes a second to load.
    from surehand.cli.doctor_servers import check_servers

    return await check_servers(config, os.environ, names=names, start=start)
