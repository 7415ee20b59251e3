"""Pool: the connections of a client, all of them made by its connector."""

from __future__ import annotations

import ssl
from functools import cache
from typing import TYPE_CHECKING, Any, cast

from toolwright.core.errors import NotStarted
from toolwright.http.connector import Connector
from toolwright.http.settings import Settings

if TYPE_CHECKING:
    import httpcore2


def pool_of(connector: Connector, settings: Settings) -> httpcore2.AsyncConnectionPool:
    """Connections that are made by the connector alone: no proxy, no socket file, no HTTP/2."""
    try:
        from httpcore2 import AsyncConnectionPool
    except ImportError:
        raise NotStarted("HTTP needs the package httpx2: pip install 'toolwright[http]'") from None
    return AsyncConnectionPool(
        ssl_context=trust_of(settings),
        network_backend=cast(Any, connector),  # it is one in all but its base class, which is loaded on first use
        max_connections=settings.max_connections,
        max_keepalive_connections=16,
        keepalive_expiry=5.0,
    )


def trust_of(settings: Settings) -> ssl.SSLContext:
    """Whose certificates are believed."""
    return settings.verify or _system_trust()


@cache
def _system_trust() -> ssl.SSLContext:
    """Reading the certificates takes a while, and they are the same for all."""
    from httpcore2 import default_ssl_context

    return default_ssl_context()
