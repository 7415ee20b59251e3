"""`TokenRecord`, the tokens of one user at one server, and `TokenStore`, the protocol of a place that holds one.

`token_files.py` stores records in files; `MemoryTokenStore` here is for tokens that can be obtained again at any time.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypeAlias

from surehand.core.errors import Unavailable

LOCK_POLL_SECONDS = 0.02
"""Time between two attempts to take a lock that another task or process holds."""
LockPurpose: TypeAlias = Literal["renew", "ask"]
"""`renew`: refresh the tokens; `ask`: obtain new ones. Also the suffix of the lock files."""


@dataclass(frozen=True, slots=True)
class TokenRecord:
    """Tokens, client registration and server metadata of one user at one server; its `repr` shows no secret.

    The field names are the keys of the token files.
    """

    tokens: Mapping[str, Any] | None = field(default=None, repr=False)
    """The token response of the authorization server."""
    expires_at: float | None = None
    """Unix time at which the access token expires; None if the server did not say."""
    client: Mapping[str, Any] | None = field(default=None, repr=False)
    """The client registration: id, redirect URIs, scope."""
    found: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """The discovered metadata of the authorization server, which a refresh after a restart needs."""

    @property
    def access_token(self) -> str | None:
        """The bearer token, None before the user has signed in."""
        return self.tokens["access_token"] if self.tokens else None

    @property
    def can_refresh(self) -> bool:
        """Whether the tokens can be refreshed without a person."""
        return bool(self.tokens and self.tokens.get("refresh_token") and self.client)

    def is_expiring(self) -> bool:
        """Whether the access token has expired, or expires within 30 seconds or a tenth of its lifetime."""
        if self.tokens is None or self.expires_at is None:
            return False
        margin = min(30.0, 0.1 * float(self.tokens.get("expires_in") or 0))
        return time.time() >= self.expires_at - margin

    @classmethod
    def from_json(cls, stored: Any) -> TokenRecord:
        """Parse a stored record; raises `ValueError` for anything else."""
        if not isinstance(stored, dict):
            raise ValueError("The record is not a JSON object.")
        tokens = stored.get("tokens")
        expires_at = stored.get("expires_at")
        if tokens is not None and not (isinstance(tokens, dict) and isinstance(tokens.get("access_token"), str)):
            raise ValueError("The record has no access_token.")
        if not isinstance(expires_at, float | int | None):
            raise ValueError("expires_at is not a number.")
        return cls(tokens, expires_at, stored.get("client"), stored.get("found") or {})


class TokenStore(Protocol):
    """Stores the record of one user at one server."""

    def read(self) -> TokenRecord: ...
    def write(self, record: TokenRecord) -> None: ...
    def lock(self, purpose: LockPurpose, timeout: float) -> Any:
        """An async context that one task of one process enters at a time, per purpose."""


class MemoryTokenStore:
    """Stores one record until the process ends."""

    def __init__(self) -> None:
        self._record = TokenRecord()
        self._locked = set[LockPurpose]()

    def read(self) -> TokenRecord:
        """The current record."""
        return self._record

    def write(self, record: TokenRecord) -> None:
        """Replace the record."""
        self._record = record

    @asynccontextmanager
    async def lock(self, purpose: LockPurpose, timeout: float) -> AsyncIterator[None]:
        """Hold the lock among the tasks of this process."""
        # Polled, not an `asyncio.Lock`: that is bound to one event loop, and a program may run several in turn.
        deadline = time.monotonic() + timeout
        while purpose in self._locked:
            if time.monotonic() > deadline:
                raise Unavailable("Another call has been signing in for long. Try later.")
            await asyncio.sleep(LOCK_POLL_SECONDS)
        self._locked.add(purpose)
        try:
            yield
        finally:
            self._locked.discard(purpose)
