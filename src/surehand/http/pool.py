"""The connection pool of the guarded transport: it connects only through a `Connector`.

Imported on first use: `httpcore2` is an extra.
"""

from __future__ import annotations

import ssl
from functools import cache
from typing import Any, cast

from httpcore2 import AsyncConnectionPool, AsyncNetworkStream, default_ssl_context

from surehand.http.connector import Connector
from surehand.http.settings import HttpSettings
from surehand.http.surplus import SurplusDetectingStream

MAX_IDLE_CONNECTIONS = 16
MAX_IDLE_SECONDS = 3.0
"""An idle connection is not used after that: many servers close theirs after five seconds, and a request that is sent
at the same moment would be lost."""


class PoolConnector(Connector):
    """A connector whose connections are not used again after a server has sent too much."""

    async def connect_tcp(self, *args: Any, **options: Any) -> AsyncNetworkStream:
        """Connect as `Connector` does; `httpcore2` calls this for each new connection."""
        return SurplusDetectingStream(await super().connect_tcp(*args, **options))


def build_connection_pool(connector: PoolConnector, settings: HttpSettings) -> AsyncConnectionPool:
    """Create a pool for HTTP/1.1 without proxies and socket files."""
    return AsyncConnectionPool(
        ssl_context=settings.verify or _system_certificates(),
        network_backend=cast(Any, connector),  # has all methods of a network backend, but not its base class
        max_connections=settings.max_connections,
        max_keepalive_connections=MAX_IDLE_CONNECTIONS,
        keepalive_expiry=MAX_IDLE_SECONDS,
    )


@cache
def _system_certificates() -> ssl.SSLContext:
    """Loaded once: reading them takes a while."""
    return default_ssl_context()
