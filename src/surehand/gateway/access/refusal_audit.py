"""RefusalAudit: writes requests to the audit that were refused before a route has seen them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from time import monotonic
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from starlette.types import Scope

    from surehand.gateway.access.identity import Identity

WriteRefusal: TypeAlias = "Callable[[Identity | None, Mapping[str, str]], Awaitable[None]]"
"""Writes one row, for an identity or for a request without one."""
MAX_ROWS_PER_WINDOW = 100
WINDOW_SECONDS = 60.0
MAX_PATH_LENGTH = 200


class RefusalAudit:
    """Writes a row for each refusal, up to 100 in a minute: anybody can send requests without a token."""

    def __init__(self, write: WriteRefusal, clock: Callable[[], float] = monotonic) -> None:
        self._write = write
        self._clock = clock
        self._window_began_at = -WINDOW_SECONDS
        self._row_count = 0
        self._omitted_count = 0

    async def record(self, scope: Scope, code: str, identity: Identity | None = None) -> None:
        """Write a refused request; the next row after those that were left out has their number."""
        now = self._clock()
        if now - self._window_began_at >= WINDOW_SECONDS:
            self._window_began_at = now
            self._row_count = 0
        if self._row_count >= MAX_ROWS_PER_WINDOW:
            self._omitted_count += 1
            return
        self._row_count += 1
        # Without the query: it may hold a token that was sent the wrong way.
        detail = {"action": f"{scope['method']} {scope['path'][:MAX_PATH_LENGTH]}", "code": code}
        if scope.get("client"):
            detail["client"] = scope["client"][0]
        if self._omitted_count:
            detail["omitted"] = str(self._omitted_count)
            self._omitted_count = 0
        await self._write(identity, detail)
