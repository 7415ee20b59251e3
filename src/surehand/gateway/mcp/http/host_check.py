"""The check of `Host` and `Origin` headers: which names this server has, and which web pages may send requests.

An attacker's page can make its own name resolve to this machine (DNS rebinding). The `Host` header of its requests
still has that name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, TypeAlias
from urllib.parse import urlsplit

from mcp.server.streamable_http import MCP_SESSION_ID_HEADER
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import JSONResponse, Response

from surehand.core.errors import DefinitionError
from surehand.gateway.mcp.log_throttle import LogThrottle

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

LOOPBACK_HOSTS = frozenset({"127.0.0.1", "localhost", "[::1]"})
WILDCARD = "*"
MAX_LOGGED_LENGTH = 100
HOST_REFUSED_MESSAGE = (
    "A request for the host %s was refused (421). If it is a name of this server, add it to hosts= or --allow-host."
)
ORIGIN_REFUSED_MESSAGE = (
    "A request from the origin %s was refused (403). To allow it, add it to origins= or --allow-origin."
)
_EXPOSED_HEADERS = [MCP_SESSION_ID_HEADER, "WWW-Authenticate"]
_HOST_PATTERN = re.compile(r"(?P<name>\[[0-9a-f:.]+\]|[a-z0-9_.-]+)(?P<port>:\d{1,5})?")


Refuse: TypeAlias = "Callable[[int, str], ASGIApp]"
"""Builds the response to a refused request from a status and a sentence."""


class HostCheck:
    """Lets requests for known hosts from known origins through to an app, and answers the preflights of browsers."""

    def __init__(
        self,
        app: ASGIApp,
        hosts: Iterable[str],
        origins: Iterable[str],
        methods: Iterable[str],
        *,
        default_hosts: frozenset[str] = LOOPBACK_HOSTS,
        allow_loopback_origins: bool = True,
        refuse: Refuse | None = None,
    ) -> None:
        """Without `allow_loopback_origins`, only pages of the request's own host and of `origins` may send requests."""
        self._app = app
        self._allow_loopback_origins = allow_loopback_origins
        self._refuse = refuse or _json_refusal
        self._cors_app = _with_cors(app, methods)
        self._log_throttle = LogThrottle()
        self._hosts = default_hosts | {_validate_entry(host, "hosts") for host in _as_list(hosts, "hosts")}
        self._origins = frozenset(_validate_entry(origin, "origins") for origin in _as_list(origins, "origins"))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request, or refuse it: 421 for an unknown host, 403 for an unknown origin."""
        hosts = []
        origins = []
        for name, value in scope["headers"]:
            if name == b"host":
                hosts.append(value)
            elif name == b"origin":
                origins.append(value)
        host = hosts[0].decode("latin-1").lower() if len(hosts) == 1 else ""
        if not self._is_known_host(host):
            self._log_throttle.warn("421", HOST_REFUSED_MESSAGE, _escape_for_log(hosts))
            await self._refuse(421, "This host is not served here.")(scope, receive, send)
        elif origins and not (len(origins) == 1 and self._is_known_origin(origins[0].decode("latin-1").lower(), host)):
            self._log_throttle.warn("403", ORIGIN_REFUSED_MESSAGE, _escape_for_log(origins))
            await self._refuse(403, "Requests from this origin are not allowed.")(scope, receive, send)
        else:
            await (self._cors_app if origins else self._app)(scope, receive, send)

    def _is_known_host(self, host: str) -> bool:
        # A configured name without a port allows any port: behind port forwarding the client's port is not ours, and a
        # web page cannot make its browser send another host name.
        match = _HOST_PATTERN.fullmatch(host)
        return match is not None and bool({WILDCARD, host, match["name"]} & self._hosts)

    def _is_known_origin(self, origin: str, requested_host: str) -> bool:
        if {WILDCARD, origin} & self._origins:
            return True
        scheme, _, host = origin.partition("://")
        match = _HOST_PATTERN.fullmatch(host)
        if scheme not in ("http", "https") or match is None:
            return False
        return match["name"] in LOOPBACK_HOSTS if self._allow_loopback_origins else host == requested_host


def _json_refusal(status: int, sentence: str) -> Response:
    return JSONResponse({"error": sentence}, status)


def _with_cors(app: ASGIApp, methods: Iterable[str]) -> ASGIApp:
    """The app for requests of web pages, which may send any header. Their origin has been checked before."""
    return CORSMiddleware(
        app,
        allow_origin_regex=".*",
        allow_methods=[*methods],
        allow_headers=["*"],  # `Mcp-Param-*` headers have any name
        allow_private_network=True,
        expose_headers=_EXPOSED_HEADERS,
    )


def _escape_for_log(values: list[bytes]) -> str:
    """Header values for the log, without line breaks and control characters."""
    return ascii(b", ".join(values).decode("latin-1")[:MAX_LOGGED_LENGTH])


def _as_list(values: Iterable[str], option: str) -> list[str]:
    if isinstance(values, str):
        raise DefinitionError(
            f"{option} must be a list of strings, got {values!r}.", fix=f"give a list: {option}=[{values!r}]."
        )
    return list(values)


def _validate_entry(entry: str, option: str) -> str:
    text = entry.lower()
    parts = urlsplit(text) if option == "origins" else None
    bare = text if parts is None else text.removeprefix(f"{parts.scheme}://")
    has_valid_scheme = parts is None or parts.scheme in ("http", "https")
    if text != WILDCARD and not (has_valid_scheme and _HOST_PATTERN.fullmatch(bare)):
        example = "https://example.org" if option == "origins" else "example.org or example.org:8443"
        raise DefinitionError(f"{option} has {entry!r}, which is malformed.", fix=f"write it as {example}.")
    return text
