"""The settings of the three OAuth grants, as frozen values.

`oauth.py` validates and extends them, and `grants.py` obtains tokens by them. This module loads no MCP SDK.
"""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from surehand.providers.mcp.connection_owner import ConnectionOwner

TokenEndpointAuthMethod: TypeAlias = Literal["client_secret_basic", "client_secret_post", "none"]
UrlOpener: TypeAlias = Callable[[str], Any]
"""Shows a URL to the person who signs in; sync or async."""
ClientAssertionFunction: TypeAlias = Callable[[str], Awaitable[str]]
"""Returns a signed JWT for an audience."""
IdentityAssertionFunction: TypeAlias = Callable[[str, str], Awaitable[str]]
"""Returns the identity provider's assertion for an audience and a server's URL."""


@dataclass(frozen=True, kw_only=True)
class AuthorizationCodeSettings:
    """Settings of the authorization code grant; `oauth` documents them."""

    scopes: tuple[str, ...] = ()
    client_id: str | None = None
    client_secret: str | None = field(default=None, repr=False)
    client_name: str = "surehand"
    client_metadata_url: str | None = None
    issuer: str | None = None
    method: TokenEndpointAuthMethod | None = None
    redirect_port: int = 0
    open: UrlOpener | None = None
    timeout: float = 300.0
    interactive: bool | None = None

    def secret_values(self) -> list[str]:
        """The client's secret."""
        return [value for value in (self.client_secret,) if value]

    def can_open_browser(self, owner: ConnectionOwner) -> bool:
        """Whether a browser may be opened: as `interactive` says, else only on a terminal and for no named user."""
        if self.interactive is not None:
            return self.interactive
        if owner.user is not None:  # the person at the terminal is not that user
            return False
        return all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stderr))


@dataclass(frozen=True, kw_only=True)
class ClientCredentialsSettings:
    """Settings of the client credentials grant; `client_credentials` documents them."""

    client_id: str
    client_secret: str | None = field(default=None, repr=False)
    scopes: tuple[str, ...] = ()
    issuer: str | None = None
    method: TokenEndpointAuthMethod | None = None
    private_key: str | None = field(default=None, repr=False)
    algorithm: str = "RS256"
    assertion: ClientAssertionFunction | None = None

    def secret_values(self) -> list[str]:
        """The client's secret or private key."""
        return [value for value in (self.client_secret, self.private_key) if value]


@dataclass(frozen=True, kw_only=True)
class IdentityAssertionSettings:
    """Settings of the identity assertion grant; `identity_assertion` documents them."""

    client_id: str
    client_secret: str = field(repr=False)
    issuer: str
    assertion: IdentityAssertionFunction
    scopes: tuple[str, ...] = ()
    method: TokenEndpointAuthMethod | None = None

    def secret_values(self) -> list[str]:
        """The client's secret."""
        return [value for value in (self.client_secret,) if value]
