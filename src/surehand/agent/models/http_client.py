"""The HTTP client that the official SDKs send their requests through: the package's own, with its address rules.

Only the public internet is reached, and the server that a developer wrote down in `base_url`. A request that goes
through a proxy of the environment is checked there: this side does not even look up the host.
"""

from __future__ import annotations

import ssl
from functools import cache
from typing import TYPE_CHECKING, Any
from urllib.request import getproxies, proxy_bypass

from surehand.agent.models.base import ModelError
from surehand.agent.models.last_bytes import record_last_bytes
from surehand.core.errors import ToolError
from surehand.http.settings import HttpSettings
from surehand.http.target import HttpTarget, parse_target

if TYPE_CHECKING:
    import httpx2

CONNECT_TIMEOUT_SECONDS = 10.0
MAX_RESPONSE_BYTES = 512 * 1024 * 1024
"""Bytes of one response: servers stream a few letters of an answer in an event of some hundred bytes."""


def build_timeout(idle_timeout: float) -> httpx2.Timeout:
    """The time limits of a request: a server that sends nothing for this long has failed."""
    import httpx2  # an extra, which takes as long to load as the rest of this package

    return httpx2.Timeout(idle_timeout, connect=min(idle_timeout, CONNECT_TIMEOUT_SECONDS))


def build_http_client(base_url: str | None, idle_timeout: float) -> httpx2.AsyncClient:
    """A client for requests to one server.

    Args:
        base_url: the server that a developer wrote down, which may have a private address; None for the provider's own.
    """
    import httpx2  # see `build_timeout`

    from surehand.http.transport import GuardedClient  # loads httpx2

    target = None if base_url is None else _parse_base_url(base_url)
    options: dict[str, Any] = {
        "timeout": build_timeout(idle_timeout),
        "follow_redirects": False,
        "event_hooks": {"response": [record_last_bytes]},
    }
    if _has_proxy(target):
        return httpx2.AsyncClient(verify=_tls_context(), **options)
    settings = HttpSettings(
        endpoints=() if target is None else [(target.host, target.port)],
        timeout=None,
        connect_timeout=min(idle_timeout, CONNECT_TIMEOUT_SECONDS),
        read_timeout=idle_timeout,
        max_bytes=MAX_RESPONSE_BYTES,
        verify=_tls_context(),
    )
    return GuardedClient(settings, **options)


def _parse_base_url(base_url: str) -> HttpTarget:
    try:
        return parse_target(base_url)
    except ToolError as error:
        raise ModelError(f"The address of the model cannot be used: {error}") from None


def _has_proxy(target: HttpTarget | None) -> bool:
    proxies = getproxies()
    scheme = "https" if target is None else target.scheme
    if not (proxies.get(scheme) or proxies.get("all")):
        return False
    return target is None or not proxy_bypass(target.host)


@cache
def _tls_context() -> ssl.SSLContext:
    """One context for all requests: reading the certificates takes longer than building the rest of a client."""
    import httpx2  # see `build_timeout`

    return httpx2.create_ssl_context()
