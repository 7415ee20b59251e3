"""Printing: an operation tree as a person reads it, drawn with rich."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from surehand.core.sanitize import escape_line
from surehand.observe.node import Node, Total

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text
    from rich.tree import Tree

_STYLES = {"ok": "green", "failed": "red", "pending": "yellow", "running": "cyan"}


def printed(roots: Iterable[Node], total: Mapping[str, Total], console: Console | None) -> None:
    """Draw the calls, then what they add up to."""
    try:
        from rich.console import Console
        from rich.tree import Tree
    except ImportError as error:
        raise ImportError("Printing a tree needs rich: pip install 'surehand[cli]'.") from error
    console = console or Console()
    drawn = Tree("calls")
    for root in roots:
        _grow(drawn, root)
    console.print(drawn)
    if total:
        console.print(_table(total))


def _grow(drawn: Tree, root: Node) -> None:
    ahead = [(drawn, root)]
    while ahead:
        above, node = ahead.pop()
        branch = above.add(_line(node))
        ahead += [(branch, inner) for inner in reversed(node.calls)]


def _line(node: Node) -> Text:
    from rich.text import Text

    line = Text(escape_line(node.tool), style="bold")
    line.append(f"  {_state(node)}", style=f"not bold {_STYLES[node.status]}")
    line.append(f"  {', '.join(_facts(node))}", style="not bold dim")
    return line


def _state(node: Node) -> str:
    if node.status == "pending":
        return f"waits for {node.waiting_for}"
    return node.code or node.status


def _facts(node: Node) -> Iterable[str]:
    yield duration(node.seconds)
    if node.queued:
        yield f"{duration(node.queued)} queued"
    if node.attempts > 1:
        yield f"{node.attempts} attempts"
    if node.cached:
        yield "cached"
    yield f"{node.characters_in:,} in, {node.characters_out:,} out, {node.tokens:,} tokens"
    if node.total_cost > node.cost:
        yield f"cost {node.cost:.6g} of {node.total_cost:.6g}"
    elif node.cost:
        yield f"cost {node.cost:.6g}"


def _table(total: Mapping[str, Total]) -> Table:
    from rich.table import Table
    from rich.text import Text

    table = Table("tool")
    for column in ("calls", "failures", "time", "in", "out", "tokens", "cost"):
        table.add_column(column, justify="right")
    for tool, of in sorted(total.items()):
        sizes = (f"{of.characters_in:,}", f"{of.characters_out:,}", f"{of.tokens:,}", f"{of.cost:.6g}")
        table.add_row(Text(escape_line(tool)), f"{of.calls:,}", f"{of.failures:,}", duration(of.seconds), *sizes)
    return table


def duration(seconds: float) -> str:
    """Short: `350 ms`, `2.4 s`, `3 min 20 s`."""
    if seconds < 0.9995:
        return f"{seconds * 1000:.3g} ms"
    if seconds < 119.95:
        return f"{seconds:.3g} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s"
