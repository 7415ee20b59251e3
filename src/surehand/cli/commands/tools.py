"""`surehand tools`: list or search the tools."""

from __future__ import annotations

import sys
from typing import Any

import click
from rich.table import Table
from rich.text import Text

from surehand.catalogue.listing import Listing
from surehand.cli.formatting import create_console, is_terminal, json_line, to_one_line
from surehand.cli.lifecycle import run_coroutine, start_runtime
from surehand.cli.options import RuntimeOptions, listings_in_toolset, toolset_option, with_tools
from surehand.runtime.runtime import Runtime

_NO_TOOLS_NOTE = (
    "There are no tools. Name some under `tools`, `builtin` or `mcp_servers` in the configuration file; "
    "`surehand doctor` checks it."
)


@click.command("tools")
@click.argument("query", required=False)
@click.option("--json", "as_json", is_flag=True, help="JSON lines, as in a pipe.")
@click.option("--all", "every", is_flag=True, help="Also tools that models do not see, but that can be called by name.")
@toolset_option
@with_tools
def command(options: RuntimeOptions, query: str | None, as_json: bool, every: bool, toolsets: tuple[str, ...]) -> None:
    """List the tools, or those that match the words of QUERY, best first."""
    run_coroutine(_list_tools(options.build_runtime(), query, toolsets, every=every, as_json=as_json))


async def _list_tools(
    runtime: Runtime, query: str | None, toolsets: tuple[str, ...], *, every: bool, as_json: bool
) -> None:
    async with start_runtime(runtime):
        selected = select_listings(runtime, query, toolsets)
        listings = [listing for listing in selected if every or listing.tool.presentation.listed]
        for_person = is_terminal(sys.stdout) and not as_json
        if not for_person:
            sys.stdout.writelines(json_line(_listing_to_json(listing)) for listing in listings)
        elif listings:
            _print_table(listings)
        note = _hidden_tools_note(len(listings), len(selected) - len(listings), for_person=for_person)
        if len(runtime.catalogue) == 0:
            note = _NO_TOOLS_NOTE
        if note:
            sys.stderr.write(f"{note}\n")


def select_listings(runtime: Runtime, query: str | None, toolsets: tuple[str, ...]) -> list[Listing]:
    """The tools of the toolsets that match the query, best first; all without either."""
    catalogue = runtime.catalogue
    listings = catalogue.search(query, limit=len(catalogue)) if query else list(catalogue)
    selected = {listing.name for name in toolsets for listing in listings_in_toolset(catalogue, name)}
    return [listing for listing in listings if not toolsets or listing.name in selected]


def _hidden_tools_note(shown_count: int, hidden_count: int, *, for_person: bool) -> str:
    """The note that no tool is shown or, for a person, that some are not listed."""
    verb = "is" if hidden_count == 1 else "are"
    if not shown_count and not hidden_count:
        return "No tool matches."
    if not shown_count:
        return f"No tool matches except {hidden_count} that {verb} not listed: see --all."
    if hidden_count and for_person:
        return f"{hidden_count} more {verb} not listed: see --all."
    return ""


def _listing_to_json(listing: Listing) -> dict[str, Any]:
    tool = listing.tool
    return {
        "name": listing.name,
        "kind": listing.kind,
        "effects": sorted(tool.effects),
        "audience": tool.audience,
        "listed": tool.presentation.listed,
        "toolsets": tool.presentation.toolsets,
        "aliases": tool.aliases,
        "parameters": list(tool.schema.get("properties", {})),
        "description": tool.description,
    }


def _print_table(listings: list[Listing]) -> None:
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0), header_style="bold")
    table.add_column("Name", style="cyan", overflow="fold")
    table.add_column("Effects", overflow="fold", max_width=14)
    table.add_column("Parameters", justify="right")
    table.add_column("Description", overflow="fold", ratio=1)
    for listing in listings:
        tool = listing.tool
        name = Text.assemble(listing.name, ("" if tool.presentation.listed else " (not listed)", "dim"))
        effects = ", ".join(sorted(tool.effects))
        style = "yellow" if tool.effects - {"read"} else "dim"
        parameter_count = str(len(tool.schema.get("properties", {})))
        table.add_row(name, Text(effects or "-", style=style), parameter_count, _first_paragraph(tool))
    create_console().print(table)


def _first_paragraph(tool: Any) -> str:
    """The first paragraph of the tool's description."""
    return to_one_line(tool.description.split("\n\n")[0])
