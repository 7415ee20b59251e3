"""`surehand describe`: what a model is shown of the tools."""

from __future__ import annotations

import sys

import click

from surehand.catalogue.describe import describe_listings
from surehand.catalogue.listing import Listing
from surehand.cli.exit_codes import EXIT_NOT_FOUND, CommandExit
from surehand.cli.formatting import create_console, is_terminal, json_line, pretty_json
from surehand.cli.lifecycle import run_coroutine, start_runtime
from surehand.cli.options import RuntimeOptions, listings_in_toolset, toolset_option, with_tools
from surehand.runtime.runtime import Runtime

FORMATS = ("openai", "responses", "anthropic", "gemini", "mcp")


@click.command("describe")
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option("-f", "--format", "format_", type=click.Choice(FORMATS), default="openai", show_default=True)
@toolset_option
@with_tools
def command(options: RuntimeOptions, names: tuple[str, ...], format_: str, toolsets: tuple[str, ...]) -> None:
    """Show the tools as a model API wants them. Those that it would refuse are named on stderr."""
    run_coroutine(_describe(options.build_runtime(), names, format_, toolsets))


async def _describe(runtime: Runtime, names: tuple[str, ...], format_: str, toolsets: tuple[str, ...]) -> None:
    async with start_runtime(runtime):
        named = [_find_listing(runtime, name) for name in names]
        chosen = [listing for name in toolsets for listing in _listings_of_toolset(runtime, name)]
        listings = dict.fromkeys([*named, *chosen] if names or toolsets else runtime.catalogue)
        shown = [listing for listing in listings if listing.is_shown_to_model]
        sys.stderr.writelines(_hidden_reason(listing) for listing in named if listing not in shown)
        described = describe_listings(
            shown, format_, workspace=runtime.services.workspace
        )  # says itself what is left out
        if is_terminal(sys.stdout):
            create_console().print(pretty_json(described), soft_wrap=True)
        else:
            sys.stdout.writelines(map(json_line, described))


def _hidden_reason(listing: Listing) -> str:
    """Why no model is shown a tool that was asked for."""
    if listing.tool.audience == "user":
        return f"{listing.name} is for people: no model is shown it.\n"
    return f"{listing.name} is not listed: no model is shown it, but it can be called by its name.\n"


def _listings_of_toolset(runtime: Runtime, toolset: str) -> list[Listing]:
    found = listings_in_toolset(runtime.catalogue, toolset)
    if not found:
        raise CommandExit(EXIT_NOT_FOUND, f"No tool is in a toolset {toolset!r}, or has a name that matches it.")
    return found


def _find_listing(runtime: Runtime, name: str) -> Listing:
    listing = runtime.catalogue.resolve(name)
    if listing is None:
        near = runtime.catalogue.suggest(name)
        raise CommandExit(EXIT_NOT_FOUND, f"Unknown tool: {name!r}.{f' Did you mean {near[0]}?' if near else ''}")
    return listing
