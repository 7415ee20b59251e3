"""Pagination of `tools/list` and `resources/list`: a cursor names the last entry of the page before."""

from __future__ import annotations

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Sequence
from typing import Any

from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS


class Paginator:
    """Pages of one list. Entries that are added or removed between two pages do not shift the others."""

    def __init__(self, list_name: str, page_size: int) -> None:
        self._list_name = list_name
        self._page_size = page_size

    def slice_page(self, names: Sequence[str], cursor: str | None) -> tuple[Sequence[str], dict[str, Any]]:
        """The names of one page, and a dict with the `nextCursor`, which is empty on the last page."""
        start = 0 if cursor is None else self._index_after(names, cursor)
        end = start + self._page_size
        page = names[start:end]
        return page, {"nextCursor": self.encode_cursor(page[-1])} if len(names) > end else {}

    def encode_cursor(self, name: str) -> str:
        """The cursor after an entry, encoded so that clients do not depend on its format."""
        return urlsafe_b64encode(json.dumps([self._list_name, name]).encode()).decode()

    def decode_cursor(self, cursor: str) -> str:
        """The entry that a cursor names; raises `MCPError` if it is malformed or of another list."""
        try:
            list_name, name = json.loads(urlsafe_b64decode(cursor.encode()))
        except (ValueError, TypeError, RecursionError):
            raise self.invalid_cursor_error() from None
        if list_name != self._list_name or not isinstance(name, str):
            raise self.invalid_cursor_error()
        return name

    def _index_after(self, names: Sequence[str], cursor: str) -> int:
        name = self.decode_cursor(cursor)
        try:
            return names.index(name) + 1
        except ValueError:
            raise self.invalid_cursor_error() from None

    def invalid_cursor_error(self) -> MCPError:
        """The error for a cursor that is malformed, or whose entry was removed."""
        message = f"This cursor is not, or no longer, one of {self._list_name}: list from the start."
        return MCPError(INVALID_PARAMS, message)
