"""`surehand describe`: what a model is shown of the tools."""

from __future__ import annotations

import sys

import click

from surehand.catalogue.describe import describe
from surehand.catalogue.listing import Listing
from surehand.cli.exits import UNKNOWN, Ended
from surehand.cli.options import Given, with_tools
from surehand.cli.run import run
from surehand.cli.screen import console, is_person, line, pretty
from surehand.cli.starting import started
from surehand.cli.toolset import in_toolset, toolset_option
from surehand.runtime.runtime import Runtime

FORMATS = ("openai", "responses", "anthropic", "gemini", "mcp")


@click.command("describe")
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option("-f", "--format", "format_", type=click.Choice(FORMATS), default="openai", show_default=True)
@toolset_option
@with_tools
def command(given: Given, names: tuple[str, ...], format_: str, toolsets: tuple[str, ...]) -> None:
    """Show the tools as a model API wants them. Those that it would refuse are named on stderr."""
    run(_describe(given.assembled(), names, format_, toolsets))


async def _describe(runtime: Runtime, names: tuple[str, ...], format_: str, toolsets: tuple[str, ...]) -> None:
    async with started(runtime):
        named = [_find(runtime, name) for name in names]
        chosen = [listing for name in toolsets for listing in _of(runtime, name)]
        listings = dict.fromkeys([*named, *chosen] if names or toolsets else runtime.catalogue)
        shown = [listing for listing in listings if listing.shown_to_model]
        sys.stderr.writelines(_why_not(listing) for listing in named if listing not in shown)
        described = describe(shown, format_, workspace=runtime.parts.workspace)  # says itself what is left out
        if is_person(sys.stdout):
            console().print(pretty(described), soft_wrap=True)
        else:
            sys.stdout.writelines(map(line, described))


def _why_not(listing: Listing) -> str:
    """Why no model is shown a tool that was asked for."""
    if listing.tool.audience == "user":
        return f"{listing.name} is for people: no model is shown it.\n"
    return f"{listing.name} is not listed: no model is shown it, but it can be called by its name.\n"


def _of(runtime: Runtime, toolset: str) -> list[Listing]:
    found = in_toolset(runtime.catalogue, toolset)
    if not found:
        raise Ended(UNKNOWN, f"No tool is in a toolset {toolset!r}, or has a name that matches it.")
    return found


def _find(runtime: Runtime, name: str) -> Listing:
    listing = runtime.catalogue.resolve(name)
    if listing is None:
        near = runtime.catalogue.suggest(name)
        raise Ended(UNKNOWN, f"Unknown tool: {name!r}.{f' Did you mean {near[0]}?' if near else ''}")
    return listing
