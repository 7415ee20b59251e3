"""The table: what was measured, its goal, and whether the goal is met."""

from __future__ import annotations

import platform
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

RESULTS = Path(__file__).with_name("RESULTS.md")
_PEERS = "\n## Peers\n"
_METHOD = """\
Every number is a ratio to the practical limit of the same work, measured in the same process and the same run (imports:
in fresh processes). The limit and ours take turns in short rounds; the number is the median of the paired ratios. It
therefore says how much the runtime adds, and hardly depends on the machine. `scripts/bench` writes this file.
"""
_PEERS_METHOD = """\
The same `add`, called through each library's own managed path, as a ratio to the same limit measured in the same
process. Each library has a virtual environment of its own. Which path is taken, and why, stands in `bench/peers/`.
A proxy between an MCP client and a server is a ratio to the same client's direct call of the same server, over the
transport that is in front. `scripts/bench --peers` writes this part.
"""


@dataclass(frozen=True, slots=True)
class Row:
    """One measurement."""

    what: str
    measured: float | None
    """None where it could not be measured."""
    goal: float | None = None
    """At most so much; None for what is only told."""
    unit: str = "x"
    note: str = ""
    at_least: bool = False
    """The goal is to reach that much, not to stay below it."""

    @property
    def met(self) -> str:
        """Whether the goal is met, or what there is to say instead."""
        if self.goal is None or self.measured is None:
            return self.note
        # What is shown decides, so that no row reads "1.25 is not at most 1.25".
        shown = float(_number(self.measured))
        return "yes" if (shown >= self.goal if self.at_least else shown <= self.goal) else "no"

    def cells(self) -> tuple[str, str, str, str]:
        """As the table shows it."""
        goal = "" if self.goal is None else f"{'>=' if self.at_least else '<='} {self.goal:g}{self.unit}"
        measured = "not measured" if self.measured is None else f"{_number(self.measured)}{self.unit}"
        return self.what, goal, measured, self.met


def _number(value: float) -> str:
    return f"{value:.0f}" if value >= 20 or isinstance(value, int) else f"{value:.3g}"


def table(rows: Iterable[Row]) -> str:
    """The rows in Markdown, aligned so that they read well in a terminal too."""
    cells = [("what", "goal", "measured", "met"), *(row.cells() for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = [" | ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)) for line in cells]
    lines.insert(1, " | ".join("-" * width for width in widths))
    return "".join(f"| {line} |\n" for line in lines)


def versions() -> str:
    """What the numbers were measured with."""
    known = " ".join(f"{name} {version(name)}," for name in ("pydantic", "pydantic-core"))
    return f"{platform.python_implementation()} {platform.python_version()}, {known.rstrip(',')}"


def write(rows: list[Row], peers: list[Row], *, path: Path = RESULTS) -> None:
    """Replace what was measured in this run; the peers of an earlier run stay."""
    before = path.read_text() if path.exists() else ""
    told = f"\n{_PEERS_METHOD}\n{table(peers)}" if peers else before.partition(_PEERS)[2]
    ours = f"# Results\n\n{_METHOD}\nMeasured with {versions()}.\n\n{table(rows)}"
    path.write_text(f"{ours}{_PEERS}{told}" if told else ours)
