"""`surehand describe`: a page about each tool for people, and the tools as model APIs receive them."""

from __future__ import annotations

import sys

import click

from surehand.catalogue.describe import describe_listings
from surehand.catalogue.listing import Listing
from surehand.cli.exit_codes import EXIT_NOT_FOUND, CommandExit
from surehand.cli.formatting import create_console, is_terminal, json_line, pretty_json
from surehand.cli.lifecycle import run_coroutine, start_runtime
from surehand.cli.options import RuntimeOptions, listings_in_toolset, toolset_option, with_tools
from surehand.cli.tool_page import print_tool_page
from surehand.runtime.runtime import Runtime

FORMATS = ("openai", "responses", "anthropic", "gemini", "mcp")


@click.command("describe")
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option(
    "-f", "--format", "format_", type=click.Choice(FORMATS), help="JSON for this model API [openai, in a pipe]."
)
@click.option("--json", "as_json", is_flag=True, help="JSON lines, as in a pipe.")
@toolset_option
@with_tools
def command(
    options: RuntimeOptions, names: tuple[str, ...], format_: str | None, as_json: bool, toolsets: tuple[str, ...]
) -> None:
    """Describe the tools: a page about each in a terminal, the JSON for a model API in a pipe or with --format.

    Tools that the API would refuse are reported on stderr.
    """
    run_coroutine(_describe(options.build_runtime(), names, format_, toolsets, as_json=as_json))


async def _describe(
    runtime: Runtime, names: tuple[str, ...], format_: str | None, toolsets: tuple[str, ...], *, as_json: bool
) -> None:
    for_person = is_terminal(sys.stdout) and not as_json
    async with start_runtime(runtime):
        named = [_find_listing(runtime, name) for name in names]
        in_toolsets = [listing for name in toolsets for listing in _listings_of_toolset(runtime, name)]
        listings = dict.fromkeys([*named, *in_toolsets] if names or toolsets else runtime.catalogue)
        if for_person and format_ is None:
            _print_pages([listing for listing in listings if listing in named or listing.tool.presentation.listed])
            return
        shown = [listing for listing in listings if listing.is_shown_to_model]
        sys.stderr.writelines(_hidden_reason(listing) for listing in named if listing not in shown)
        # Logs a warning for each tool that the API would refuse.
        described = describe_listings(shown, format_ or FORMATS[0], workspace=runtime.workspace)
        if for_person:
            create_console().print(pretty_json(described), soft_wrap=True)
        else:
            sys.stdout.writelines(map(json_line, described))


def _print_pages(listings: list[Listing]) -> None:
    console = create_console()
    for number, listing in enumerate(listings):
        if number:
            console.print()
        print_tool_page(console, listing)


def _hidden_reason(listing: Listing) -> str:
    """Why models do not see a tool that was named."""
    if listing.tool.audience == "user":
        return f"{listing.name} is for users: models do not see it.\n"
    return f"{listing.name} is not listed: models do not see it, but it can be called by its name.\n"


def _listings_of_toolset(runtime: Runtime, toolset: str) -> list[Listing]:
    listings = listings_in_toolset(runtime.catalogue, toolset)
    if not listings:
        raise CommandExit(EXIT_NOT_FOUND, f"No tool is in the toolset {toolset!r}, or has a name that matches it.")
    return listings


def _find_listing(runtime: Runtime, name: str) -> Listing:
    listing = runtime.catalogue.resolve(name)
    if listing is None:
        similar = runtime.catalogue.suggest(name)
        hint = f" Did you mean {similar[0]}?" if similar else ""
        raise CommandExit(EXIT_NOT_FOUND, f"Unknown tool: {name!r}.{hint}")
    return listing
