"""A request of the web client to one target, and its form as an `httpx2.Request`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING

from surehand.core.errors import InvalidArguments
from surehand.http.decoding import ACCEPT_ENCODING
from surehand.http.errors import mark_unsent
from surehand.http.headers import HeaderPairs, has_header, validate_headers
from surehand.http.settings import HttpSettings
from surehand.http.target import HttpTarget, parse_target

if TYPE_CHECKING:
    import httpx2

ALLOWED_METHODS = frozenset({"GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE"})
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
"""Methods that change nothing: they need no idempotency key."""


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """A request to one target; a redirect makes another one of it."""

    method: str
    target: HttpTarget
    headers: HeaderPairs = ()
    body: bytes | None = None

    def to_httpx2(self, settings: HttpSettings) -> httpx2.Request:
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
            self._httpx2_url(),
            headers=[(name.encode("latin-1"), value.encode("latin-1")) for name, value in self._all_headers(settings)],
            stream=httpx2.ByteStream(self.body or b""),
            extensions={"timeout": timeouts},
        )

    def _httpx2_url(self) -> httpx2.URL:
        """The URL for `httpx2`, which refuses one that percent-encoding made longer than 64 KiB."""
        import httpx2  # heavy, and an extra

        try:
            return httpx2.URL(self.target.url)
        except httpx2.InvalidURL:
            raise mark_unsent(
                InvalidArguments(f"The URL on {self.target.host} cannot be sent. Use a shorter one.")
            ) from None

    def _all_headers(self, settings: HttpSettings) -> HeaderPairs:
        """The client's own headers, then the caller's."""
        ours = [("Host", self.target.authority), ("Accept-Encoding", ACCEPT_ENCODING)]
        if not has_header(self.headers, "user-agent"):
            ours.append(("User-Agent", settings.user_agent))
        if not has_header(self.headers, "accept"):
            ours.append(("Accept", "*/*"))
        if self.body is not None or self.method in ("POST", "PUT", "PATCH"):
            ours.append(("Content-Length", str(len(self.body or b""))))
        return (*ours, *self.headers)


def build_request(
    method: str,
    url: str,
    headers: Mapping[str, str] | None = None,
    body: bytes | None = None,
    idempotency_key: str | None = None,
) -> HttpRequest:
    """Validate a request; the idempotency key is added unless the method is safe or the headers hold one already."""
    method = method.upper()
    if method not in ALLOWED_METHODS:
        known = ", ".join(sorted(ALLOWED_METHODS))
        raise mark_unsent(InvalidArguments(f"{method[:20]!r} is no method. Use one of: {known}."))
    sent = validate_headers(headers)
    if idempotency_key and method not in SAFE_METHODS and not has_header(sent, "idempotency-key"):
        sent = (*sent, ("Idempotency-Key", _idempotency_key_header(idempotency_key)))
    return HttpRequest(method, parse_target(url), sent, body)


def _idempotency_key_header(key: str) -> str:
    """The key if it can be a header value, else its hash: call ids are chosen by callers and may hold anything."""
    if len(key) <= 255 and key.isascii() and key.isprintable() and key == key.strip():
        return key
    return sha256(key.encode("utf-8", "surrogatepass")).hexdigest()
