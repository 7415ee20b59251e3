"""The filter of `store.audit.list` and `store.journal.list`: by call, tool, user, session and time."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime
from typing import TypeAlias

from surehand.store.database import SqlValue, to_storable_name

Moment: TypeAlias = float | datetime
"""Seconds since the epoch, or a datetime; one without a time zone is in local time."""

FlushBuffers: TypeAlias = Callable[[], Awaitable[object]]
"""Writes the rows that a runtime of this process has not written yet."""

DEFAULT_LIMIT = 100


async def flush_no_buffers() -> None:
    """Do nothing: the default of tables that no runtime of this process writes to later."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryFilter:
    """Which rows to list; a field that is None does not restrict them."""

    call: str | None = None
    tool: str | None = None
    user: str | None = None
    session: str | None = None
    since: Moment | None = None
    until: Moment | None = None
    limit: int = DEFAULT_LIMIT

    def params(self) -> dict[str, SqlValue]:
        """Return the parameters of the queries `list_rows` and, for one call, `list_rows_of_call`."""
        params: dict[str, SqlValue] = {
            "tool": to_storable_name(self.tool),
            "user": to_storable_name(self.user),
            "session": to_storable_name(self.session),
            "since": _to_seconds(self.since),
            "until": _to_seconds(self.until),
            "limit": max(self.limit, 0),
        }
        return params if self.call is None else {**params, "call": to_storable_name(self.call)}


def _to_seconds(moment: Moment | None) -> float | None:
    if moment is None:
        return None
    return moment.timestamp() if isinstance(moment, datetime) else float(moment)
