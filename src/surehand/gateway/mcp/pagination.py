"""Pages: a long list in parts, each beginning after the last name of the one before."""

from __future__ import annotations

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Sequence
from typing import Any

from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS


class Paginator:
    """A list of names, so many at a time. What comes and goes meanwhile moves nothing else."""

    def __init__(self, list_name: str, page_size: int) -> None:
        self._list_name, self._page_size = list_name, page_size

    def slice_page(self, names: Sequence[str], cursor: str | None) -> tuple[Sequence[str], dict[str, Any]]:
        """The names of one page, and the cursor of the next, if there is one."""
        start = 0 if cursor is None else self._index_after(names, cursor)
        chosen, more = names[start : start + self._page_size], len(names) > start + self._page_size
        return chosen, {"nextCursor": self.encode_cursor(chosen[-1])} if more else {}

    def encode_cursor(self, name: str) -> str:
        """Where to go on, in a form that no client is tempted to read."""
        return urlsafe_b64encode(json.dumps([self._list_name, name]).encode()).decode()

    def decode_cursor(self, cursor: str) -> str:
        """The name that a cursor stands for; raises for what is none."""
        try:
            kind, name = json.loads(urlsafe_b64decode(cursor.encode()))
        except (ValueError, TypeError, RecursionError):
            kind, name = None, None
        if kind != self._list_name or not isinstance(name, str):
            raise self.invalid_cursor_error()
        return name

    def _index_after(self, names: Sequence[str], cursor: str) -> int:
        try:
            return names.index(self.decode_cursor(cursor)) + 1
        except ValueError:
            raise self.invalid_cursor_error() from None

    def invalid_cursor_error(self) -> MCPError:
        """What a client is told whose cursor stands for nothing."""
        return MCPError(
            INVALID_PARAMS, f"This cursor is not, or no longer, one of {self._list_name}: list from the start."
        )
