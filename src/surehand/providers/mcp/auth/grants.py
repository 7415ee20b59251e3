"""Grants: the ways to a sign-in, each by a provider of the library.

Loaded when the first connection is opened, and not before: it imports the library.
"""

from __future__ import annotations

import asyncio
import sys
import time
import warnings
import webbrowser
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from dataclasses import replace
from inspect import iscoroutinefunction
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import urlsplit

from mcp.client.auth import OAuthClientProvider
from mcp.client.auth.extensions.client_credentials import (
    ClientCredentialsOAuthProvider,
    PrivateKeyJWTOAuthProvider,
    SignedJWTParameters,
)
from mcp.client.auth.extensions.identity_assertion import IdentityAssertionOAuthProvider
from mcp.shared.auth import (
    AuthorizationCodeResult,
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthMetadata,
    OAuthToken,
    ProtectedResourceMetadata,
)
from pydantic import AnyUrl, ValidationError

from surehand.core.errors import Denied, TimedOut
from surehand.http.failures import unsent
from surehand.providers.mcp.addresses.address import Who
from surehand.providers.mcp.auth.callback import Callback
from surehand.providers.mcp.auth.kept import Kept, SignIn

if TYPE_CHECKING:
    from surehand.providers.mcp.auth.oauth import ClientCredentials, IdentityAssertion, OAuth

Provider: TypeAlias = OAuthClientProvider | IdentityAssertionOAuthProvider
TURN = 60.0
"""Seconds to wait for somebody else who asks for the same sign-in."""


class Grant:
    """How a sign-in is had: what `oauth`, `client_credentials` and `identity_assertion` have in common."""

    scopes: tuple[str, ...] = ()
    issuer: str | None = None
    secret: bool = False
    """Whether requests carry something that only one authorisation server may see."""
    client: OAuthClientInformationFull | None = None
    """As whom we are registered, where a person has seen to that."""
    by_person: bool = False
    """Whether it takes a person to sign in."""
    patience: float = TURN

    def asking(self, who: Who, kept: SignIn) -> AbstractAsyncContextManager[Grant]:
        """The grant while somebody may be asked; raises `Denied` where nobody can be."""
        return nullcontext(self)

    def provider(self, url: str, storage: Storage) -> Provider:
        """The library's provider for one sign-in, or one renewal."""
        raise NotImplementedError


class Storage:
    """The library's view of one sign-in; it is kept whole, so that tokens never meet another's registration."""

    def __init__(self, kept: Kept, grant: Grant, wanted: str | None = None) -> None:
        self._kept, self._grant = kept, grant
        self.sign_in = known_to(grant, kept.read())
        if not _covers(self.sign_in.client, wanted):  # then it takes another registration to be given more
            self.sign_in = replace(self.sign_in, client=None)
        self.provider: Provider | None = None

    async def get_tokens(self) -> OAuthToken | None:
        found: OAuthToken | None = _read(OAuthToken, self.sign_in.tokens)
        return found

    async def set_tokens(self, tokens: OAuthToken) -> None:
        expires_at = None if tokens.expires_in is None else time.time() + tokens.expires_in
        said = tokens.model_dump(mode="json", exclude_none=True)
        self.sign_in = replace(self.sign_in, tokens=said, expires_at=expires_at, found=_found(self.provider))
        self._kept.write(self.sign_in)

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        found: OAuthClientInformationFull | None = _read(OAuthClientInformationFull, self.sign_in.client)
        if found is not None and 0 < (found.client_secret_expires_at or 0) <= time.time():
            found = None  # another registration is needed
        return self._grant.client or found

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        if self._grant.client is not None:
            raise unsent(Denied("The server leads to an authorisation server that does not know our client."))
        self.sign_in = replace(self.sign_in, client=client_info.model_dump(mode="json", exclude_none=True))
        if self._kept.read().tokens is None:
            self._kept.write(replace(self.sign_in, tokens=None, expires_at=None))


def known_to(grant: Grant, kept: SignIn) -> SignIn:
    """What is kept, unless it belongs to a client that is not ours any more."""
    if grant.client is None:
        return kept
    ours = {"client_id": grant.client.client_id}  # and not its secret, which is kept elsewhere
    same = (kept.client or {}).get("client_id") == ours["client_id"]
    return replace(kept, client=ours) if same else SignIn(client=ours)


def _covers(client: Mapping[str, Any] | None, wanted: str | None) -> bool:
    registered = (client or {}).get("scope")
    return not registered or set((wanted or "").split()) <= set(registered.split())


class ByCode(Grant):
    """A person says yes in a browser, and the browser brings a code."""

    by_person = True

    def __init__(self, given: OAuth, callback: Callback | None = None) -> None:
        self._given, self._callback = given, callback
        self.scopes, self.issuer, self.patience = given.scopes, given.issuer, given.timeout + TURN
        self.secret = given.client_secret is not None
        self.client = None if given.client_id is None else _registered(given, given.client_id)

    def asking(self, who: Who, kept: SignIn) -> AbstractAsyncContextManager[Grant]:
        """With a page to come back to: at the port that is registered, if it is free."""
        if not self._given.may_ask(who):
            raise Denied("Nobody can be asked here.")
        return self._listening(kept)

    @asynccontextmanager
    async def _listening(self, kept: SignIn) -> AsyncIterator[Grant]:
        async with Callback.listening(self._given.redirect_port, prefer=_port(kept)) as callback:
            yield ByCode(self._given, callback)

    def provider(self, url: str, storage: Storage) -> Provider:
        """It speaks to the person through the callback; without one, it can only renew."""
        here = self._callback.uri if self._callback else "http://127.0.0.1/callback"
        if self._callback is not None and here not in (storage.sign_in.client or {}).get("redirect_uris", [here]):
            storage.sign_in = replace(storage.sign_in, client=None)  # registered with a port that is not free
        return OAuthClientProvider(
            url,
            OAuthClientMetadata(redirect_uris=[AnyUrl(here)], client_name=self._given.client_name),
            storage,
            self._sent,
            self._answered,
            client_metadata_url=self._given.client_metadata_url,
        )

    async def _sent(self, url: str) -> None:
        assert self._callback is not None
        self._callback.expect(url)
        show = self._given.open or _show
        await (show(url) if iscoroutinefunction(show) else asyncio.to_thread(show, url))

    async def _answered(self) -> AuthorizationCodeResult:
        assert self._callback is not None
        try:
            async with asyncio.timeout(self._given.timeout):
                answer = await self._callback.answer()
        except TimeoutError:
            raise unsent(TimedOut(f"Nobody signed in within {self._given.timeout:g} seconds. Try again.")) from None
        return AuthorizationCodeResult(code=answer.code, state=answer.state, iss=answer.issuer)


def _registered(given: OAuth, client_id: str) -> OAuthClientInformationFull:
    return OAuthClientInformationFull(
        client_id=client_id,
        client_secret=given.client_secret,
        token_endpoint_auth_method=given.method or ("client_secret_basic" if given.client_secret else "none"),
        issuer=given.issuer,
    )


def _port(kept: SignIn) -> int:
    """The port that was registered: most servers want the very same one again."""
    uris = (kept.client or {}).get("redirect_uris") or [""]
    return urlsplit(uris[0]).port or 0


def _show(url: str) -> None:
    sys.stderr.write(f"Sign in here: {url}\n")
    sys.stderr.flush()
    webbrowser.open(url)


class ByCredentials(Grant):
    """A program signs in as itself."""

    def __init__(self, given: ClientCredentials) -> None:
        self._given = given
        self.scopes, self.issuer, self.secret = given.scopes, given.issuer, True

    def provider(self, url: str, storage: Storage) -> Provider:
        """By secret, by key, or by an assertion that somebody else makes."""
        given = self._given
        common: dict[str, Any] = {"scope": " ".join(given.scopes) or None, "issuer": given.issuer}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that no issuer is named: then only the server's own host is trusted
            if given.client_secret is not None:
                method: Any = given.method or "client_secret_basic"
                secret = given.client_secret
                return ClientCredentialsOAuthProvider(url, storage, given.client_id, secret, method, **common)
            signed = given.assertion or self._signed()
            return PrivateKeyJWTOAuthProvider(url, storage, given.client_id, signed, **common)

    def _signed(self) -> Any:
        given = self._given
        return SignedJWTParameters(
            issuer=given.client_id,
            subject=given.client_id,
            signing_key=given.private_key or "",
            signing_algorithm=given.algorithm,
        ).create_assertion_provider()


class ByAssertion(Grant):
    """An identity provider that both sides trust says who it is."""

    def __init__(self, given: IdentityAssertion) -> None:
        self._given = given
        self.scopes, self.issuer, self.secret = given.scopes, given.issuer, True

    def provider(self, url: str, storage: Storage) -> Provider:
        """It speaks to the issuer that was named, and to no other."""
        given = self._given
        method: Any = given.method or "client_secret_post"
        return IdentityAssertionOAuthProvider(
            url,
            storage,
            given.client_id,
            given.client_secret,
            given.issuer,
            given.assertion,
            " ".join(given.scopes) or None,
            method,
        )


def _read(model: Any, kept: Any) -> Any:
    try:
        return None if kept is None else model.model_validate(kept)
    except ValidationError:
        return None  # kept by another version: as if there were none


def _found(provider: Provider | None) -> dict[str, Any]:
    """Where the authorisation server is: asked for again it could be another, and not asked for it would be a guess."""
    if not isinstance(provider, OAuthClientProvider):
        return {}
    context = provider.context
    known = {"resource": context.protected_resource_metadata, "server": context.oauth_metadata}
    texts = {name: said.model_dump(mode="json", exclude_none=True) for name, said in known.items() if said is not None}
    return {**texts, "issuer": context.auth_server_url}


def recall(provider: OAuthClientProvider, sign_in: SignIn) -> None:
    """Let the library go on where it was before a restart."""
    context, found = provider.context, sign_in.found
    context.protected_resource_metadata = _read(ProtectedResourceMetadata, found.get("resource"))
    context.oauth_metadata = _read(OAuthMetadata, found.get("server"))
    context.auth_server_url = found.get("issuer")
