"""Kept: what is known of one user's sign-in to one server, and where that is kept."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypeAlias

from surehand.core.errors import Unavailable

LOCK_POLL_SECONDS = 0.02
"""Seconds between two looks at a lock that somebody else holds."""
LockPurpose: TypeAlias = Literal["renew", "ask"]


@dataclass(frozen=True, slots=True)
class TokenRecord:
    """What is known of one user's sign-in to one server. Most of it is secret, and none of that is ever shown."""

    tokens: Mapping[str, Any] | None = field(default=None, repr=False)
    """As the authorisation server gave them."""
    expires_at: float | None = None
    client: Mapping[str, Any] | None = field(default=None, repr=False)
    """As whom we are registered there."""
    found: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """Where the authorisation server is, and what it said of itself: needed to renew after a restart."""

    @property
    def access_token(self) -> str | None:
        """What opens the server."""
        return self.tokens["access_token"] if self.tokens else None

    @property
    def can_refresh(self) -> bool:
        """Whether it can be renewed without a person."""
        return bool(self.tokens and self.tokens.get("refresh_token") and self.client)

    def is_expiring(self) -> bool:
        """Whether it is too old to be tried."""
        if self.tokens is None or self.expires_at is None:
            return False
        early = min(30.0, 0.1 * float(self.tokens.get("expires_in") or 0))
        return time.time() >= self.expires_at - early

    @classmethod
    def from_json(cls, stored: Any) -> TokenRecord:
        """What was kept; ValueError for anything else."""
        if not isinstance(stored, dict):
            raise ValueError("it is no sign-in")
        tokens, expires_at = stored.get("tokens"), stored.get("expires_at")
        if tokens is not None and not (isinstance(tokens, dict) and isinstance(tokens.get("access_token"), str)):
            raise ValueError("its tokens cannot be used")
        if not isinstance(expires_at, float | int | None):
            raise ValueError("its end is no time")
        return cls(tokens, expires_at, stored.get("client"), stored.get("found") or {})


class TokenStore(Protocol):
    """Where one sign-in is kept."""

    def read(self) -> TokenRecord: ...
    def write(self, record: TokenRecord) -> None: ...
    def lock(self, purpose: LockPurpose, timeout: float) -> Any:
        """An async context in which nobody else, of all tasks and processes, does the same."""


class MemoryTokenStore:
    """One sign-in that ends with the process."""

    def __init__(self) -> None:
        self._record = TokenRecord()
        self._locked = set[LockPurpose]()

    def read(self) -> TokenRecord:
        """What is kept."""
        return self._record

    def write(self, record: TokenRecord) -> None:
        """Keep it."""
        self._record = record

    @asynccontextmanager
    async def lock(self, purpose: LockPurpose, timeout: float) -> AsyncIterator[None]:
        """Alone among all tasks."""
        until = time.monotonic() + timeout
        while purpose in self._locked:
            if time.monotonic() > until:
                raise Unavailable("Another call has been signing in for long. Try later.")
            await asyncio.sleep(LOCK_POLL_SECONDS)
        self._locked.add(purpose)
        try:
            yield
        finally:
            self._locked.discard(purpose)
