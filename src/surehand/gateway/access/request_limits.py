"""Limits of requests: how many one identity may make in a time, and how many may be in flight."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from time import monotonic

from surehand.core.durations import parse_rate
from surehand.core.quotas import Quota, QuotaLimits
from surehand.gateway.access.identity import Identity
from surehand.gateway.problems import Problem

MAX_RATE_BUCKETS = 10_000
RETRY_AFTER_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class GatewayLimits:
    """The most that the gateway does at the same time."""

    requests: int = 256
    """Requests in flight, without event streams. More are answered with 429 at once."""
    requests_per_identity: int = 64
    """Requests in flight of one user or token; the operator is limited by `requests` alone."""
    streams: int = 2_000
    """Open event streams."""
    streams_per_identity: int = 100
    body_bytes: int = 16 << 20
    """Bytes of the body of one request; a larger one is answered with 413."""
    shutdown_seconds: float = 10.0
    """How long calls that run may take to end when the gateway stops. Then they are cancelled."""


class _RateBucket:
    """Allows a number of requests in a period; unused ones are saved up to that number."""

    def __init__(self, rate: str) -> None:
        self.rate = rate
        count, seconds = parse_rate(rate)
        self._capacity = float(count)
        self._per_second = count / seconds
        self._available = self._capacity
        self._updated_at = monotonic()

    def take(self) -> float:
        """Count a request; returns 0, or the seconds after which the next one is allowed."""
        now = monotonic()
        self._available = min(self._capacity, self._available + (now - self._updated_at) * self._per_second)
        self._updated_at = now
        if self._available < 1:
            return (1 - self._available) / self._per_second
        self._available -= 1
        return 0.0


class RequestLimiter:
    """Counts the requests of all identities, and refuses those above a limit with 429."""

    def __init__(self, limits: GatewayLimits) -> None:
        self.limits = limits
        self._in_flight: Quota[object] = Quota(QuotaLimits())
        self._mcp_requests: Quota[object] = Quota(QuotaLimits())
        """Of tokens with a limit of their own. They do not fill the gateway: the MCP server has limits for all."""
        self._streams: Quota[object] = Quota(QuotaLimits())
        self._buckets: dict[str, _RateBucket] = {}

    @property
    def in_flight(self) -> int:
        """Requests in flight, without event streams."""
        return len(self._in_flight)

    @property
    def is_full(self) -> bool:
        """Whether the next request is one too many, whoever sends it."""
        return len(self._in_flight) >= self.limits.requests

    def check_rate(self, identity: Identity) -> None:
        """Count a request of whatever kind; raises `Problem` if its token has made too many."""
        if identity.rate is not None and (seconds := self._bucket(identity, identity.rate).take()):
            raise Problem("rate_limited", f"This token may make {identity.rate} requests.", retry_after=seconds)

    @contextmanager
    def count_request(self, identity: Identity) -> Iterator[None]:
        """Count a request while the context is entered; raises `Problem` if it is one too many."""
        limit = identity.concurrent or self.limits.requests_per_identity
        if identity.is_operator and identity.concurrent is None:
            limit = self.limits.requests
        limit -= self._mcp_requests.count(identity.limit_key)
        self._check_room(self._in_flight, identity, self.limits.requests, limit, "requests in flight")
        with self._count(self._in_flight, identity):
            yield

    def try_count_mcp_request(self, identity: Identity) -> AbstractContextManager[None] | None:
        """Counts a request of an MCP client while the context is entered; None if it is one too many for its token."""
        in_flight = self._in_flight.count(identity.limit_key) + self._mcp_requests.count(identity.limit_key)
        if identity.concurrent is not None and in_flight >= identity.concurrent:
            return None
        return self._count(self._mcp_requests, identity)

    @contextmanager
    def _count(self, quota: Quota[object], identity: Identity) -> Iterator[None]:
        key = object()
        quota.acquire(key, identity.limit_key)
        try:
            yield
        finally:
            quota.release(key)

    @contextmanager
    def count_stream(self, identity: Identity) -> Iterator[None]:
        """Count an event stream while the context is entered; raises `Problem` if it is one too many."""
        limit = self.limits.streams if identity.is_operator else self.limits.streams_per_identity
        self._check_room(self._streams, identity, self.limits.streams, limit, "event streams")
        with self._count(self._streams, identity):
            yield

    def _check_room(self, quota: Quota[object], identity: Identity, total: int, own: int, what: str) -> None:
        if len(quota) >= total:
            raise Problem("rate_limited", f"The gateway has {total} {what}.", retry_after=RETRY_AFTER_SECONDS)
        if quota.count(identity.limit_key) >= own:
            raise Problem(
                "rate_limited", f"This identity has as many {what} as it may.", retry_after=RETRY_AFTER_SECONDS
            )

    def _bucket(self, identity: Identity, rate: str) -> _RateBucket:
        bucket = self._buckets.get(identity.limit_key)
        if bucket is None or bucket.rate != rate:
            while len(self._buckets) >= MAX_RATE_BUCKETS:
                del self._buckets[next(iter(self._buckets))]
            bucket = self._buckets[identity.limit_key] = _RateBucket(rate)
        return bucket
