"""Request: what is asked of one target, and how it goes over the wire."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING

from toolwright.core.errors import InvalidArguments
from toolwright.http.decoding import OFFERED
from toolwright.http.failures import unsent
from toolwright.http.headers import Headers, checked, has
from toolwright.http.settings import Settings
from toolwright.http.target import Target, target_of

if TYPE_CHECKING:
    import httpcore2

METHODS = frozenset({"GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE"})
SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
"""Methods that ask for nothing to be changed: they need no idempotency key."""


@dataclass(frozen=True, slots=True)
class Request:
    """A request, as it goes to one target."""

    method: str
    target: Target
    headers: Headers = ()
    body: bytes | None = None

    def on_the_wire(self, settings: Settings) -> httpcore2.Request:
        """As `httpcore2` takes it."""
        import httpcore2

        target = self.target
        url = httpcore2.URL(scheme=target.scheme, host=target.host, port=target.port, target=target.path)
        headers = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in self._headers(settings)]
        connect, read = settings.connect_timeout, settings.read_timeout
        timeouts = {"connect": connect, "read": read, "write": read, "pool": connect}
        return httpcore2.Request(self.method, url, headers=headers, content=self.body, extensions={"timeout": timeouts})

    def _headers(self, settings: Settings) -> Headers:
        """The caller's, and before them those of the connection."""
        ours = [("Host", self.target.authority), ("Accept-Encoding", OFFERED)]
        if not has(self.headers, "user-agent"):
            ours.append(("User-Agent", settings.user_agent))
        if not has(self.headers, "accept"):
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
    """A request that can be sent; the key goes along unless nothing is changed, or the headers hold one already."""
    method = method.upper()
    if method not in METHODS:
        known = ", ".join(sorted(METHODS))
        raise unsent(InvalidArguments(f"{method[:20]!r} is no method. Use one of: {known}."))
    sent = checked(headers)
    if idempotency_key and method not in SAFE and not has(sent, "idempotency-key"):
        sent = (*sent, ("Idempotency-Key", _as_key(idempotency_key)))
    return Request(method, target_of(url), sent, body)


def _as_key(text: str) -> str:
    """Whoever calls may give his call any name, and not every name can be a header."""
    if len(text) <= 255 and text.isascii() and text.isprintable() and text == text.strip():
        return text
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
