"""Prints a tree of calls and the totals with rich."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from surehand.core.extras import install_command
from surehand.core.sanitize import escape_line
from surehand.observe.node import Node, Total

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text
    from rich.tree import Tree

_STATUS_STYLES = {"ok": "green", "failed": "red", "pending": "yellow", "running": "cyan"}


def print_tree(roots: Iterable[Node], totals: Mapping[str, Total], console: Console | None) -> None:
    """Print the tree of the calls, then the totals."""
    try:
        from rich.console import Console
        from rich.tree import Tree
    except ImportError as error:
        raise ImportError(f"Printing a tree needs rich: {install_command('cli')}.") from error
    console = console or Console()
    tree = Tree("calls")
    for root in roots:
        _add_branches(tree, root)
    console.print(tree)
    if totals:
        console.print(_totals_table(totals))


def _add_branches(tree: Tree, root: Node) -> None:
    remaining = [(tree, root)]
    while remaining:
        parent, node = remaining.pop()
        branch = parent.add(_render_node(node))
        remaining += [(branch, inner) for inner in reversed(node.calls)]


def _render_node(node: Node) -> Text:
    from rich.text import Text

    line = Text(escape_line(node.tool), style="bold")
    line.append(f"  {_status_text(node)}", style=f"not bold {_STATUS_STYLES[node.status]}")
    line.append(f"  {', '.join(_node_details(node))}", style="not bold dim")
    return line


def _status_text(node: Node) -> str:
    if node.status == "pending":
        return f"waits for {node.waiting_for}"
    return node.code or node.status


def _node_details(node: Node) -> Iterable[str]:
    yield format_duration(node.seconds)
    if node.queued:
        yield f"{format_duration(node.queued)} queued"
    if node.attempts > 1:
        yield f"{node.attempts} attempts"
    if node.cached:
        yield "cached"
    yield f"{node.characters_in:,} in, {node.characters_out:,} out, {node.tokens:,} tokens"
    if node.total_cost > node.cost:
        yield f"cost {node.cost:.6g} of {node.total_cost:.6g}"
    elif node.cost:
        yield f"cost {node.cost:.6g}"


def _totals_table(totals: Mapping[str, Total]) -> Table:
    from rich.table import Table
    from rich.text import Text

    table = Table("tool")
    for column in ("calls", "failures", "time", "in", "out", "tokens", "cost"):
        table.add_column(column, justify="right")
    for tool, total in sorted(totals.items()):
        sizes = (f"{total.characters_in:,}", f"{total.characters_out:,}", f"{total.tokens:,}", f"{total.cost:.6g}")
        table.add_row(
            Text(escape_line(tool)), f"{total.calls:,}", f"{total.failures:,}", format_duration(total.seconds), *sizes
        )
    return table


def format_duration(seconds: float) -> str:
    """Format a duration: `350 ms`, `2.4 s`, `3 min 20 s`."""
    if seconds < 0.9995:
        return f"{seconds * 1000:.3g} ms"
    if seconds < 119.95:
        return f"{seconds:.3g} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s"
