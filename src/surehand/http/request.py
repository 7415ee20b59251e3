"""A request of the web client to one target, and its form as an `httpx2.Request`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, TypeAlias

from surehand.core.errors import InvalidArguments
from surehand.http.decoding import ACCEPT_ENCODING
from surehand.http.errors import mark_unsent
from surehand.http.headers import HeaderPairs, has_header, validate_headers
from surehand.http.settings import HttpSettings
from surehand.http.target import HttpTarget, parse_target

if TYPE_CHECKING:
    import httpx2

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS", "QUERY"})
"""Methods that change nothing: they need no idempotency key."""
ALLOWED_METHODS = SAFE_METHODS | {"POST", "PUT", "PATCH", "DELETE"}


@dataclass(frozen=True, slots=True)
class StreamedBody:
    """A body that is sent piece by piece, for example a large file."""

    open_chunks: Callable[[], AsyncIterator[bytes]]
    """Opens the body from its beginning; called again if a redirect on the same origin asks for it once more."""
    size: int
    """Bytes of the whole body."""


OutgoingBody: TypeAlias = bytes | StreamedBody


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """A request to one target; a redirect makes another one of it."""

    method: str
    target: HttpTarget
    headers: HeaderPairs = ()
    body: OutgoingBody | None = None

    @property
    def body_size(self) -> int:
        """Bytes of the body."""
        return self.body.size if isinstance(self.body, StreamedBody) else len(self.body or b"")

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
            stream=_as_httpx2_stream(self.body),
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
            ours.append(("Content-Length", str(self.body_size)))
        return (*ours, *self.headers)


def _as_httpx2_stream(body: OutgoingBody | None) -> httpx2.AsyncByteStream:
    import httpx2  # heavy, and an extra

    if not isinstance(body, StreamedBody):
        return httpx2.ByteStream(body or b"")

    open_chunks = body.open_chunks

    class ChunkStream(httpx2.AsyncByteStream):
        async def __aiter__(self) -> AsyncIterator[bytes]:
            async for chunk in open_chunks():
                yield chunk

    return ChunkStream()


def build_request(
    method: str,
    url: str | HttpTarget,
    headers: Mapping[str, str] | Iterable[tuple[str, str]] | None = None,
    body: OutgoingBody | None = None,
    idempotency_key: str | None = None,
) -> HttpRequest:
    """Validate a request; the idempotency key is added unless the method is safe or the headers hold one already."""
    method = method.upper()
    if method not in ALLOWED_METHODS:
        known = ", ".join(sorted(ALLOWED_METHODS))
        raise mark_unsent(InvalidArguments(f"{method[:20]!r} is no method. Use one of: {known}."))
    sent = validate_headers(headers)
    if idempotency_key and method not in SAFE_METHODS and not has_header(sent, "idempotency-key"):
        sent = (*sent, ("Idempotency-Key", idempotency_key_header(idempotency_key)))
    return HttpRequest(method, parse_target(url) if isinstance(url, str) else url, sent, body)


def idempotency_key_header(key: str) -> str:
    """The key if it can be a header value, else its hash: call ids are chosen by callers and may hold anything."""
    if len(key) <= 255 and key.isascii() and key.isprintable() and key == key.strip():
        return key
    return sha256(key.encode("utf-8", "surrogatepass")).hexdigest()
