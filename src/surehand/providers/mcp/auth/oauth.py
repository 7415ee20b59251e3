"""The `auth=` of `mcp.http` and `mcp.sse`: `oauth`, `client_credentials` and `identity_assertion`.

Each is a frozen value of settings (`grant_settings.py`) with one more method, `auth_for`, which gives the `httpx2.Auth`
for a user and a server.
The modules that load the MCP SDK are imported there, when the first connection is opened.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field, replace
from os import PathLike
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import urlsplit
from weakref import WeakValueDictionary

from surehand.core.errors import DefinitionError
from surehand.providers.mcp.auth.grant_settings import (
    AuthorizationCodeSettings,
    ClientAssertionFunction,
    ClientCredentialsSettings,
    IdentityAssertionFunction,
    IdentityAssertionSettings,
    TokenEndpointAuthMethod,
    UrlOpener,
)
from surehand.providers.mcp.auth.login import log_in
from surehand.providers.mcp.auth.token_files import TokenFolder
from surehand.providers.mcp.auth.token_store import MemoryTokenStore
from surehand.providers.mcp.connection_owner import ConnectionOwner

if TYPE_CHECKING:
    import httpx2

    from surehand.providers.mcp.addresses.http import HttpAddress

AuthByUrlAndUser: TypeAlias = "WeakValueDictionary[tuple[str, str | None], Any]"
"""The `BearerTokenAuth` of each URL and user, as long as a connection uses it."""

_SCOPE_PATTERN = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]+")


@dataclass(frozen=True, kw_only=True)
class OAuth(AuthorizationCodeSettings):
    """The authorization code grant; `oauth` documents its settings. Each user has tokens of their own."""

    tokens: TokenFolder = field(default_factory=TokenFolder)
    _auth_cache: AuthByUrlAndUser = field(default_factory=WeakValueDictionary, repr=False, compare=False)

    def auth_for(self, owner: ConnectionOwner, url: str) -> httpx2.Auth:
        """The auth for a user's requests to a server; all connections of that user share it."""
        from surehand.providers.mcp.auth.bearer_auth import BearerTokenAuth
        from surehand.providers.mcp.auth.grants import AuthorizationCodeGrant

        auth: BearerTokenAuth | None = self._auth_cache.get((url, owner.user))
        if auth is None:
            auth = self._auth_cache[url, owner.user] = BearerTokenAuth(
                owner, url, AuthorizationCodeGrant(self), self.tokens.file_for(url, owner.user)
            )
        return auth

    def as_interactive(self, *, open: UrlOpener | None = None) -> OAuth:
        """A copy that may open a browser for any user."""
        return replace(self, interactive=True, open=open or self.open, _auth_cache=WeakValueDictionary())

    def is_signed_in(self, url: str, user: str | None) -> bool:
        """Whether there are tokens of a user that are valid or can be refreshed."""
        record = self.tokens.file_for(url, user).read()
        return record.access_token is not None and (record.can_refresh or not record.is_expiring())

    async def sign_in(self, server: HttpAddress, user: str | None, show_url: Callable[[str], Awaitable[None]]) -> None:
        """Sign a user in to the server at an address; `show_url` gets the URL to open."""
        await log_in(self.as_interactive(open=show_url), server, user)


@dataclass(frozen=True, kw_only=True)
class ClientCredentials(ClientCredentialsSettings):
    """The client credentials grant, by which a program signs in as itself for all users."""

    _auth_cache: dict[str, Any] = field(default_factory=dict, repr=False, compare=False)

    def auth_for(self, owner: ConnectionOwner, url: str) -> httpx2.Auth:
        """The auth for requests to a server, the same for every user."""
        from surehand.providers.mcp.auth.bearer_auth import BearerTokenAuth
        from surehand.providers.mcp.auth.grants import ClientCredentialsGrant

        auth: BearerTokenAuth | None = self._auth_cache.get(url)
        if auth is None:  # tokens in memory only: with the secret, others can be obtained at any time
            auth = self._auth_cache[url] = BearerTokenAuth(
                ConnectionOwner(), url, ClientCredentialsGrant(self), MemoryTokenStore()
            )
        return auth


@dataclass(frozen=True, kw_only=True)
class IdentityAssertion(IdentityAssertionSettings):
    """The identity assertion grant: an identity provider of the enterprise vouches for each user."""

    _auth_cache: AuthByUrlAndUser = field(default_factory=WeakValueDictionary, repr=False, compare=False)

    def auth_for(self, owner: ConnectionOwner, url: str) -> httpx2.Auth:
        """The auth for a user's requests to a server."""
        from surehand.providers.mcp.auth.bearer_auth import BearerTokenAuth
        from surehand.providers.mcp.auth.grants import IdentityAssertionGrant

        auth: BearerTokenAuth | None = self._auth_cache.get((url, owner.user))
        if auth is None:
            auth = self._auth_cache[url, owner.user] = BearerTokenAuth(
                owner, url, IdentityAssertionGrant(self), MemoryTokenStore()
            )
        return auth


def oauth(
    *,
    scopes: Iterable[str] = (),
    client_id: str | None = None,
    client_secret: str | None = None,
    client_name: str = "surehand",
    client_metadata_url: str | None = None,
    issuer: str | None = None,
    method: TokenEndpointAuthMethod | None = None,
    redirect_port: int = 0,
    tokens: TokenFolder | str | PathLike[str] | None = None,
    open: UrlOpener | None = None,
    timeout: float = 300.0,
    interactive: bool | None = None,
) -> OAuth:
    """Sign each user in with a browser (authorization code grant), and refresh the stored tokens from then on.

    Args:
        scopes: request these instead of all scopes that the server lists; scopes it demands are always requested.
        client_id: id of a client that you have registered; without one, a client is registered dynamically.
        client_metadata_url: URL of your client's metadata document, for servers that use it instead of registration.
        issuer: the authorization server that may receive the secret, if it is not on the server's own host.
        redirect_port: the port of this machine to which the browser is redirected; 0 for any free port.
        tokens: the folder of the token files; without it, a folder in the user's state folder.
        open: shows a URL to the person; a plain function runs in a thread. The default prints and opens the URL.
        timeout: seconds that the person has to sign in.
        interactive: whether a browser may be opened; the default is only on a terminal and for no named user.
    """
    if client_secret is not None and client_id is None:
        raise DefinitionError("client_secret is set, but client_id is not.", fix="set both, or neither.")
    if not 0 <= redirect_port < 65536:
        raise DefinitionError(
            f"redirect_port must be between 0 and 65535, got {redirect_port}.",
            fix="use 0 for any free port, or 1024 to 65535.",
        )
    if not timeout > 0:
        raise DefinitionError(f"timeout must be positive, got {timeout}.", fix="give seconds above zero.")
    _validate_url("issuer", issuer, "http", "https")
    _validate_url("client_metadata_url", client_metadata_url, "https", needs_path=True)
    return OAuth(
        scopes=_parse_scopes(scopes),
        client_id=client_id,
        client_secret=client_secret,
        client_name=client_name,
        client_metadata_url=client_metadata_url,
        issuer=issuer,
        method=method,
        redirect_port=redirect_port,
        tokens=tokens if isinstance(tokens, TokenFolder) else TokenFolder(tokens),
        open=open,
        timeout=timeout,
        interactive=interactive,
    )


def client_credentials(
    client_id: str,
    client_secret: str | None = None,
    scopes: Iterable[str] = (),
    *,
    issuer: str | None = None,
    method: TokenEndpointAuthMethod | None = None,
    private_key: str | None = None,
    algorithm: str = "RS256",
    assertion: ClientAssertionFunction | None = None,
) -> ClientCredentials:
    """Sign a program in as itself (client credentials grant), with a secret or a private key and without a person.

    Args:
        issuer: the authorization server that may receive the credentials, if it is not on the server's own host.
        private_key: a key in PEM format that signs the requests, instead of a secret.
        assertion: an async function that returns a signed JWT for an audience, instead of both.
    """
    credentials = [each for each in (client_secret, private_key, assertion) if each is not None]
    if len(credentials) != 1:
        fix = "set exactly one of client_secret, private_key and assertion."
        raise DefinitionError(f"The client {client_id!r} has {len(credentials)} credentials, needs one.", fix=fix)
    _validate_url("issuer", issuer, "http", "https")
    return ClientCredentials(
        client_id=client_id,
        client_secret=client_secret,
        scopes=_parse_scopes(scopes),
        issuer=issuer,
        method=method,
        private_key=private_key,
        algorithm=algorithm,
        assertion=assertion,
    )


def identity_assertion(
    client_id: str,
    client_secret: str,
    *,
    issuer: str,
    assertion: IdentityAssertionFunction,
    scopes: Iterable[str] = (),
    method: TokenEndpointAuthMethod | None = None,
) -> IdentityAssertion:
    """Sign users in through an identity provider of the enterprise that the servers trust.

    Args:
        issuer: the authorization server that may receive the assertion and the secret.
        assertion: an async function of the audience and the server's URL that returns the provider's signed assertion.
    """
    _validate_url("issuer", issuer, "http", "https")
    return IdentityAssertion(
        client_id=client_id,
        client_secret=client_secret,
        issuer=issuer,
        assertion=assertion,
        scopes=_parse_scopes(scopes),
        method=method,
    )


def _parse_scopes(value: Iterable[str]) -> tuple[str, ...]:
    scopes = tuple(value.split() if isinstance(value, str) else value)
    for scope in scopes:
        if not _SCOPE_PATTERN.fullmatch(scope):
            fix = "use printable ASCII without spaces, quotes and backslashes."
            raise DefinitionError(f"{scope!r} is not a valid OAuth scope.", fix=fix)
    return scopes


def _validate_url(name: str, url: str | None, *schemes: str, needs_path: bool = False) -> None:
    if url is None:
        return
    parts = urlsplit(url)
    if parts.scheme not in schemes or not parts.hostname or (needs_path and parts.path in ("", "/")):
        raise DefinitionError(f"{name} must be a URL, got {url!r}.", fix=f"write {schemes[-1]}://host/path.")
