"""A request of the web client to one target, and its form as an `httpx2.Request`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING

from surehand.core.errors import InvalidArguments
from surehand.http.decoding import ACCEPT_ENCODING
from surehand.http.failures import unsent
from surehand.http.headers import Headers, has_header, validated_headers
from surehand.http.settings import Settings
from surehand.http.target import Target, target_of

if TYPE_CHECKING:
    import httpx2

METHODS = frozenset({"GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE"})
SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
"""Methods that change nothing: they need no idempotency key."""


@dataclass(frozen=True, slots=True)
class Request:
    """A request to one target; a redirect makes another one of it."""

    method: str
    target: Target
    headers: Headers = ()
    body: bytes | None = None

    def as_httpx2(self, settings: Settings) -> httpx2.Request:
        """The request with all headers and timeouts."""
        import httpx2  # heavy, and an extra

        timeouts = {
            "connect": settings.connect_timeout,
            "read": settings.read_timeout,
            "write": settings.read_timeout,
            "pool": settings.connect_timeout,
        }
        return httpx2.Request(
            self.method,
            self._url(),
            headers=[(name.encode("latin-1"), value.encode("latin-1")) for name, value in self._all_headers(settings)],
            stream=httpx2.ByteStream(self.body or b""),
            extensions={"timeout": timeouts},
        )

    def _url(self) -> httpx2.URL:
        """The URL for `httpx2`, which refuses one that percent-encoding made longer than 64 KiB."""
        import httpx2  # heavy, and an extra

        try:
            return httpx2.URL(self.target.url)
        except httpx2.InvalidURL:
            raise unsent(
                InvalidArguments(f"The URL on {self.target.host} cannot be sent. Use a shorter one.")
            ) from None

    def _all_headers(self, settings: Settings) -> Headers:
        """The client's own headers, then the caller's."""
        ours = [("Host", self.target.authority), ("Accept-Encoding", ACCEPT_ENCODING)]
        if not has_header(self.headers, "user-agent"):
            ours.append(("User-Agent", settings.user_agent))
        if not has_header(self.headers, "accept"):
            ours.append(("Accept", "*/*"))
        if self.body is not None or self.method in ("POST", "PUT", "PATCH"):
            ours.append(("Content-Length", str(len(self.body or b""))))
        return (*ours, *self.headers)


def request_of(
    method: str,
    url: str,
    headers: Mapping[str, str] | None = None,
    body: bytes | None = None,
    idempotency_key: str | None = None,
) -> Request:
    """Validate a request; the idempotency key is added unless the method is safe or the headers hold one already."""
    method = method.upper()
    if method not in METHODS:
        known = ", ".join(sorted(METHODS))
        raise unsent(InvalidArguments(f"{method[:20]!r} is no method. Use one of: {known}."))
    sent = validated_headers(headers)
    if idempotency_key and method not in SAFE and not has_header(sent, "idempotency-key"):
        sent = (*sent, ("Idempotency-Key", _key_header(idempotency_key)))
    return Request(method, target_of(url), sent, body)


def _key_header(text: str) -> str:
    """The key if it can be a header value, else its hash: call ids are chosen by callers and may hold anything."""
    if len(text) <= 255 and text.isascii() and text.isprintable() and text == text.strip():
        return text
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
