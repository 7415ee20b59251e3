"""`surehand config`: check the configuration file, print its JSON Schema, or make a token for the gateway."""

from __future__ import annotations

import json
import os
import sys

import click

from surehand.cli.exit_codes import EXIT_USAGE, CommandExit
from surehand.cli.options import RuntimeOptions, error_message, with_tools_and_store
from surehand.cli.serve_address import ServeAddress
from surehand.config.config import Config
from surehand.config.errors import ConfigError
from surehand.config.json_schema import config_schema
from surehand.core.errors import DefinitionError


@click.group("config")
def command() -> None:
    """Check the configuration file, print its JSON Schema, or make a token for the gateway."""


@command.command("check")
@with_tools_and_store
def check(options: RuntimeOptions) -> None:
    """Check the configuration file, and load the tools that it names, without starting a server or calling a tool.

    Exit codes: 0 it is fine, 2 it has a mistake.
    """
    config = options.load_config()
    if config.path is None and not options.tool_sources:
        raise CommandExit(EXIT_USAGE, "There is no configuration file here. `surehand init` creates one.")
    runtime = options.build_runtime_with_store()
    _check_gateway(config)
    shown = config.path.name if config.path is not None else "the tools"
    tools, sources = len(runtime.catalogue), len(runtime.providers)
    sys.stdout.write(f"{shown} is fine. Tools: {tools}; servers and documents with tools: {sources}.\n")


def _check_gateway(config: Config) -> None:
    """Check the section `gateway`, if the extra that serves is installed."""
    try:
        from surehand.assemble.http_gateway import build_webhooks, check_gateway  # bring FastAPI and the MCP SDK
    except ModuleNotFoundError:
        return
    try:
        check_gateway(config.gateway)
        build_webhooks(config.gateway, os.environ)
    except ConfigError as error:
        raise CommandExit(EXIT_USAGE, error_message(error)) from error
    settings = config.gateway
    if settings.host is not None:
        address = ServeAddress(settings.host, 0, "", None, has_other_tokens=bool(settings.tokens or settings.token_env))
        address.require_token("Name the variable that holds it with `gateway: {token_env: NAME}`, or list `tokens`.")
    name = settings.token_env
    if name is not None and not os.environ.get(name):
        raise CommandExit(EXIT_USAGE, f"The variable {name} that holds the gateway's token is not set, or empty.")


@command.command("schema")
def schema() -> None:
    """Print the JSON Schema of the configuration file, for editors."""
    sys.stdout.write(json.dumps(config_schema(), indent=2) + "\n")


@command.command("token")
@click.option("--user", metavar="ID", help="The user of the token's requests.")
@click.option("--scope", "scopes", multiple=True, metavar="SCOPE", help="What it may do, as in tools:git__*; * is all.")
def token(user: str | None, scopes: tuple[str, ...]) -> None:
    """Make a token for the gateway: print it once, and the entry of the configuration that holds its hash."""
    from surehand.gateway.access.identity import DEFAULT_SCOPES
    from surehand.gateway.access.tokens import Token, hash_token, new_token  # brings Starlette

    made = new_token()
    try:
        Token(hash_token(made), user, frozenset(scopes or DEFAULT_SCOPES))
    except DefinitionError as error:
        raise CommandExit(EXIT_USAGE, error_message(error)) from error
    entry: dict[str, object] = {"hash": hash_token(made)}
    entry |= {"user": user} if user else {}
    entry |= {"scopes": [*scopes]} if scopes else {}
    sys.stdout.write(f"{made}\n")
    sys.stderr.write(
        f"Keep the token: it is not shown again. For `gateway: {{tokens: [...]}}`:\n- {json.dumps(entry)}\n"
    )
