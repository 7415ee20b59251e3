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
from surehand.providers.mcp.addresses.address import Who
from surehand.providers.mcp.auth.kept import KeptInMemory
from surehand.providers.mcp.auth.tokens import Tokens

if TYPE_CHECKING:
    import httpx2

Method: TypeAlias = Literal["client_secret_basic", "client_secret_post", "none"]
Show: TypeAlias = Callable[[str], Any]
Signed: TypeAlias = Callable[[str], Awaitable[str]]
Asserted: TypeAlias = Callable[[str, str], Awaitable[str]]
Known: TypeAlias = "WeakValueDictionary[tuple[str, str | None], Any]"
"""What signs requests, by URL and user, for as long as some connection uses it."""

STEPS = 20
"""What a client's `max_redirects` has to be: `httpx2` counts each step of a sign-in as one."""
_SCOPE = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]+")


@dataclass(frozen=True, kw_only=True)
class OAuth:
    """Signs each user in to servers by a browser, once, and renews that for as long as the server lets it."""

    scopes: tuple[str, ...] = ()
    client_id: str | None = None
    client_secret: str | None = field(default=None, repr=False)
    client_name: str = "surehand"
    client_metadata_url: str | None = None
    issuer: str | None = None
    method: Method | None = None
    redirect_port: int = 0
    tokens: Tokens = field(default_factory=Tokens)
    open: Show | None = None
    timeout: float = 300.0
    interactive: bool | None = None
    _known: Known = field(default_factory=WeakValueDictionary, repr=False, compare=False)

    def auth_for(self, who: Who, url: str) -> httpx2.Auth:
        """What signs a user's requests to the server at a URL; the same for all connections of that user."""
        from surehand.providers.mcp.auth.grants import ByCode
        from surehand.providers.mcp.auth.sign_in import SignedIn

        found: SignedIn | None = self._known.get((url, who.user))
        if found is None:
            found = self._known[url, who.user] = SignedIn(who, url, ByCode(self), self.tokens.of(url, who.user))
        return found

    def may_ask(self, who: Who) -> bool:
        """Whether a browser may be opened for somebody: on a terminal, for the person who sits there and no other."""
        if self.interactive is not None:
            return self.interactive
        return who.user is None and all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stderr))

    def asking(self, *, open: Show | None = None) -> OAuth:
        """The same where a person is there to sign in, whoever it is for."""
        return replace(self, interactive=True, open=open or self.open, _known=WeakValueDictionary())


@dataclass(frozen=True, kw_only=True)
class ClientCredentials:
    """Signs a program in as itself, the same for every user."""

    client_id: str
    client_secret: str | None = field(default=None, repr=False)
    scopes: tuple[str, ...] = ()
    issuer: str | None = None
    method: Method | None = None
    private_key: str | None = field(default=None, repr=False)
    algorithm: str = "RS256"
    assertion: Signed | None = None
    _known: dict[str, Any] = field(default_factory=dict, repr=False, compare=False)

    def auth_for(self, who: Who, url: str) -> httpx2.Auth:
        """What signs requests to the server at a URL."""
        from surehand.providers.mcp.auth.grants import ByCredentials
        from surehand.providers.mcp.auth.sign_in import SignedIn

        found: SignedIn | None = self._known.get(url)
        if found is None:  # in memory: whoever holds the secret can have another token at any time
            found = self._known[url] = SignedIn(Who(), url, ByCredentials(self), KeptInMemory())
        return found


@dataclass(frozen=True, kw_only=True)
class IdentityAssertion:
    """Signs each user in by what an identity provider of the enterprise says of that user."""

    client_id: str
    client_secret: str = field(repr=False)
    issuer: str
    assertion: Asserted
    scopes: tuple[str, ...] = ()
    method: Method | None = None
    _known: Known = field(default_factory=WeakValueDictionary, repr=False, compare=False)

    def auth_for(self, who: Who, url: str) -> httpx2.Auth:
        """What signs a user's requests to the server at a URL."""
        from surehand.providers.mcp.auth.grants import ByAssertion
        from surehand.providers.mcp.auth.sign_in import SignedIn

        found: SignedIn | None = self._known.get((url, who.user))
        if found is None:
            found = self._known[url, who.user] = SignedIn(who, url, ByAssertion(self), KeptInMemory())
        return found


def oauth(
    *,
    scopes: Iterable[str] = (),
    client_id: str | None = None,
    client_secret: str | None = None,
    client_name: str = "surehand",
    client_metadata_url: str | None = None,
    issuer: str | None = None,
    method: Method | None = None,
    redirect_port: int = 0,
    tokens: Tokens | str | PathLike[str] | None = None,
    open: Show | None = None,
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
    _check_url("issuer", issuer, "http", "https")
    _check_url("client_metadata_url", client_metadata_url, "https", path=True)
    return OAuth(
        scopes=_scopes(scopes),
        client_id=client_id,
        client_secret=client_secret,
        client_name=client_name,
        client_metadata_url=client_metadata_url,
        issuer=issuer,
        method=method,
        redirect_port=redirect_port,
        tokens=tokens if isinstance(tokens, Tokens) else Tokens(tokens),
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
    method: Method | None = None,
    private_key: str | None = None,
    algorithm: str = "RS256",
    assertion: Signed | None = None,
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
    _check_url("issuer", issuer, "http", "https")
    return ClientCredentials(
        client_id=client_id,
        client_secret=client_secret,
        scopes=_scopes(scopes),
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
    assertion: Asserted,
    scopes: Iterable[str] = (),
    method: Method | None = None,
) -> IdentityAssertion:
    """Sign users in by an identity provider of the enterprise, which servers trust.

    Args:
        assertion: an async function of the audience and of the server's URL that gives the provider's signed word.
    """
    _check_url("issuer", issuer, "http", "https")
    return IdentityAssertion(
        client_id=client_id,
        client_secret=client_secret,
        issuer=issuer,
        assertion=assertion,
        scopes=_scopes(scopes),
        method=method,
    )


def _scopes(given: Iterable[str]) -> tuple[str, ...]:
    scopes = tuple(given.split() if isinstance(given, str) else given)
    for scope in scopes:
        if not _SCOPE.fullmatch(scope):
            raise DefinitionError(f"{scope!r} is no scope.", fix="give words without spaces, quotes and backslashes.")
    return scopes


def _check_url(name: str, url: str | None, *schemes: str, path: bool = False) -> None:
    if url is None:
        return
    parts = urlsplit(url)
    if parts.scheme not in schemes or not parts.hostname or (path and parts.path in ("", "/")):
        raise DefinitionError(f"{name}={url!r} cannot be used.", fix=f"give a URL: {schemes[-1]}://host/path.")
