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
from surehand.http.errors import mark_unsent
from surehand.providers.mcp.addresses.address import ConnectionOwner
from surehand.providers.mcp.auth.callback import CallbackServer
from surehand.providers.mcp.auth.token_store import TokenRecord, TokenStore

if TYPE_CHECKING:
    from surehand.providers.mcp.auth.oauth import ClientCredentials, IdentityAssertion, OAuth

SdkAuthProvider: TypeAlias = OAuthClientProvider | IdentityAssertionOAuthProvider
AUTHORIZATION_LOCK_TIMEOUT_SECONDS = 60.0
"""Seconds to wait for somebody else who asks for the same sign-in."""


class OAuthGrant:
    """How a sign-in is had: what `oauth`, `client_credentials` and `identity_assertion` have in common."""

    scopes: tuple[str, ...] = ()
    issuer: str | None = None
    sends_secret: bool = False
    """Whether requests carry something that only one authorisation server may see."""
    registered_client: OAuthClientInformationFull | None = None
    """As whom we are registered, where a person has seen to that."""
    is_interactive: bool = False
    """Whether it takes a person to sign in."""
    lock_timeout_seconds: float = AUTHORIZATION_LOCK_TIMEOUT_SECONDS

    def authorizing(self, owner: ConnectionOwner, record: TokenRecord) -> AbstractAsyncContextManager[OAuthGrant]:
        """The grant while somebody may be asked; raises `Denied` where nobody can be."""
        return nullcontext(self)

    def sdk_provider(self, url: str, storage: SdkTokenStorage) -> SdkAuthProvider:
        """The library's provider for one sign-in, or one renewal."""
        raise NotImplementedError


class SdkTokenStorage:
    """The library's view of one sign-in; it is kept whole, so that tokens never meet another's registration."""

    def __init__(self, store: TokenStore, grant: OAuthGrant, requested_scope: str | None = None) -> None:
        self._store, self._grant = store, grant
        self.record = record_for_client(grant, store.read())
        if not _covers_scope(
            self.record.client, requested_scope
        ):  # then it takes another registration to be given more
            self.record = replace(self.record, client=None)
        self.provider: SdkAuthProvider | None = None

    async def get_tokens(self) -> OAuthToken | None:
        found: OAuthToken | None = _parse_stored(OAuthToken, self.record.tokens)
        return found

    async def set_tokens(self, tokens: OAuthToken) -> None:
        expires_at = None if tokens.expires_in is None else time.time() + tokens.expires_in
        said = tokens.model_dump(mode="json", exclude_none=True)
        self.record = replace(
            self.record, tokens=said, expires_at=expires_at, found=_discovered_metadata(self.provider)
        )
        self._store.write(self.record)

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        found: OAuthClientInformationFull | None = _parse_stored(OAuthClientInformationFull, self.record.client)
        if found is not None and 0 < (found.client_secret_expires_at or 0) <= time.time():
            found = None  # another registration is needed
        return self._grant.registered_client or found

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        if self._grant.registered_client is not None:
            raise mark_unsent(Denied("The server leads to an authorisation server that does not know our client."))
        self.record = replace(self.record, client=client_info.model_dump(mode="json", exclude_none=True))
        if self._store.read().tokens is None:
            self._store.write(replace(self.record, tokens=None, expires_at=None))


def record_for_client(grant: OAuthGrant, record: TokenRecord) -> TokenRecord:
    """What is kept, unless it belongs to a client that is not ours any more."""
    if grant.registered_client is None:
        return record
    ours = {"client_id": grant.registered_client.client_id}  # and not its secret, which is kept elsewhere
    same = (record.client or {}).get("client_id") == ours["client_id"]
    return replace(record, client=ours) if same else TokenRecord(client=ours)


def _covers_scope(client: Mapping[str, Any] | None, requested_scope: str | None) -> bool:
    registered = (client or {}).get("scope")
    return not registered or set((requested_scope or "").split()) <= set(registered.split())


class AuthorizationCodeGrant(OAuthGrant):
    """A person says yes in a browser, and the browser brings a code."""

    is_interactive = True

    def __init__(self, settings: OAuth, callback: CallbackServer | None = None) -> None:
        self._settings, self._callback = settings, callback
        self.scopes, self.issuer, self.lock_timeout_seconds = (
            settings.scopes,
            settings.issuer,
            settings.timeout + AUTHORIZATION_LOCK_TIMEOUT_SECONDS,
        )
        self.sends_secret = settings.client_secret is not None
        self.registered_client = (
            None if settings.client_id is None else _registered_client(settings, settings.client_id)
        )

    def authorizing(self, owner: ConnectionOwner, record: TokenRecord) -> AbstractAsyncContextManager[OAuthGrant]:
        """With a page to come back to: at the port that is registered, if it is free."""
        if not self._settings.can_open_browser(owner):
            raise Denied("Nobody can be asked here.")
        return self._with_callback_server(record)

    @asynccontextmanager
    async def _with_callback_server(self, record: TokenRecord) -> AsyncIterator[OAuthGrant]:
        async with CallbackServer.listen(
            self._settings.redirect_port, preferred_port=_registered_port(record)
        ) as callback:
            yield AuthorizationCodeGrant(self._settings, callback)

    def sdk_provider(self, url: str, storage: SdkTokenStorage) -> SdkAuthProvider:
        """It speaks to the person through the callback; without one, it can only renew."""
        here = self._callback.redirect_uri if self._callback else "http://127.0.0.1/callback"
        if self._callback is not None and here not in (storage.record.client or {}).get("redirect_uris", [here]):
            storage.record = replace(storage.record, client=None)  # registered with a port that is not free
        return OAuthClientProvider(
            url,
            OAuthClientMetadata(redirect_uris=[AnyUrl(here)], client_name=self._settings.client_name),
            storage,
            self._open_authorization_url,
            self._wait_for_code,
            client_metadata_url=self._settings.client_metadata_url,
        )

    async def _open_authorization_url(self, url: str) -> None:
        assert self._callback is not None
        self._callback.expect_state_of(url)
        show = self._settings.open or _open_in_browser
        await (show(url) if iscoroutinefunction(show) else asyncio.to_thread(show, url))

    async def _wait_for_code(self) -> AuthorizationCodeResult:
        assert self._callback is not None
        try:
            async with asyncio.timeout(self._settings.timeout):
                answer = await self._callback.wait_for_response()
        except TimeoutError:
            raise mark_unsent(
                TimedOut(f"Nobody signed in within {self._settings.timeout:g} seconds. Try again.")
            ) from None
        return AuthorizationCodeResult(code=answer.code, state=answer.state, iss=answer.issuer)


def _registered_client(settings: OAuth, client_id: str) -> OAuthClientInformationFull:
    return OAuthClientInformationFull(
        client_id=client_id,
        client_secret=settings.client_secret,
        token_endpoint_auth_method=settings.method or ("client_secret_basic" if settings.client_secret else "none"),
        issuer=settings.issuer,
    )


def _registered_port(record: TokenRecord) -> int:
    """The port that was registered: most servers want the very same one again."""
    uris = (record.client or {}).get("redirect_uris") or [""]
    return urlsplit(uris[0]).port or 0


def _open_in_browser(url: str) -> None:
    sys.stderr.write(f"Sign in here: {url}\n")
    sys.stderr.flush()
    webbrowser.open(url)


class ClientCredentialsGrant(OAuthGrant):
    """A program signs in as itself."""

    def __init__(self, settings: ClientCredentials) -> None:
        self._settings = settings
        self.scopes, self.issuer, self.sends_secret = settings.scopes, settings.issuer, True

    def sdk_provider(self, url: str, storage: SdkTokenStorage) -> SdkAuthProvider:
        """By secret, by key, or by an assertion that somebody else makes."""
        given = self._settings
        common: dict[str, Any] = {"scope": " ".join(given.scopes) or None, "issuer": given.issuer}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that no issuer is named: then only the server's own host is trusted
            if given.client_secret is not None:
                method: Any = given.method or "client_secret_basic"
                secret = given.client_secret
                return ClientCredentialsOAuthProvider(url, storage, given.client_id, secret, method, **common)
            signed = given.assertion or self._key_assertion()
            return PrivateKeyJWTOAuthProvider(url, storage, given.client_id, signed, **common)

    def _key_assertion(self) -> Any:
        given = self._settings
        return SignedJWTParameters(
            issuer=given.client_id,
            subject=given.client_id,
            signing_key=given.private_key or "",
            signing_algorithm=given.algorithm,
        ).create_assertion_provider()


class IdentityAssertionGrant(OAuthGrant):
    """An identity provider that both sides trust says who it is."""

    def __init__(self, settings: IdentityAssertion) -> None:
        self._settings = settings
        self.scopes, self.issuer, self.sends_secret = settings.scopes, settings.issuer, True

    def sdk_provider(self, url: str, storage: SdkTokenStorage) -> SdkAuthProvider:
        """It speaks to the issuer that was named, and to no other."""
        given = self._settings
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


def _parse_stored(model: Any, stored: Any) -> Any:
    try:
        return None if stored is None else model.model_validate(stored)
    except ValidationError:
        return None  # kept by another version: as if there were none


def _discovered_metadata(provider: SdkAuthProvider | None) -> dict[str, Any]:
    """Where the authorisation server is: asked for again it could be another, and not asked for it would be a guess."""
    if not isinstance(provider, OAuthClientProvider):
        return {}
    context = provider.context
    known = {"resource": context.protected_resource_metadata, "server": context.oauth_metadata}
    texts = {name: said.model_dump(mode="json", exclude_none=True) for name, said in known.items() if said is not None}
    return {**texts, "issuer": context.auth_server_url}


def restore_metadata(provider: OAuthClientProvider, record: TokenRecord) -> None:
    """Let the library go on where it was before a restart."""
    context, found = provider.context, record.found
    context.protected_resource_metadata = _parse_stored(ProtectedResourceMetadata, found.get("resource"))
    context.oauth_metadata = _parse_stored(OAuthMetadata, found.get("server"))
    context.auth_server_url = found.get("issuer")
