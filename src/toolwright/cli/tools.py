"""`toolwright tools`: which tools there are."""

from __future__ import annotations

import sys
from typing import Any

import click
from rich.table import Table
from rich.text import Text

from toolwright.catalogue.listing import Listing
from toolwright.cli.options import Given, with_tools
from toolwright.cli.run import run
from toolwright.cli.screen import console, is_person, line, one_line
from toolwright.cli.starting import started
from toolwright.runtime.runtime import Runtime


@click.command("tools")
@click.argument("query", required=False)
@click.option("--json", "as_json", is_flag=True, help="JSON lines, as in a pipe.")
@click.option("--toolset", "globs", multiple=True, metavar="GLOB", help="Only tools whose names match, as in 'git__*'.")
@with_tools
def command(given: Given, query: str | None, as_json: bool, globs: tuple[str, ...]) -> None:
    """List the tools, or those that fit the words of QUERY best."""
    run(_list(given.assembled(), query, as_json, globs))


async def _list(runtime: Runtime, query: str | None, as_json: bool, globs: tuple[str, ...]) -> None:
    async with started(runtime):
        listings = chosen(runtime, query, globs)
        if as_json or not is_person(sys.stdout):
            sys.stdout.writelines(line(_as_json(listing)) for listing in listings)
        elif listings:
            _show(listings)
        if not listings:
            sys.stderr.write("No tool fits.\n")


def chosen(runtime: Runtime, query: str | None, globs: tuple[str, ...]) -> list[Listing]:
    """The tools of a selection, best first where there is a query."""
    catalogue = runtime.catalogue
    listings = catalogue.search(query, limit=len(catalogue)) if query else list(catalogue)
    selected = {listing.name for listing in catalogue.select(*globs)} if globs else None
    return [listing for listing in listings if selected is None or listing.name in selected]


def _as_json(listing: Listing) -> dict[str, Any]:
    tool = listing.tool
    return {
        "name": listing.name,
        "kind": listing.kind,
        "effects": sorted(tool.effects),
        "audience": tool.audience,
        "aliases": tool.aliases,
        "parameters": list(tool.schema.get("properties", {})),
        "description": tool.description,
    }


def _show(listings: list[Listing]) -> None:
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0), header_style="bold")
    table.add_column("Name", style="cyan", overflow="fold")
    table.add_column("Effects", overflow="fold", max_width=14)
    table.add_column("Parameters", justify="right")
    table.add_column("Description", overflow="fold", ratio=1)
    for listing in listings:
        tool = listing.tool
        effects = ", ".join(sorted(tool.effects))
        style = "yellow" if tool.effects - {"read"} else "dim"
        table.add_row(
            listing.name, Text(effects or "-", style=style), str(len(tool.schema.get("properties", {}))), _first(tool)
        )
    console().print(table)


def _first(tool: Any) -> str:
    """The first paragraph of the description, which says what the tool is for."""
    return one_line(tool.description.split("\n\n")[0])
