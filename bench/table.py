"""The table of results: each measurement, its goal and whether the goal is met; printed and written to RESULTS.md."""

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
process. Each library has a virtual environment of its own. The script of each library in `bench/peers/` says which
path it takes and why. A proxy between an MCP client and a server is a ratio to the same client's direct call of the
same server, over the transport that is in front. An import of an OpenAPI document is a ratio to parsing
its text as JSON, as in the table above. `scripts/bench --peers` writes this part.
"""


@dataclass(frozen=True, slots=True)
class Row:
    """One measurement."""

    what: str
    measured: float | None
    """None if it could not be measured."""
    goal: float | None = None
    """The largest acceptable value; None for a measurement without a goal."""
    unit: str = "x"
    note: str = ""
    at_least: bool = False
    """The goal is a lower bound instead of an upper bound."""

    @property
    def met(self) -> str:
        """Either "yes" or "no", or the note of a row without a goal or a measurement."""
        if self.goal is None or self.measured is None:
            return self.note
        # Compare the rounded number that the table shows, so that no row reads "1.25 is not at most 1.25".
        shown = float(_format_number(self.measured))
        is_met = shown >= self.goal if self.at_least else shown <= self.goal
        return "yes" if is_met else "no"

    def cells(self) -> tuple[str, str, str, str]:
        """The cells of this row in the table."""
        goal = "" if self.goal is None else f"{'>=' if self.at_least else '<='} {self.goal:g}{self.unit}"
        measured = "not measured" if self.measured is None else f"{_format_number(self.measured)}{self.unit}"
        return self.what, goal, measured, self.met


def _format_number(value: float) -> str:
    return f"{value:.0f}" if value >= 20 or isinstance(value, int) else f"{value:.3g}"


def format_table(rows: Iterable[Row]) -> str:
    """The rows in Markdown, aligned so that they read well in a terminal too."""
    cells = [("what", "goal", "measured", "met"), *(row.cells() for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = [" | ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)) for line in cells]
    lines.insert(1, " | ".join("-" * width for width in widths))
    return "".join(f"| {line} |\n" for line in lines)


def describe_versions() -> str:
    """The versions of Python and pydantic that the numbers were measured with."""
    known = " ".join(f"{name} {version(name)}," for name in ("pydantic", "pydantic-core"))
    return f"{platform.python_implementation()} {platform.python_version()}, {known.rstrip(',')}"


def write_results(rows: list[Row], peers: list[Row], *, path: Path = RESULTS) -> None:
    """Write the results of this run. Without peers in this run, the file keeps those of an earlier run."""
    before = path.read_text() if path.exists() else ""
    peer_section = f"\n{_PEERS_METHOD}\n{format_table(peers)}" if peers else before.partition(_PEERS)[2]
    ours = f"# Results\n\n{_METHOD}\nMeasured with {describe_versions()}.\n\n{format_table(rows)}"
    path.write_text(f"{ours}{_PEERS}{peer_section}" if peer_section else ours)
