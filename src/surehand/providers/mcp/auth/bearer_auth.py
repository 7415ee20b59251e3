"""Signing in: what a request carries, how that is renewed, and how a person is asked.

The library's providers speak OAuth; here is when they may speak, what they remember, and where they may send things.
Loaded when the first connection is opened, and not before: it imports the library.
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
from surehand.providers.mcp.addresses.address import ConnectionOwner
from surehand.providers.mcp.auth.grants import (
    OAuthGrant,
    SdkAuthProvider,
    SdkTokenStorage,
    record_for_client,
    restore_metadata,
)
from surehand.providers.mcp.auth.token_files import canonical_url
from surehand.providers.mcp.auth.token_store import TokenRecord, TokenStore
from surehand.providers.mcp.transports.connection_errors import NotSignedIn

OutgoingRequests: TypeAlias = AsyncGenerator[httpx2.Request, None]

AUTH_REQUEST_TIMEOUT_SECONDS = 10.0
"""Seconds for each request to an authorisation server to be connected, sent, and answered bit by bit."""
REFRESH_SHIELD_SECONDS = 15.0
"""Seconds for which a renewal is not cancelled with the call that needed it."""
REFRESH_LOCK_TIMEOUT_SECONDS = 60.0
"""Seconds to wait for somebody else who renews the same sign-in."""


@dataclass(slots=True)
class _Exchange:
    """What came back for the last request."""

    response: httpx2.Response | None = None


class BearerTokenAuth(httpx2.Auth):
    """One user's sign-in to one server, on every request there.

    Requests do not wait for each other, unless a sign-in has to be renewed: then one request sees to it for all.
    """

    def __init__(self, owner: ConnectionOwner, url: str, grant: OAuthGrant, store: TokenStore) -> None:
        self._owner, self._url, self._grant, self._store = owner, url, grant, store
        self._failed_authorizations = 0

    async def async_auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """The request with what it has to carry; after a refusal, a second time with something better."""
        exchange, sent = _Exchange(), self._read_record()
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
            if (now := self._read_record()).access_token not in (None, sent.access_token):
                sent = now
                refusal = yield _with_bearer_token(request, sent)
        if _is_refused(refusal):
            raise self._refusal_error(refusal)

    def _read_record(self) -> TokenRecord:
        return record_for_client(self._grant, self._store.read())

    async def _refresh(
        self, request: httpx2.Request, sent_record: TokenRecord, exchange: _Exchange
    ) -> OutgoingRequests:
        """Once for all who hold the same: a refresh token is often good for one use."""
        if not sent_record.can_refresh or (exchange.response is not None and exchange.response.status_code == 403):
            return
        async with self._store.lock("renew", REFRESH_LOCK_TIMEOUT_SECONDS):
            now = self._read_record()
            if now.access_token != sent_record.access_token or not now.can_refresh:
                return
            # Cut off half-way, the old token would be used up and the new one lost.
            with _shielded_from_cancellation():
                provider, flow = self._start_flow(request, self._grant, is_refresh=True)
                async with aclosing(flow):
                    outgoing = await self._next_request(flow, None, exchange)
                    while outgoing is not request:
                        yield self._check_outgoing(provider, outgoing)
                        await _check_available(exchange.response, self._url)
                        outgoing = await self._next_request(flow, exchange.response, exchange)
            if self._read_record().access_token == now.access_token:
                self._store.write(_without_tokens(now, exchange.response))

    async def _authorize(
        self, request: httpx2.Request, sent_record: TokenRecord, exchange: _Exchange
    ) -> OutgoingRequests:
        """A person, or whoever else can say who we are; once for all who wait for the same."""
        refusal, failures = exchange.response, self._failed_authorizations
        assert refusal is not None
        async with self._authorizing(sent_record, refusal) as grant:
            if self._read_record().access_token != sent_record.access_token:
                return
            if failures != self._failed_authorizations:
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
            asking = self._grant.authorizing(self._owner, sent_record)
        except Denied:
            raise self._refusal_error(refusal) from None
        async with self._store.lock("ask", self._grant.lock_timeout_seconds), asking as grant:
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
            provider.context.token_expiry_time = 1.0 if is_refresh else None
        return provider, provider.async_auth_flow(request)

    async def _next_request(
        self,
        flow: AsyncGenerator[httpx2.Request, httpx2.Response],
        response: httpx2.Response | None,
        exchange: _Exchange,
    ) -> httpx2.Request:
        """The library's next request. Its errors may hold what a server answered, so none of them goes further."""
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
            why = f"the answers make no sense ({type(error).__name__})"
            raise self._sign_in_failed_error(f"Signing in to {canonical_url(self._url)} failed: {why}.") from None
        finally:
            _is_our_flow.reset(token)

    def _check_outgoing(self, provider: SdkAuthProvider, outgoing: httpx2.Request) -> httpx2.Request:
        """A request to an authorisation server; where it leads is somebody else's word."""
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
        """Whether it may see our secret: the one that was named, or else one on the server's own host."""
        if self._grant.issuer is None:
            return host == urlsplit(self._url).hostname
        if not isinstance(provider, OAuthClientProvider):
            return True  # it asks nobody but the one that was named
        metadata = provider.context.oauth_metadata
        return metadata is not None and issuers_match(str(metadata.issuer), self._grant.issuer)

    def _refusal_error(self, refusal: httpx2.Response) -> Denied:
        if refusal.status_code == 403:
            wanted = " ".join(
                scope for scope in (extract_scope_from_www_auth(refusal) or "").split() if _match_scope(scope)
            )
            missing = f" It asks for {wanted[:200]!r}." if wanted else ""
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
    """Nothing is cancelled meanwhile, unless it takes so long that somebody keeps us waiting on purpose."""
    with anyio.CancelScope(shield=True) as scope:
        end = asyncio.get_running_loop().call_later(REFRESH_SHIELD_SECONDS, setattr, scope, "shield", False)
        try:
            yield
        finally:
            end.cancel()


def _is_refused(response: httpx2.Response) -> bool:
    asks = response.status_code == 403 and extract_field_from_www_auth(response, "error") == "insufficient_scope"
    return response.status_code == 401 or asks


def _challenge_with_scopes(refusal: httpx2.Response, scopes: tuple[str, ...]) -> httpx2.Response:
    """What the server asks for, and what the developer wants besides: the library takes both from a refusal."""
    if not scopes:
        return refusal
    wanted = union_scopes(" ".join(scopes), extract_scope_from_www_auth(refusal))
    said = {name: extract_field_from_www_auth(refusal, name) for name in ("error", "resource_metadata")}
    fields = ", ".join(f'{name}="{value}"' for name, value in {**said, "scope": wanted}.items() if value)
    return httpx2.Response(
        refusal.status_code, headers={"WWW-Authenticate": f"Bearer {fields}"}, request=refusal.request
    )


async def _check_available(response: httpx2.Response | None, url: str) -> None:
    """A server in trouble has refused nothing: what we hold is still good, later."""
    if response is not None and response.status_code >= 400:
        await response.aread()
    if response is not None and (response.status_code >= 500 or response.status_code == 429):
        raise mark_unsent(
            Unavailable(
                f"The sign-in to {canonical_url(url)} cannot be renewed now: HTTP {response.status_code}. Try later."
            )
        )


def _without_tokens(record: TokenRecord, response: httpx2.Response | None) -> TokenRecord:
    """What is left after a refresh token was refused: the registration, unless it is that which is not known."""
    forgotten = "invalid_client" in _oauth_error_code(response)
    return TokenRecord(client=None if forgotten else record.client)


def _oauth_error_code(response: httpx2.Response | None) -> str:
    """The code of an OAuth error, which is a word; what else an answer holds is nobody's business."""
    found = None
    if response is not None and response.status_code >= 400:
        try:
            found = response.json().get("error")
        except (ValueError, AttributeError, httpx2.ResponseNotRead, httpx2.StreamError):
            return f" (HTTP {response.status_code})"
    return f" ({found})" if isinstance(found, str) and re.fullmatch(r"[a-z_]{1,40}", found) else ""


def _printable_message(error: Exception) -> str:
    """The library's own words, which name what was found and what was expected."""
    return re.sub(r"[^ -~]", "?", " ".join(str(error).split()))[:300].rstrip(".")


_match_scope: Callable[[str], Any] = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]+").fullmatch


_is_our_flow: ContextVar[bool] = ContextVar("ours", default=False)


class _TracebackFilter(logging.Filter):
    """The library logs the traceback of what it raises, in which tokens can stand; ours are told by whom they reach."""

    def filter(self, record: logging.LogRecord) -> bool:
        return not (record.exc_info and _is_our_flow.get())


logging.getLogger("mcp.client.auth.oauth2").addFilter(_TracebackFilter())
