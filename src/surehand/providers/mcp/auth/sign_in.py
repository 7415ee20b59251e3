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
from surehand.http.failures import unsent
from surehand.providers.mcp.addresses.address import Who
from surehand.providers.mcp.auth.grants import Grant, Provider, Storage, known_to, recall
from surehand.providers.mcp.auth.kept import Kept, SignIn
from surehand.providers.mcp.auth.tokens import address
from surehand.providers.mcp.transports.connection_errors import NotSignedIn

Steps: TypeAlias = AsyncGenerator[httpx2.Request, None]

PATIENCE = 10.0
"""Seconds for each request to an authorisation server to be connected, sent, and answered bit by bit."""
UNBROKEN = 15.0
"""Seconds for which a renewal is not cancelled with the call that needed it."""
TURN = 60.0
"""Seconds to wait for somebody else who renews the same sign-in."""


@dataclass(slots=True)
class _Exchange:
    """What came back for the last request."""

    answer: httpx2.Response | None = None


class SignedIn(httpx2.Auth):
    """One user's sign-in to one server, on every request there.

    Requests do not wait for each other, unless a sign-in has to be renewed: then one request sees to it for all.
    """

    def __init__(self, who: Who, url: str, grant: Grant, kept: Kept) -> None:
        self._who, self._url, self._grant, self._kept = who, url, grant, kept
        self._failures = 0

    async def async_auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """The request with what it has to carry; after a refusal, a second time with something better."""
        exchange, sent = _Exchange(), self._read()
        if sent.stale():
            async with aclosing(self._renew(request, sent, exchange)) as steps:
                async for step in steps:
                    exchange.answer = yield step
            sent = self._read()
        refusal = yield _carrying(request, sent)
        for remedy in (self._renew, self._ask):
            if not _refused(refusal):
                return
            exchange.answer = refusal
            async with aclosing(remedy(request, sent, exchange)) as steps:
                async for step in steps:
                    exchange.answer = yield step
            if (now := self._read()).access not in (None, sent.access):
                sent = now
                refusal = yield _carrying(request, sent)
        if _refused(refusal):
            raise self._in_vain(refusal)

    def _read(self) -> SignIn:
        return known_to(self._grant, self._kept.read())

    async def _renew(self, request: httpx2.Request, sent: SignIn, exchange: _Exchange) -> Steps:
        """Once for all who hold the same: a refresh token is often good for one use."""
        if not sent.renewable or (exchange.answer is not None and exchange.answer.status_code == 403):
            return
        async with self._kept.turn("renew", TURN):
            now = self._read()
            if now.access != sent.access or not now.renewable:
                return
            # Cut off half-way, the old token would be used up and the new one lost.
            with _unbroken():
                provider, flow = self._begin(request, self._grant, expired=True)
                async with aclosing(flow):
                    outgoing = await self._next(flow, None, exchange)
                    while outgoing is not request:
                        yield self._checked(provider, outgoing)
                        await _check_at_work(exchange.answer, self._url)
                        outgoing = await self._next(flow, exchange.answer, exchange)
            if self._read().access == now.access:
                self._kept.write(_without_tokens(now, exchange.answer))

    async def _ask(self, request: httpx2.Request, sent: SignIn, exchange: _Exchange) -> Steps:
        """A person, or whoever else can say who we are; once for all who wait for the same."""
        refusal, failures = exchange.answer, self._failures
        assert refusal is not None
        async with self._asking(sent, refusal) as grant:
            if self._read().access != sent.access:
                return
            if failures != self._failures:
                raise self._needed("Signing in did not work.")
            challenge = _challenge(refusal, self._grant.scopes)
            provider, flow = self._begin(request, grant, wanted=extract_scope_from_www_auth(challenge))
            try:
                async with aclosing(flow):
                    await self._next(flow, None, exchange)
                    outgoing = await self._next(flow, challenge, exchange)
                    while outgoing is not request:
                        yield self._checked(provider, outgoing)
                        outgoing = await self._next(flow, exchange.answer, exchange)
            except Exception:
                self._failures += 1
                raise

    @asynccontextmanager
    async def _asking(self, sent: SignIn, refusal: httpx2.Response) -> AsyncIterator[Grant]:
        try:
            asking = self._grant.asking(self._who, sent)
        except Denied:
            raise self._in_vain(refusal) from None
        async with self._kept.turn("ask", self._grant.patience), asking as grant:
            yield grant

    def _begin(
        self, request: httpx2.Request, grant: Grant, *, expired: bool = False, wanted: str | None = None
    ) -> tuple[Provider, AsyncGenerator[httpx2.Request, httpx2.Response]]:
        storage = Storage(self._kept, self._grant, wanted)
        provider = storage.provider = grant.provider(self._url, storage)
        if isinstance(provider, OAuthClientProvider):
            recall(provider, storage.sign_in)
            provider.context.token_expiry_time = 1.0 if expired else None
        return provider, provider.async_auth_flow(request)

    async def _next(
        self,
        flow: AsyncGenerator[httpx2.Request, httpx2.Response],
        answer: httpx2.Response | None,
        exchange: _Exchange,
    ) -> httpx2.Request:
        """The library's next request. Its errors may hold what a server answered, so none of them goes further."""
        token = _OURS.set(True)
        try:
            return await (flow.asend(answer) if answer is not None else anext(flow))
        except (OAuthRegistrationError, OAuthTokenError):
            raise self._needed(f"The authorisation server refused to sign us in{_word(exchange.answer)}.") from None
        except OAuthFlowError as error:
            raise self._failed(f"Signing in to {address(self._url)} failed: {_plain(error)}.") from None
        except (ValueError, StopAsyncIteration) as error:
            why = f"the answers make no sense ({type(error).__name__})"
            raise self._failed(f"Signing in to {address(self._url)} failed: {why}.") from None
        finally:
            _OURS.reset(token)

    def _checked(self, provider: Provider, outgoing: httpx2.Request) -> httpx2.Request:
        """A request to an authorisation server; where it leads is somebody else's word."""
        host = outgoing.url.host
        if self._url.lower().startswith("https:") and outgoing.url.scheme != "https":
            raise self._failed(f"Signing in would send what is secret to {host} without encryption.")
        if outgoing.method == "POST" and self._grant.secret and not self._is_meant(provider, host):
            raise self._failed(
                f"The server leads to the authorisation server {host}. If that is meant, name it with `issuer`."
            )
        outgoing.extensions["timeout"] = httpx2.Timeout(PATIENCE).as_dict()
        return outgoing

    def _is_meant(self, provider: Provider, host: str) -> bool:
        """Whether it may see our secret: the one that was named, or else one on the server's own host."""
        if self._grant.issuer is None:
            return host == urlsplit(self._url).hostname
        if not isinstance(provider, OAuthClientProvider):
            return True  # it asks nobody but the one that was named
        metadata = provider.context.oauth_metadata
        return metadata is not None and issuers_match(str(metadata.issuer), self._grant.issuer)

    def _in_vain(self, refusal: httpx2.Response) -> Denied:
        if refusal.status_code == 403:
            wanted = " ".join(scope for scope in (extract_scope_from_www_auth(refusal) or "").split() if _SCOPE(scope))
            missing = f" It asks for {wanted[:200]!r}." if wanted else ""
            return self._needed(f"The sign-in to {address(self._url)} does not cover this.{missing}")
        return self._needed(f"Nobody is signed in to {address(self._url)}.")

    def _needed(self, problem: str) -> Denied:
        if not self._grant.by_person:
            return self._failed(f"{problem} Somebody has to look after the credentials of this program.")
        user = ["--user", self._who.user] if self._who.user is not None else []
        command = shlex.join(["surehand", "login", address(self._url), *user])
        return unsent(NotSignedIn(f"{problem} A person has to sign in: {command}"))

    def _failed(self, problem: str) -> Denied:
        return unsent(Denied(problem))


def _carrying(request: httpx2.Request, sign_in: SignIn) -> httpx2.Request:
    if sign_in.access is not None:
        request.headers["Authorization"] = f"Bearer {sign_in.access}"
    else:
        request.headers.pop("Authorization", None)
    return request


@contextmanager
def _unbroken() -> Iterator[None]:
    """Nothing is cancelled meanwhile, unless it takes so long that somebody keeps us waiting on purpose."""
    with anyio.CancelScope(shield=True) as scope:
        end = asyncio.get_running_loop().call_later(UNBROKEN, setattr, scope, "shield", False)
        try:
            yield
        finally:
            end.cancel()


def _refused(response: httpx2.Response) -> bool:
    asks = response.status_code == 403 and extract_field_from_www_auth(response, "error") == "insufficient_scope"
    return response.status_code == 401 or asks


def _challenge(refusal: httpx2.Response, scopes: tuple[str, ...]) -> httpx2.Response:
    """What the server asks for, and what the developer wants besides: the library takes both from a refusal."""
    if not scopes:
        return refusal
    wanted = union_scopes(" ".join(scopes), extract_scope_from_www_auth(refusal))
    said = {name: extract_field_from_www_auth(refusal, name) for name in ("error", "resource_metadata")}
    fields = ", ".join(f'{name}="{value}"' for name, value in {**said, "scope": wanted}.items() if value)
    return httpx2.Response(
        refusal.status_code, headers={"WWW-Authenticate": f"Bearer {fields}"}, request=refusal.request
    )


async def _check_at_work(answer: httpx2.Response | None, url: str) -> None:
    """A server in trouble has refused nothing: what we hold is still good, later."""
    if answer is not None and answer.status_code >= 400:
        await answer.aread()
    if answer is not None and (answer.status_code >= 500 or answer.status_code == 429):
        raise unsent(
            Unavailable(f"The sign-in to {address(url)} cannot be renewed now: HTTP {answer.status_code}. Try later.")
        )


def _without_tokens(refused: SignIn, answer: httpx2.Response | None) -> SignIn:
    """What is left after a refresh token was refused: the registration, unless it is that which is not known."""
    forgotten = "invalid_client" in _word(answer)
    return SignIn(client=None if forgotten else refused.client)


def _word(answer: httpx2.Response | None) -> str:
    """The code of an OAuth error, which is a word; what else an answer holds is nobody's business."""
    found = None
    if answer is not None and answer.status_code >= 400:
        try:
            found = answer.json().get("error")
        except (ValueError, AttributeError, httpx2.ResponseNotRead, httpx2.StreamError):
            return f" (HTTP {answer.status_code})"
    return f" ({found})" if isinstance(found, str) and re.fullmatch(r"[a-z_]{1,40}", found) else ""


def _plain(error: Exception) -> str:
    """The library's own words, which name what was found and what was expected."""
    return re.sub(r"[^ -~]", "?", " ".join(str(error).split()))[:300].rstrip(".")


_SCOPE: Callable[[str], Any] = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]+").fullmatch


_OURS: ContextVar[bool] = ContextVar("ours", default=False)


class _Quiet(logging.Filter):
    """The library logs the traceback of what it raises, in which tokens can stand; ours are told by whom they reach."""

    def filter(self, record: logging.LogRecord) -> bool:
        return not (record.exc_info and _OURS.get())


logging.getLogger("mcp.client.auth.oauth2").addFilter(_Quiet())
