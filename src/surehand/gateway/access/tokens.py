"""Bearer tokens that are kept as hashes: `bearer_tokens(Token(...), ...)` is an `auth=` function of the gateway."""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from hmac import compare_digest
from time import time
from typing import TYPE_CHECKING, TypeAlias

from surehand.core.durations import parse_rate
from surehand.core.errors import DefinitionError
from surehand.gateway.access.identity import ALL_SCOPES, DEFAULT_SCOPES, Identity, unknown_scope

if TYPE_CHECKING:
    from starlette.requests import HTTPConnection

Authenticate: TypeAlias = "Callable[[HTTPConnection], Awaitable[Identity | None]]"
"""Finds the identity of a request; None if it has none, which is answered with 401."""
TOKEN_PREFIX = "sh_"
HASH_PREFIX = "sha256:"
_HASH_LENGTH = len(HASH_PREFIX) + 64


def new_token() -> str:
    """A new token with 256 random bits."""
    return f"{TOKEN_PREFIX}{secrets.token_urlsafe(32)}"


def hash_token(token: str) -> str:
    """The hash that is kept of a token. A plain SHA-256 is enough, because a token is random and long."""
    return f"{HASH_PREFIX}{sha256(token.encode()).hexdigest()}"


@dataclass(frozen=True, slots=True)
class Token:
    """A bearer token, by its hash, and whom it identifies."""

    hash: str
    user: str | None = None
    """The user of its requests; None only for a token with the scope `*`."""
    scopes: frozenset[str] = frozenset(DEFAULT_SCOPES)
    name: str = ""
    """A name for people, and for counting its requests; by default the beginning of its hash."""
    expires_at: datetime | None = None
    rate: str | None = None
    concurrent: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "scopes", frozenset(self.scopes))
        digest = self.hash.removeprefix(HASH_PREFIX)
        if len(self.hash) != _HASH_LENGTH or not all(character in "0123456789abcdef" for character in digest):
            raise DefinitionError("hash must be 'sha256:' and 64 hexadecimal digits.", fix="use hash_token(token).")
        if (scope := unknown_scope(self.scopes)) is not None:
            problem = f"{scope!r} is not a scope."
            raise DefinitionError(
                problem, fix="use tools:GLOB, spaces:GLOB, agents:GLOB, calls:all, * or a name without a colon."
            )
        if self.expires_at is not None and self.expires_at.tzinfo is None:
            raise DefinitionError("expires_at has no time zone.", fix="write it as 2030-01-31T00:00:00Z.")
        if self.rate is not None:
            try:
                parse_rate(self.rate)
            except ValueError as error:
                raise DefinitionError(str(error), fix="write rate as 60/min.") from None
        try:
            _ = self.identity
        except ValueError as error:
            raise DefinitionError(str(error), fix="give the token a user.") from None

    @property
    def identity(self) -> Identity:
        """Whom the token identifies."""
        name = self.name or self.hash[len(HASH_PREFIX) :][:12]
        expires_at = None if self.expires_at is None else self.expires_at.timestamp()
        return Identity(self.user, self.scopes, self.rate, self.concurrent, name, expires_at)

    def is_expired(self, now: float) -> bool:
        """Whether the token is not valid any more."""
        return self.expires_at is not None and now >= self.expires_at.timestamp()


def operator_token(token: str) -> Token:
    """A token that allows everything, for the operator of the gateway."""
    if not (token.isascii() and token.isprintable() and token.strip() == token != ""):
        problem = "The token is empty, or has characters that an HTTP header cannot contain."
        raise DefinitionError(problem, fix="use letters and digits.")
    return Token(hash_token(token), scopes=frozenset({ALL_SCOPES}), name="operator")


def bearer_tokens(*tokens: Token, now: Callable[[], float] = time) -> Authenticate:
    """An `auth=` function that knows these tokens."""
    identities = [(token, token.identity) for token in tokens]

    async def authenticate(request: HTTPConnection) -> Identity | None:
        token_text = read_bearer_token(request)
        if token_text is None:
            return None
        digest = hash_token(token_text)
        found: Identity | None = None
        # All of them, whichever matches: the time that it takes must not depend on the token.
        for token, identity in identities:
            if compare_digest(digest, token.hash) and not token.is_expired(now()):
                found = identity
        return found

    return authenticate


def read_bearer_token(request: HTTPConnection) -> str | None:
    """The bearer token of a request; None unless it has exactly one `Authorization` header with one."""
    values = request.headers.getlist("authorization")
    if len(values) != 1:
        return None
    scheme, _, token = values[0].partition(" ")
    return token.strip() or None if scheme.lower() == "bearer" else None
