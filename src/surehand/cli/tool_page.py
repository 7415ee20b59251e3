"""A page about one tool for people: what it does, its parameters, and what it may do."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from surehand.catalogue.listing import Listing
from surehand.cli.formatting import compact_json, to_one_line
from surehand.core.argument_errors import describe_field_type
from surehand.core.sanitize import escape_unprintable
from surehand.core.tool import Tool


def print_tool_page(console: Console, listing: Listing) -> None:
    """Print the name, the description, the facts and the parameters of a tool."""
    tool = listing.tool
    console.print(Text(to_one_line(listing.name), style="bold cyan"), soft_wrap=True)
    if tool.description.strip():
        console.print(Padding(Text(escape_unprintable(tool.description.strip())), (0, 0, 0, 2)))
    facts = _grid()
    for name, value in _tool_facts(listing).items():
        if value:
            facts.add_row(Text(name, style="bold"), Text(to_one_line(value), overflow="fold"))
    console.print(Padding(facts, (1, 0, 0, 2)))
    _print_parameters(console, tool)
    for number, example in enumerate(tool.presentation.examples):
        title = "example" if number == 0 else ""
        console.print(Text.assemble(("  " + title.ljust(10), "bold"), escape_unprintable(compact_json(example))))


def _tool_facts(listing: Listing) -> dict[str, str]:
    tool = listing.tool
    timeout = tool.limits.timeout
    return {
        "kind": listing.kind,
        "effects": ", ".join(sorted(tool.effects)) or "not declared",
        "asks": "before it runs" if tool.safety.confirm else "",
        "for": "people only" if tool.audience == "user" else "",
        "time limit": f"{timeout:g} s" if isinstance(timeout, (int, float)) else "",
        "queue": tool.limits.queue or "",
        "aliases": ", ".join(tool.aliases),
        "toolsets": ", ".join(tool.presentation.toolsets),
    }


def _print_parameters(console: Console, tool: Tool[..., Any]) -> None:
    properties = tool.schema.get("properties", {})
    if not properties:
        console.print(Text("  no parameters", style="dim"))
        return
    required = set(tool.schema.get("required", ()))
    console.print(Text("  parameters", style="bold"))
    table = _grid()
    for name, field in properties.items():
        kind = f"{describe_field_type(field, tool.schema)}, {_describe_requirement(field, name in required)}"
        about = str(field.get("description", "")) if isinstance(field, dict) else ""
        table.add_row(
            Text(to_one_line(name), style="cyan", overflow="fold"),
            Text(to_one_line(kind), overflow="fold"),
            Text(to_one_line(about), overflow="fold"),
        )
    console.print(Padding(table, (0, 0, 0, 4)))


def _describe_requirement(field: Any, is_required: bool) -> str:
    """`required`, `optional`, or the default of an optional parameter."""
    if is_required:
        return "required"
    default = field.get("default") if isinstance(field, dict) else None
    return "optional" if default is None else f"default {compact_json(default)}"


def _grid() -> Table:
    return Table.grid(padding=(0, 2, 0, 0))
