"""`BearerTokenAuth` puts a user's access token on every request to an MCP server, and obtains or refreshes it.

The auth providers of the MCP SDK speak OAuth. This module decides when they run, what they remember, and which hosts
they may send secrets to. Imported when the first connection is opened: it loads the MCP SDK, which takes a second.
"""

from __future__ import annotations

import asyncio
import logging
import re
import shlex
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from contextlib import aclosing, asynccontextmanager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, TypeAlias
from urllib.parse import urlsplit

import anyio
import httpx2
from mcp.client.auth import OAuthClientProvider, OAuthFlowError, OAuthRegistrationError, OAuthTokenError
from mcp.client.auth.utils import extract_field_from_www_auth, extract_scope_from_www_auth, issuers_match, union_scopes

from surehand.core.errors import Denied, Unavailable
from surehand.http.errors import mark_unsent
from surehand.providers.mcp.auth.grants import (
    OAuthGrant,
    SdkAuthProvider,
    SdkTokenStorage,
    record_for_client,
    restore_metadata,
)
from surehand.providers.mcp.auth.token_files import canonical_url
from surehand.providers.mcp.auth.token_store import TokenRecord, TokenStore
from surehand.providers.mcp.connection_errors import NotSignedIn
from surehand.providers.mcp.connection_owner import ConnectionOwner

OutgoingRequests: TypeAlias = AsyncGenerator[httpx2.Request, None]
"""Requests to an authorization server; the response to each is put into the `_Exchange`."""

AUTH_REQUEST_TIMEOUT_SECONDS = 10.0
"""For each step of a request to an authorization server: connecting, sending, and every read."""
REFRESH_SHIELD_SECONDS = 15.0
"""Time in which a refresh is not cancelled together with the call that needed it."""
REFRESH_LOCK_TIMEOUT_SECONDS = 60.0
"""Time to wait for another task or process that refreshes the same tokens."""


@dataclass(slots=True)
class _Exchange:
    """The response to the last request of an auth flow."""

    response: httpx2.Response | None = None


class BearerTokenAuth(httpx2.Auth):
    """The `httpx2.Auth` of one user at one server, shared by all connections of that user.

    Requests run in parallel. Only where tokens have to be refreshed or obtained, one request does it for all.
    """

    def __init__(self, owner: ConnectionOwner, url: str, grant: OAuthGrant, store: TokenStore) -> None:
        self._owner = owner
        self._url = url
        self._grant = grant
        self._store = store
        self._failed_authorizations = 0

    async def async_auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """Send the request with the access token; after a 401 refresh the tokens, then authorize anew."""
        exchange = _Exchange()
        sent = self._read_record()
        if sent.is_expiring():
            async with aclosing(self._refresh(request, sent, exchange)) as steps:
                async for step in steps:
                    exchange.response = yield step
            sent = self._read_record()
        refusal = yield _with_bearer_token(request, sent)
        for remedy in (self._refresh, self._authorize):
            if not _is_refused(refusal):
                return
            exchange.response = refusal
            async with aclosing(remedy(request, sent, exchange)) as steps:
                async for step in steps:
                    exchange.response = yield step
            current = self._read_record()
            if current.access_token not in (None, sent.access_token):
                sent = current
                refusal = yield _with_bearer_token(request, sent)
        if _is_refused(refusal):
            raise self._refusal_error(refusal)

    def _read_record(self) -> TokenRecord:
        return record_for_client(self._grant, self._store.read())

    async def _refresh(
        self, request: httpx2.Request, sent_record: TokenRecord, exchange: _Exchange
    ) -> OutgoingRequests:
        """Refresh the tokens, once for all requests that hold the same ones: most refresh tokens work only once."""
        if not sent_record.can_refresh or (exchange.response is not None and exchange.response.status_code == 403):
            return
        async with self._store.lock("renew", REFRESH_LOCK_TIMEOUT_SECONDS):
            current = self._read_record()
            if current.access_token != sent_record.access_token or not current.can_refresh:
                return  # another task or process has refreshed them while this one waited for the lock
            # Cancelled between request and response, the old refresh token would be used up and the new one lost.
            with _shielded_from_cancellation():
                provider, flow = self._start_flow(request, self._grant, is_refresh=True)
                async with aclosing(flow):
                    outgoing = await self._next_request(flow, None, exchange)
                    while outgoing is not request:
                        yield self._check_outgoing(provider, outgoing)
                        await _check_available(exchange.response, self._url)
                        outgoing = await self._next_request(flow, exchange.response, exchange)
            if self._read_record().access_token == current.access_token:
                self._store.write(_without_tokens(current, exchange.response))

    async def _authorize(
        self, request: httpx2.Request, sent_record: TokenRecord, exchange: _Exchange
    ) -> OutgoingRequests:
        """Obtain new tokens through the grant, once for all requests that wait for them."""
        refusal = exchange.response
        failures_before = self._failed_authorizations
        assert refusal is not None
        async with self._authorizing(sent_record, refusal) as grant:
            if self._read_record().access_token != sent_record.access_token:
                return
            if failures_before != self._failed_authorizations:  # do not ask the person again for each waiting request
                raise self._sign_in_needed_error("Signing in did not work.")
            challenge = _challenge_with_scopes(refusal, self._grant.scopes)
            provider, flow = self._start_flow(request, grant, requested_scope=extract_scope_from_www_auth(challenge))
            try:
                async with aclosing(flow):
                    await self._next_request(flow, None, exchange)
                    outgoing = await self._next_request(flow, challenge, exchange)
                    while outgoing is not request:
                        yield self._check_outgoing(provider, outgoing)
                        outgoing = await self._next_request(flow, exchange.response, exchange)
            except Exception:
                self._failed_authorizations += 1
                raise

    @asynccontextmanager
    async def _authorizing(self, sent_record: TokenRecord, refusal: httpx2.Response) -> AsyncIterator[OAuthGrant]:
        try:
            prepared_grant = self._grant.authorizing(self._owner, sent_record)
        except Denied:
            raise self._refusal_error(refusal) from None
        async with self._store.lock("ask", self._grant.lock_timeout_seconds), prepared_grant as grant:
            yield grant

    def _start_flow(
        self,
        request: httpx2.Request,
        grant: OAuthGrant,
        *,
        is_refresh: bool = False,
        requested_scope: str | None = None,
    ) -> tuple[SdkAuthProvider, AsyncGenerator[httpx2.Request, httpx2.Response]]:
        storage = SdkTokenStorage(self._store, self._grant, requested_scope)
        provider = storage.provider = grant.sdk_provider(self._url, storage)
        if isinstance(provider, OAuthClientProvider):
            restore_metadata(provider, storage.record)
            # The SDK refreshes tokens that have expired: a time in 1970 makes it do so.
            provider.context.token_expiry_time = 1.0 if is_refresh else None
        return provider, provider.async_auth_flow(request)

    async def _next_request(
        self,
        flow: AsyncGenerator[httpx2.Request, httpx2.Response],
        response: httpx2.Response | None,
        exchange: _Exchange,
    ) -> httpx2.Request:
        """The next request of the SDK's flow. Its errors may quote a server's response, so none is passed on."""
        token = _is_our_flow.set(True)
        try:
            return await (flow.asend(response) if response is not None else anext(flow))
        except (OAuthRegistrationError, OAuthTokenError):
            raise self._sign_in_needed_error(
                f"The authorisation server refused to sign us in{_oauth_error_code(exchange.response)}."
            ) from None
        except OAuthFlowError as error:
            raise self._sign_in_failed_error(
                f"Signing in to {canonical_url(self._url)} failed: {_printable_message(error)}."
            ) from None
        except (ValueError, StopAsyncIteration) as error:
            reason = f"the answers make no sense ({type(error).__name__})"
            raise self._sign_in_failed_error(f"Signing in to {canonical_url(self._url)} failed: {reason}.") from None
        finally:
            _is_our_flow.reset(token)

    def _check_outgoing(self, provider: SdkAuthProvider, outgoing: httpx2.Request) -> httpx2.Request:
        """Check a request to an authorization server: the MCP server chose its URL, and may be hostile."""
        host = outgoing.url.host
        if self._url.lower().startswith("https:") and outgoing.url.scheme != "https":
            raise self._sign_in_failed_error(f"Signing in would send what is secret to {host} without encryption.")
        if outgoing.method == "POST" and self._grant.sends_secret and not self._may_see_secret(provider, host):
            raise self._sign_in_failed_error(
                f"The server leads to the authorisation server {host}. If that is meant, name it with `issuer`."
            )
        outgoing.extensions["timeout"] = httpx2.Timeout(AUTH_REQUEST_TIMEOUT_SECONDS).as_dict()
        return outgoing

    def _may_see_secret(self, provider: SdkAuthProvider, host: str) -> bool:
        """Whether a host may receive the client's secret: the configured issuer, else only the server's own host."""
        if self._grant.issuer is None:
            return host == urlsplit(self._url).hostname
        if not isinstance(provider, OAuthClientProvider):
            return True  # this provider sends requests to the configured issuer only
        metadata = provider.context.oauth_metadata
        return metadata is not None and issuers_match(str(metadata.issuer), self._grant.issuer)

    def _refusal_error(self, refusal: httpx2.Response) -> Denied:
        if refusal.status_code == 403:
            demanded = (extract_scope_from_www_auth(refusal) or "").split()
            scopes = " ".join(scope for scope in demanded if _match_scope(scope))
            missing = f" It asks for {scopes[:200]!r}." if scopes else ""
            return self._sign_in_needed_error(
                f"The sign-in to {canonical_url(self._url)} does not cover this.{missing}"
            )
        return self._sign_in_needed_error(f"Nobody is signed in to {canonical_url(self._url)}.")

    def _sign_in_needed_error(self, problem: str) -> Denied:
        if not self._grant.is_interactive:
            return self._sign_in_failed_error(f"{problem} Somebody has to look after the credentials of this program.")
        user = ["--user", self._owner.user] if self._owner.user is not None else []
        command = shlex.join(["surehand", "login", canonical_url(self._url), *user])
        return mark_unsent(NotSignedIn(f"{problem} A person has to sign in: {command}"))

    def _sign_in_failed_error(self, problem: str) -> Denied:
        return mark_unsent(Denied(problem))


def _with_bearer_token(request: httpx2.Request, record: TokenRecord) -> httpx2.Request:
    if record.access_token is not None:
        request.headers["Authorization"] = f"Bearer {record.access_token}"
    else:
        request.headers.pop("Authorization", None)
    return request


@contextmanager
def _shielded_from_cancellation() -> Iterator[None]:
    """Postpone cancellation while the block runs, for at most `REFRESH_SHIELD_SECONDS`: a server may stall it."""
    # anyio, not `asyncio.shield`: the MCP SDK runs these requests in anyio scopes, which cancel again and again.
    with anyio.CancelScope(shield=True) as scope:
        timer = asyncio.get_running_loop().call_later(REFRESH_SHIELD_SECONDS, setattr, scope, "shield", False)
        try:
            yield
        finally:
            timer.cancel()


def _is_refused(response: httpx2.Response) -> bool:
    """Whether other tokens could help: 401, or 403 with the OAuth error `insufficient_scope`."""
    if response.status_code == 403:
        return extract_field_from_www_auth(response, "error") == "insufficient_scope"
    return response.status_code == 401


def _challenge_with_scopes(refusal: httpx2.Response, scopes: tuple[str, ...]) -> httpx2.Response:
    """The challenge with the developer's scopes added to the server's: the SDK takes the scopes from a challenge."""
    if not scopes:
        return refusal
    challenge = {name: extract_field_from_www_auth(refusal, name) for name in ("error", "resource_metadata")}
    challenge["scope"] = union_scopes(" ".join(scopes), extract_scope_from_www_auth(refusal))
    fields = ", ".join(f'{name}="{value}"' for name, value in challenge.items() if value)
    return httpx2.Response(
        refusal.status_code, headers={"WWW-Authenticate": f"Bearer {fields}"}, request=refusal.request
    )


async def _check_available(response: httpx2.Response | None, url: str) -> None:
    """Raise `Unavailable` for 429 and 5xx: the server has not refused the refresh token, so it is kept."""
    if response is None:
        return
    if response.status_code >= 400:
        await response.aread()
    if response.status_code >= 500 or response.status_code == 429:
        raise mark_unsent(
            Unavailable(
                f"The sign-in to {canonical_url(url)} cannot be renewed now: HTTP {response.status_code}. Try later."
            )
        )


def _without_tokens(record: TokenRecord, response: httpx2.Response | None) -> TokenRecord:
    """The record after a refresh token was refused: the client registration alone, unless that was refused."""
    is_client_refused = "invalid_client" in _oauth_error_code(response)
    return TokenRecord(client=None if is_client_refused else record.client)


def _oauth_error_code(response: httpx2.Response | None) -> str:
    """The OAuth error code of a response in brackets; no other text of the response may reach a model."""
    code = None
    if response is not None and response.status_code >= 400:
        try:
            code = response.json().get("error")
        except (ValueError, AttributeError, httpx2.ResponseNotRead, httpx2.StreamError):
            return f" (HTTP {response.status_code})"
    return f" ({code})" if isinstance(code, str) and re.fullmatch(r"[a-z_]{1,40}", code) else ""


def _printable_message(error: Exception) -> str:
    """The message of an SDK error in one line of printable ASCII; it says what was received and what expected."""
    line = " ".join(str(error).split())
    return re.sub(r"[^ -~]", "?", line)[:300].rstrip(".")


_match_scope: Callable[[str], Any] = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]+").fullmatch
"""Matches one scope as RFC 6749 defines it."""
_is_our_flow: ContextVar[bool] = ContextVar("surehand_auth_flow", default=False)


class _TracebackFilter(logging.Filter):
    """Drops the tracebacks that the MCP SDK logs during our flows: they can hold tokens, and we raise the error."""

    def filter(self, record: logging.LogRecord) -> bool:
        return not (record.exc_info and _is_our_flow.get())


logging.getLogger("mcp.client.auth.oauth2").addFilter(_TracebackFilter())
