"""OAuth: who we are to a server at a URL. Each user has a sign-in of one's own, which outlives the process."""

from __future__ import annotations

import re
import sys
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field, replace
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal, TypeAlias
from urllib.parse import urlsplit
from weakref import WeakValueDictionary

from surehand.core.errors import DefinitionError
from surehand.providers.mcp.addresses.address import ConnectionOwner
from surehand.providers.mcp.auth.token_files import TokenFolder
from surehand.providers.mcp.auth.token_store import MemoryTokenStore

if TYPE_CHECKING:
    import httpx2

TokenEndpointAuthMethod: TypeAlias = Literal["client_secret_basic", "client_secret_post", "none"]
UrlOpener: TypeAlias = Callable[[str], Any]
ClientAssertionFunction: TypeAlias = Callable[[str], Awaitable[str]]
IdentityAssertionFunction: TypeAlias = Callable[[str, str], Awaitable[str]]
AuthByUrlAndUser: TypeAlias = "WeakValueDictionary[tuple[str, str | None], Any]"
"""What signs requests, by URL and user, for as long as some connection uses it."""

MAX_AUTH_STEPS = 20
"""What a client's `max_redirects` has to be: `httpx2` counts each step of a sign-in as one."""
_SCOPE_PATTERN = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]+")


@dataclass(frozen=True, kw_only=True)
class OAuth:
    """Signs each user in to servers by a browser, once, and renews that for as long as the server lets it."""

    scopes: tuple[str, ...] = ()
    client_id: str | None = None
    client_secret: str | None = field(default=None, repr=False)
    client_name: str = "surehand"
    client_metadata_url: str | None = None
    issuer: str | None = None
    method: TokenEndpointAuthMethod | None = None
    redirect_port: int = 0
    tokens: TokenFolder = field(default_factory=TokenFolder)
    open: UrlOpener | None = None
    timeout: float = 300.0
    interactive: bool | None = None
    _auth_cache: AuthByUrlAndUser = field(default_factory=WeakValueDictionary, repr=False, compare=False)

    def auth_for(self, owner: ConnectionOwner, url: str) -> httpx2.Auth:
        """What signs a user's requests to the server at a URL; the same for all connections of that user."""
        from surehand.providers.mcp.auth.bearer_auth import BearerTokenAuth
        from surehand.providers.mcp.auth.grants import AuthorizationCodeGrant

        found: BearerTokenAuth | None = self._auth_cache.get((url, owner.user))
        if found is None:
            found = self._auth_cache[url, owner.user] = BearerTokenAuth(
                owner, url, AuthorizationCodeGrant(self), self.tokens.file_for(url, owner.user)
            )
        return found

    def can_open_browser(self, owner: ConnectionOwner) -> bool:
        """Whether a browser may be opened for somebody: on a terminal, for the person who sits there and no other."""
        if self.interactive is not None:
            return self.interactive
        return owner.user is None and all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stderr))

    def as_interactive(self, *, open: UrlOpener | None = None) -> OAuth:
        """The same where a person is there to sign in, whoever it is for."""
        return replace(self, interactive=True, open=open or self.open, _auth_cache=WeakValueDictionary())


@dataclass(frozen=True, kw_only=True)
class ClientCredentials:
    """Signs a program in as itself, the same for every user."""

    client_id: str
    client_secret: str | None = field(default=None, repr=False)
    scopes: tuple[str, ...] = ()
    issuer: str | None = None
    method: TokenEndpointAuthMethod | None = None
    private_key: str | None = field(default=None, repr=False)
    algorithm: str = "RS256"
    assertion: ClientAssertionFunction | None = None
    _auth_cache: dict[str, Any] = field(default_factory=dict, repr=False, compare=False)

    def auth_for(self, owner: ConnectionOwner, url: str) -> httpx2.Auth:
        """What signs requests to the server at a URL."""
        from surehand.providers.mcp.auth.bearer_auth import BearerTokenAuth
        from surehand.providers.mcp.auth.grants import ClientCredentialsGrant

        found: BearerTokenAuth | None = self._auth_cache.get(url)
        if found is None:  # in memory: whoever holds the secret can have another token at any time
            found = self._auth_cache[url] = BearerTokenAuth(
                ConnectionOwner(), url, ClientCredentialsGrant(self), MemoryTokenStore()
            )
        return found


@dataclass(frozen=True, kw_only=True)
class IdentityAssertion:
    """Signs each user in by what an identity provider of the enterprise says of that user."""

    client_id: str
    client_secret: str = field(repr=False)
    issuer: str
    assertion: IdentityAssertionFunction
    scopes: tuple[str, ...] = ()
    method: TokenEndpointAuthMethod | None = None
    _auth_cache: AuthByUrlAndUser = field(default_factory=WeakValueDictionary, repr=False, compare=False)

    def auth_for(self, owner: ConnectionOwner, url: str) -> httpx2.Auth:
        """What signs a user's requests to the server at a URL."""
        from surehand.providers.mcp.auth.bearer_auth import BearerTokenAuth
        from surehand.providers.mcp.auth.grants import IdentityAssertionGrant

        found: BearerTokenAuth | None = self._auth_cache.get((url, owner.user))
        if found is None:
            found = self._auth_cache[url, owner.user] = BearerTokenAuth(
                owner, url, IdentityAssertionGrant(self), MemoryTokenStore()
            )
        return found


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
    """Sign in to a server by a browser; each user for oneself, and once, since the sign-in is kept.

    Args:
        scopes: what to ask for in place of all that the server lists; what it insists on is asked for in any case.
        client_id: of a client that is registered already; without one, the server is asked to register us.
        client_metadata_url: where our own metadata are, for servers that look them up instead of registering.
        issuer: the authorisation server that may see the secret, where it is not on the server's own host.
        redirect_port: the port of this machine to which the browser comes back; 0 for any that is free.
        tokens: where sign-ins are kept; without it, in the user's own state folder.
        open: shows a URL to the person; a plain function runs in a thread. Unless given, it is printed and opened.
        interactive: whether a browser may be opened at all; unless given, only on a terminal and for no named user.
    """
    if client_secret is not None and client_id is None:
        raise DefinitionError("There is a client_secret but no client_id.", fix="give both, or neither.")
    if not 0 <= redirect_port < 65536:
        raise DefinitionError(f"redirect_port={redirect_port} is no port.", fix="give 0 for any, or 1024 to 65535.")
    if not timeout > 0:
        raise DefinitionError(f"timeout={timeout} is no time.", fix="give seconds above zero.")
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
    """Sign a program in as itself, with a secret or with a key, and without a person.

    Args:
        issuer: the authorisation server that may see it, where it is not on the server's own host.
        private_key: in PEM, to sign with in place of a secret.
        assertion: an async function that gives a signed JWT for an audience, in place of both.
    """
    if sum(given is not None for given in (client_secret, private_key, assertion)) != 1:
        fix = "give client_secret, private_key or assertion, and only one of them."
        raise DefinitionError(f"How {client_id!r} shows who it is has to be said once.", fix=fix)
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
    """Sign users in by an identity provider of the enterprise, which servers trust.

    Args:
        assertion: an async function of the audience and of the server's URL that gives the provider's signed word.
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


def _parse_scopes(given: Iterable[str]) -> tuple[str, ...]:
    scopes = tuple(given.split() if isinstance(given, str) else given)
    for scope in scopes:
        if not _SCOPE_PATTERN.fullmatch(scope):
            raise DefinitionError(f"{scope!r} is no scope.", fix="give words without spaces, quotes and backslashes.")
    return scopes


def _validate_url(name: str, url: str | None, *schemes: str, needs_path: bool = False) -> None:
    if url is None:
        return
    parts = urlsplit(url)
    if parts.scheme not in schemes or not parts.hostname or (needs_path and parts.path in ("", "/")):
        raise DefinitionError(f"{name}={url!r} cannot be used.", fix=f"give a URL: {schemes[-1]}://host/path.")
