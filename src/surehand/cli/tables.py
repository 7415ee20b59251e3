"""Tables that fit the terminal: wide texts are cut, and columns that no row needs, or that do not fit, are left out."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from rich.console import Console
from rich.text import Text

COLUMN_GAP = "  "
MIN_FLEXIBLE_WIDTH = 8
MIN_COLUMNS = 3
"""Columns that are shown however narrow the terminal is; of the others, the last ones are left out first."""


def print_rows(
    console: Console, header: Sequence[str], rows: Sequence[Sequence[Text]], *, flexible: Collection[str]
) -> None:
    """Print a header and rows, no wider than the terminal.

    Args:
        flexible: the columns whose texts are cut where the table would be too wide.
    """
    needed = [column for column in range(len(header)) if any(row[column].plain not in ("", "-") for row in rows)]
    while True:
        names = [header[column] for column in needed]
        cells = [[row[column] for column in needed] for row in rows]
        widths = fit_widths(names, cells, console.width, flexible)
        if table_width(widths) <= console.width or len(needed) <= MIN_COLUMNS:
            break
        needed.pop()
    print_row(console, [Text(name, style="bold") for name in names], widths)
    for row in cells:
        print_row(console, row, widths)


def fit_widths(
    header: Sequence[str], rows: Sequence[Sequence[Text]], max_width: int, flexible: Collection[str]
) -> list[int]:
    """The width of each column; the widest flexible columns are narrowed until the table fits."""
    widths = [max(len(header[column]), *(row[column].cell_len for row in rows)) for column in range(len(header))]
    excess = table_width(widths) - max_width
    while excess > 0:
        candidates = [
            column
            for column, name in enumerate(header)
            if name in flexible and widths[column] > max(MIN_FLEXIBLE_WIDTH, len(name))
        ]
        if not candidates:
            break
        widest = max(candidates, key=widths.__getitem__)
        widths[widest] -= 1
        excess -= 1
    return widths


def table_width(widths: Sequence[int]) -> int:
    """The width of a row with its gaps."""
    return sum(widths) + len(COLUMN_GAP) * (len(widths) - 1)


def print_row(console: Console, cells: Sequence[Text], widths: Sequence[int]) -> None:
    """Print cells, each cut or padded to its width."""
    line = Text()
    for column, (cell, width) in enumerate(zip(cells, widths, strict=True)):
        fitted = cell.copy()
        fitted.truncate(width, overflow="ellipsis", pad=column < len(cells) - 1)
        line.append_text(fitted)
        if column < len(cells) - 1:
            line.append(COLUMN_GAP)
    console.print(line, soft_wrap=True)
