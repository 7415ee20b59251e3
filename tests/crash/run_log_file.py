"""Files of appended lines that outlive every process; a line is whole, or is not read."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

LINE_END = " ;"
"""Marks a whole line. A process killed while it writes across a page boundary can leave half a line."""


def append_line(path: Path, value: Any) -> None:
    """Append a value to a file, in one write."""
    file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(file, f"\n{json.dumps(value)}{LINE_END}\n".encode())
    os.close(file)


def read_lines(path: Path) -> list[Any]:
    """All whole lines of a file. A reader may see part of a line that crosses a page boundary."""
    try:
        text = path.read_text()
    except FileNotFoundError:
        return []
    lines = text[: text.rfind("\n") + 1].splitlines()
    return [json.loads(line.removesuffix(LINE_END)) for line in lines if line.endswith(LINE_END)]
