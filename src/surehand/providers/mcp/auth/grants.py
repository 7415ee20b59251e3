"""The OAuth grants by which tokens are obtained, each through an auth provider of the MCP SDK.

`BearerTokenAuth` drives them. Imported when the first connection is opened: it loads the MCP SDK, which takes a second.
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
from typing import Any, TypeAlias
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
from surehand.providers.mcp.auth.callback import CallbackServer
from surehand.providers.mcp.auth.grant_settings import (
    AuthorizationCodeSettings,
    ClientCredentialsSettings,
    IdentityAssertionSettings,
)
from surehand.providers.mcp.auth.token_store import TokenRecord, TokenStore
from surehand.providers.mcp.connection_owner import ConnectionOwner

SdkAuthProvider: TypeAlias = OAuthClientProvider | IdentityAssertionOAuthProvider
AUTHORIZATION_LOCK_TIMEOUT_SECONDS = 60.0
"""Time to wait for another task or process that obtains the same tokens, beside the time a person has."""


class OAuthGrant:
    """One way to obtain tokens; `oauth`, `client_credentials` and `identity_assertion` each have their own."""

    scopes: tuple[str, ...] = ()
    issuer: str | None = None
    sends_secret: bool = False
    """Whether token requests carry a secret that only one authorization server may see."""
    registered_client: OAuthClientInformationFull | None = None
    """The client that a developer has registered; None if clients are registered dynamically."""
    is_interactive: bool = False
    """Whether a person has to sign in."""
    lock_timeout_seconds: float = AUTHORIZATION_LOCK_TIMEOUT_SECONDS

    def authorizing(self, owner: ConnectionOwner, record: TokenRecord) -> AbstractAsyncContextManager[OAuthGrant]:
        """Prepare to obtain tokens and yield the grant; raises `Denied` where no person can be asked."""
        return nullcontext(self)

    def sdk_provider(self, url: str, storage: SdkTokenStorage) -> SdkAuthProvider:
        """Build the MCP SDK's auth provider for one authorization or one refresh."""
        raise NotImplementedError


class SdkTokenStorage:
    """The `TokenStorage` that the MCP SDK reads and writes, over one `TokenRecord`.

    Tokens and client registration are written together, so that tokens never meet another client's registration.
    """

    def __init__(self, store: TokenStore, grant: OAuthGrant, requested_scope: str | None = None) -> None:
        self._store = store
        self._grant = grant
        self.record = record_for_client(grant, store.read())
        if not _covers_scope(self.record.client, requested_scope):
            self.record = replace(self.record, client=None)  # a client gets only the scopes it is registered for
        self.provider: SdkAuthProvider | None = None

    async def get_tokens(self) -> OAuthToken | None:
        tokens: OAuthToken | None = _parse_stored(OAuthToken, self.record.tokens)
        return tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        expires_at = None if tokens.expires_in is None else time.time() + tokens.expires_in
        self.record = replace(
            self.record,
            tokens=tokens.model_dump(mode="json", exclude_none=True),
            expires_at=expires_at,
            found=_discovered_metadata(self.provider),
        )
        self._store.write(self.record)

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        client: OAuthClientInformationFull | None = _parse_stored(OAuthClientInformationFull, self.record.client)
        if client is not None and 0 < (client.client_secret_expires_at or 0) <= time.time():
            client = None  # its secret has expired: the SDK registers another client
        return self._grant.registered_client or client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        if self._grant.registered_client is not None:
            raise mark_unsent(Denied("The server leads to an authorisation server that does not know our client."))
        self.record = replace(self.record, client=client_info.model_dump(mode="json", exclude_none=True))
        if self._store.read().tokens is None:
            self._store.write(replace(self.record, tokens=None, expires_at=None))


def record_for_client(grant: OAuthGrant, record: TokenRecord) -> TokenRecord:
    """The stored record, or an empty one if it belongs to another client than the one that is registered now."""
    if grant.registered_client is None:
        return record
    client = {"client_id": grant.registered_client.client_id}  # without its secret, which is never stored
    is_same_client = (record.client or {}).get("client_id") == client["client_id"]
    return replace(record, client=client) if is_same_client else TokenRecord(client=client)


def _covers_scope(client: Mapping[str, Any] | None, requested_scope: str | None) -> bool:
    registered = (client or {}).get("scope")
    return not registered or set((requested_scope or "").split()) <= set(registered.split())


class AuthorizationCodeGrant(OAuthGrant):
    """The authorization code grant: a person signs in with a browser, which is redirected to us with a code."""

    is_interactive = True

    def __init__(self, settings: AuthorizationCodeSettings, callback: CallbackServer | None = None) -> None:
        self._settings = settings
        self._callback = callback
        self.scopes = settings.scopes
        self.issuer = settings.issuer
        self.lock_timeout_seconds = settings.timeout + AUTHORIZATION_LOCK_TIMEOUT_SECONDS
        self.sends_secret = settings.client_secret is not None
        if settings.client_id is not None:
            self.registered_client = _registered_client(settings, settings.client_id)

    def authorizing(self, owner: ConnectionOwner, record: TokenRecord) -> AbstractAsyncContextManager[OAuthGrant]:
        """Open a callback server for the browser, on the registered port if that is free."""
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
        """Build the SDK's provider; without a callback server it can only refresh tokens."""
        redirect_uri = "http://127.0.0.1/callback"
        if self._callback is not None:
            redirect_uri = self._callback.redirect_uri
            registered_uris = (storage.record.client or {}).get("redirect_uris", [redirect_uri])
            if redirect_uri not in registered_uris:  # the registered port is not free: register again with this one
                storage.record = replace(storage.record, client=None)
        return OAuthClientProvider(
            url,
            OAuthClientMetadata(redirect_uris=[AnyUrl(redirect_uri)], client_name=self._settings.client_name),
            storage,
            self._open_authorization_url,
            self._wait_for_code,
            client_metadata_url=self._settings.client_metadata_url,
        )

    async def _open_authorization_url(self, url: str) -> None:
        assert self._callback is not None
        self._callback.expect_state_of(url)
        open_url = self._settings.open or _open_in_browser
        if iscoroutinefunction(open_url):
            await open_url(url)
        else:
            await asyncio.to_thread(open_url, url)

    async def _wait_for_code(self) -> AuthorizationCodeResult:
        assert self._callback is not None
        try:
            async with asyncio.timeout(self._settings.timeout):
                response = await self._callback.wait_for_response()
        except TimeoutError:
            raise mark_unsent(
                TimedOut(f"Nobody signed in within {self._settings.timeout:g} seconds. Try again.")
            ) from None
        return AuthorizationCodeResult(code=response.code, state=response.state, iss=response.issuer)


def _registered_client(settings: AuthorizationCodeSettings, client_id: str) -> OAuthClientInformationFull:
    return OAuthClientInformationFull(
        client_id=client_id,
        client_secret=settings.client_secret,
        token_endpoint_auth_method=settings.method or ("client_secret_basic" if settings.client_secret else "none"),
        issuer=settings.issuer,
    )


def _registered_port(record: TokenRecord) -> int:
    """The port of the registered redirect URI, 0 if none: most servers compare the URI exactly, port included."""
    uris = (record.client or {}).get("redirect_uris") or [""]
    return urlsplit(uris[0]).port or 0


def _open_in_browser(url: str) -> None:
    sys.stderr.write(f"Sign in here: {url}\n")
    sys.stderr.flush()
    webbrowser.open(url)


class ClientCredentialsGrant(OAuthGrant):
    """The client credentials grant: a program signs in as itself."""

    sends_secret = True

    def __init__(self, settings: ClientCredentialsSettings) -> None:
        self._settings = settings
        self.scopes = settings.scopes
        self.issuer = settings.issuer

    def sdk_provider(self, url: str, storage: SdkTokenStorage) -> SdkAuthProvider:
        """Build the SDK's provider for a client secret, a private key, or the developer's own assertion."""
        settings = self._settings
        common: dict[str, Any] = {"scope": " ".join(settings.scopes) or None, "issuer": settings.issuer}
        with warnings.catch_warnings():
            # The SDK warns where no issuer is named. Then `BearerTokenAuth` trusts the server's own host only.
            warnings.simplefilter("ignore")
            if settings.client_secret is not None:
                method: Any = settings.method or "client_secret_basic"
                secret = settings.client_secret
                return ClientCredentialsOAuthProvider(url, storage, settings.client_id, secret, method, **common)
            assertion = settings.assertion or self._key_assertion()
            return PrivateKeyJWTOAuthProvider(url, storage, settings.client_id, assertion, **common)

    def _key_assertion(self) -> Any:
        settings = self._settings
        return SignedJWTParameters(
            issuer=settings.client_id,
            subject=settings.client_id,
            signing_key=settings.private_key or "",
            signing_algorithm=settings.algorithm,
        ).create_assertion_provider()


class IdentityAssertionGrant(OAuthGrant):
    """The identity assertion grant: an identity provider that both sides trust vouches for the user."""

    sends_secret = True

    def __init__(self, settings: IdentityAssertionSettings) -> None:
        self._settings = settings
        self.scopes = settings.scopes
        self.issuer = settings.issuer

    def sdk_provider(self, url: str, storage: SdkTokenStorage) -> SdkAuthProvider:
        """Build the SDK's provider, which sends requests to the configured issuer only."""
        settings = self._settings
        method: Any = settings.method or "client_secret_post"
        return IdentityAssertionOAuthProvider(
            url,
            storage,
            settings.client_id,
            settings.client_secret,
            settings.issuer,
            settings.assertion,
            " ".join(settings.scopes) or None,
            method,
        )


def _parse_stored(model: Any, stored: Any) -> Any:
    try:
        return None if stored is None else model.model_validate(stored)
    except ValidationError:
        return None  # stored by another version of the SDK: sign in again


def _discovered_metadata(provider: SdkAuthProvider | None) -> dict[str, Any]:
    """The metadata of the authorization server that issued the tokens.

    They are stored with the tokens: discovered again, they could lead a refresh token to another server.
    """
    if not isinstance(provider, OAuthClientProvider):
        return {}
    context = provider.context
    stored: dict[str, Any] = {"issuer": context.auth_server_url}
    if context.protected_resource_metadata is not None:
        stored["resource"] = context.protected_resource_metadata.model_dump(mode="json", exclude_none=True)
    if context.oauth_metadata is not None:
        stored["server"] = context.oauth_metadata.model_dump(mode="json", exclude_none=True)
    return stored


def restore_metadata(provider: OAuthClientProvider, record: TokenRecord) -> None:
    """Give the SDK's provider the stored metadata, so that it can refresh tokens after a restart."""
    context = provider.context
    stored = record.found
    context.protected_resource_metadata = _parse_stored(ProtectedResourceMetadata, stored.get("resource"))
    context.oauth_metadata = _parse_stored(OAuthMetadata, stored.get("server"))
    context.auth_server_url = stored.get("issuer")
