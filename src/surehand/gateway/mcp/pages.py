"""Pages: a long list in parts, each beginning after the last name of the one before."""

from __future__ import annotations

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Sequence
from typing import Any

from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS


class Pages:
    """A list of names, so many at a time. What comes and goes meanwhile moves nothing else."""

    def __init__(self, kind: str, size: int) -> None:
        self._kind, self._size = kind, size

    def page(self, names: Sequence[str], cursor: str | None) -> tuple[Sequence[str], dict[str, Any]]:
        """The names of one page, and the cursor of the next, if there is one."""
        start = 0 if cursor is None else self._after(names, cursor)
        chosen, more = names[start : start + self._size], len(names) > start + self._size
        return chosen, {"nextCursor": self.cursor(chosen[-1])} if more else {}

    def cursor(self, name: str) -> str:
        """Where to go on, in a form that no client is tempted to read."""
        return urlsafe_b64encode(json.dumps([self._kind, name]).encode()).decode()

    def name(self, cursor: str) -> str:
        """The name that a cursor stands for; raises for what is none."""
        try:
            kind, name = json.loads(urlsafe_b64decode(cursor.encode()))
        except (ValueError, TypeError, RecursionError):
            kind, name = None, None
        if kind != self._kind or not isinstance(name, str):
            raise self.strange()
        return name

    def _after(self, names: Sequence[str], cursor: str) -> int:
        try:
            return names.index(self.name(cursor)) + 1
        except ValueError:
            raise self.strange() from None

    def strange(self) -> MCPError:
        """What a client is told whose cursor stands for nothing."""
        return MCPError(INVALID_PARAMS, f"This cursor is not, or no longer, one of {self._kind}: list from the start.")
