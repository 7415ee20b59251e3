"""Kept: what is known of one user's sign-in to one server, and where that is kept."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypeAlias

from surehand.core.errors import Unavailable

LOOK = 0.02
"""Seconds between two looks at a lock that somebody else holds."""
Turn: TypeAlias = Literal["renew", "ask"]


@dataclass(frozen=True, slots=True)
class SignIn:
    """What is known of one user's sign-in to one server. Most of it is secret, and none of that is ever shown."""

    tokens: Mapping[str, Any] | None = field(default=None, repr=False)
    """As the authorisation server gave them."""
    expires_at: float | None = None
    client: Mapping[str, Any] | None = field(default=None, repr=False)
    """As whom we are registered there."""
    found: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """Where the authorisation server is, and what it said of itself: needed to renew after a restart."""

    @property
    def access(self) -> str | None:
        """What opens the server."""
        return self.tokens["access_token"] if self.tokens else None

    @property
    def renewable(self) -> bool:
        """Whether it can be renewed without a person."""
        return bool(self.tokens and self.tokens.get("refresh_token") and self.client)

    def stale(self) -> bool:
        """Whether it is too old to be tried."""
        if self.tokens is None or self.expires_at is None:
            return False
        early = min(30.0, 0.1 * float(self.tokens.get("expires_in") or 0))
        return time.time() >= self.expires_at - early

    @classmethod
    def from_json(cls, found: Any) -> SignIn:
        """What was kept; ValueError for anything else."""
        if not isinstance(found, dict):
            raise ValueError("it is no sign-in")
        tokens, expires_at = found.get("tokens"), found.get("expires_at")
        if tokens is not None and not (isinstance(tokens, dict) and isinstance(tokens.get("access_token"), str)):
            raise ValueError("its tokens cannot be used")
        if not isinstance(expires_at, float | int | None):
            raise ValueError("its end is no time")
        return cls(tokens, expires_at, found.get("client"), found.get("found") or {})


class Kept(Protocol):
    """Where one sign-in is kept."""

    def read(self) -> SignIn: ...
    def write(self, sign_in: SignIn) -> None: ...
    def turn(self, what: Turn, patience: float) -> Any:
        """An async context in which nobody else, of all tasks and processes, does the same."""


class KeptInMemory:
    """One sign-in that ends with the process."""

    def __init__(self) -> None:
        self._sign_in = SignIn()
        self._busy = set[Turn]()

    def read(self) -> SignIn:
        """What is kept."""
        return self._sign_in

    def write(self, sign_in: SignIn) -> None:
        """Keep it."""
        self._sign_in = sign_in

    @asynccontextmanager
    async def turn(self, what: Turn, patience: float) -> AsyncIterator[None]:
        """Alone among all tasks."""
        until = time.monotonic() + patience
        while what in self._busy:
            if time.monotonic() > until:
                raise Unavailable("Another call has been signing in for long. Try later.")
            await asyncio.sleep(LOOK)
        self._busy.add(what)
        try:
            yield
        finally:
            self._busy.discard(what)
