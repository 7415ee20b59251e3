"""Access tokens of OAuth2 client credentials (RFC 6749, section 4.4): fetched once for all callers, and kept."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from time import monotonic
from typing import Any
from urllib.parse import quote_plus, urlencode

from surehand.core.errors import ToolError, Unavailable
from surehand.core.sanitize import clean_line
from surehand.http.client import HttpClient
from surehand.http.errors import mark_unsent
from surehand.http.request import build_request
from surehand.http.response import HttpResponse
from surehand.providers.rest.auth import ClientCredentialsAuth
from surehand.providers.rest.secrets import SentSecrets, encode_basic

EXPIRY_MARGIN_SECONDS = 30.0
"""A token is replaced that long before it expires, or after nine tenths of its time if that is later."""
MAX_TOKEN_RESPONSE_BYTES = 256 * 1024
TOKEN_TIMEOUT_SECONDS = 30.0
_MAX_REASON_CHARS = 300
"""Characters that a model is shown of what a token endpoint says about an error."""


@dataclass(frozen=True, slots=True)
class AccessToken:
    """A token, and until when it is used."""

    value: str
    usable_until: float
    """On the monotonic clock."""


class AccessTokens:
    """The tokens of one sender. Callers that need the same token wait for one request."""

    def __init__(self, client: HttpClient, secrets: SentSecrets, now: Callable[[], float] = monotonic) -> None:
        self._client = client
        self._secrets = secrets
        self._now = now
        self._tokens: dict[ClientCredentialsAuth, AccessToken] = {}
        self._locks: dict[ClientCredentialsAuth, asyncio.Lock] = {}

    async def get(self, auth: ClientCredentialsAuth) -> str:
        """A token that has not expired."""
        token = self._usable_token(auth)
        if token is None:
            # If the caller that fetches is cancelled, the next one that waits for the lock fetches.
            async with self._locks.setdefault(auth, asyncio.Lock()):
                token = self._usable_token(auth)
                if token is None:
                    token = await self._fetch(auth)
                    self._tokens[auth] = token
        return token.value

    def discard(self, auth: ClientCredentialsAuth, value: str) -> None:
        """Forget a token that the service refused, unless another caller has replaced it already."""
        token = self._tokens.get(auth)
        if token is not None and token.value == value:
            del self._tokens[auth]

    def _usable_token(self, auth: ClientCredentialsAuth) -> AccessToken | None:
        token = self._tokens.get(auth)
        return token if token is not None and self._now() < token.usable_until else None

    async def _fetch(self, auth: ClientCredentialsAuth) -> AccessToken:
        client_id = self._secrets.read_name(auth.client_id)
        client_secret = self._secrets.reveal(auth.client_secret)
        form = {"grant_type": "client_credentials"}
        if auth.scope:
            form["scope"] = auth.scope
        form |= dict(auth.parameters)
        headers = {"Accept": "application/json", "Content-Type": "application/x-www-form-urlencoded"}
        if auth.client_auth == "basic":
            # RFC 6749, section 2.3.1: both are form-encoded before they are joined.
            credentials = encode_basic(quote_plus(client_id), quote_plus(client_secret))
            self._secrets.remember(credentials)
            headers["Authorization"] = f"Basic {credentials}"
        else:
            form |= {"client_id": client_id, "client_secret": client_secret}
        request = build_request("POST", auth.token_url, headers, urlencode(form).encode())
        host = auth.token_url.host
        try:
            async with self._client.open(
                request, timeout=TOKEN_TIMEOUT_SECONDS, max_bytes=MAX_TOKEN_RESPONSE_BYTES, max_redirects=0
            ) as incoming:
                response = await incoming.read()
            return self._parse_token(host, response)
        except ToolError as error:
            mark_unsent(error)  # the request that needed the token has not been sent
            raise

    def _parse_token(self, host: str, response: HttpResponse) -> AccessToken:
        try:
            body: Any = json.loads(response.body)
        except (ValueError, RecursionError):
            body = None
        fields = body if isinstance(body, dict) else {}
        if not response.ok:
            reason = " ".join(str(fields[name]) for name in ("error", "error_description") if name in fields)
            cleaned = clean_line(self._secrets.redactor(reason), _MAX_REASON_CHARS)  # masked first, then cut
            problem = f"{host} gave no access token: HTTP {response.status} {cleaned}".rstrip()
            raise (Unavailable if response.status >= 500 else ToolError)(
                f"{problem}. The developer looks at the client."
            )
        value = fields.get("access_token")
        if not isinstance(value, str) or not value:
            raise ToolError(f"{host} answered without an access token.")
        self._secrets.remember(value)
        return AccessToken(value, self._now() + _usable_seconds(fields.get("expires_in")))


def _usable_seconds(expires_in: Any) -> float:
    """Seconds for which a token is used; without an expiry it is used until the service refuses it."""
    try:
        seconds = float(expires_in)
    except (TypeError, ValueError):
        return inf
    return max(seconds - EXPIRY_MARGIN_SECONDS, seconds * 0.9, 0.0)
